"""A training at each of its steps, from what is kept of it: moments to turn over.

Pure. Long trainings have more steps than a slider has room for, so a moment is of a
*stretch* of steps that follow each other under one configuration: its numbers are the
means over the rows of these steps, and nothing is interpolated. A moment of a stretch
knows no more than rows do; requests, refusals and losses of tasks are not in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kit.trace.log import Rows
from kit.trace.named_rows import EpochRow
from kit.trace.trace import STEP_KINDS, Trace
from widgets.board import run_state
from widgets.board.run_state import Moment

Formula = Callable[[str], int | None]  # of a topology: the bytes of a step


class EpochSpan(NamedTuple):
    """Steps under one epoch, from the first to the last."""

    epoch: int
    first: int
    last: int


class StepFrame(NamedTuple):
    """A moment at the end of a stretch: its last step, and when that ended (ns)."""

    moment: Moment
    step: int
    end: int


def stretches(steps: Rows, most: int) -> list[EpochSpan]:
    """Cut steps into `most` stretches at most, or leave some out.

    They are of equal length but where the epoch changes. With more epochs than `most`,
    stretches evenly spread over the training are returned.

    >>> from kit.trace.traffic import STEP, rows
    >>> row = (0.5, 8, 0, 1, 0, 0, 0)
    >>> table = rows(STEP, [(1, n, n // 3, *row) for n in range(5)])
    >>> [tuple(one) for one in stretches(table, 3)]
    [(0, 0, 1), (0, 2, 2), (1, 3, 4)]
    """
    order = np.lexsort((steps["epoch"], steps["step"]))
    numbers, epochs = steps["step"][order], steps["epoch"][order]
    # Where steps were done again, the last time counts.
    is_last = np.append(numbers[1:] != numbers[:-1], True)[: len(numbers)]
    numbers, epochs = numbers[is_last].tolist(), epochs[is_last].tolist()
    _, held = np.unique(epochs, return_counts=True)
    length = max(1, -(-len(numbers) // most))
    while sum(-(-held // length)) > most and length < max(held):
        length += 1
    found: list[list[tuple[int, int]]] = []
    for epoch, number in zip(epochs, numbers, strict=True):
        if not found or found[-1][0][0] != epoch or len(found[-1]) == length:
            found.append([])
        found[-1].append((epoch, number))
    if len(found) > most:
        chosen = np.unique(np.linspace(0, len(found) - 1, most).round().astype(int))
        found = [found[place] for place in chosen.tolist()]
    return [EpochSpan(one[0][0], one[0][1], one[-1][1]) for one in found]


def frames(
    trace: Trace, end: Moment, formula: Formula, most: int = 200
) -> list[StepFrame]:
    """Return the moments of a trace, `most` at most; `end` is how it stands now.

    Steps whose transfers are not kept any more are left out. Cost: 0.2 ms a moment.
    """
    steps = trace.steps[trace.steps["examples"] > 0]
    steps = np.sort(steps[steps["step"] >= trace.kept.details], order="step")
    moved = trace.transfers[np.isin(trace.transfers["kind"], STEP_KINDS)]
    moved = moved[np.argsort(moved["step"], kind="stable")]
    epochs = {row.number: row for row in trace.epochs}
    found = [
        _frame(trace, one, _of(steps, one), _of(moved, one), epochs, end, formula)
        for one in stretches(steps, most)
        if one.epoch in epochs
    ]
    peak = max((one.moment.peak() for one in found), default=0.0)
    return list(_scaled(found, peak))


def _of(rows: Rows, one: EpochSpan) -> Rows:
    """Return the rows of a stretch, from rows in the order of steps."""
    low, high = np.searchsorted(rows["step"], [one.first, one.last + 1])
    mine: Rows = rows[low:high]
    found: Rows = mine[mine["epoch"] == one.epoch]
    return found


def _frame(
    trace: Trace,
    one: EpochSpan,
    steps: Rows,
    moved: Rows,
    epochs: dict[int, EpochRow],
    end: Moment,
    formula: Formula,
) -> StepFrame:
    row = epochs[one.epoch]
    code = moved["source"].astype(np.int64) << 16 | moved["destination"]
    found = run_state.means(steps, code, moved["bytes"], formula(row.topology))
    if one.first == one.last:
        stretch = f"in step {one.last + 1:,}"
    else:
        stretch = f"in steps {one.first + 1:,} to {one.last + 1:,}"
    loss, accuracy = run_state.learned(replace(trace, steps=steps), one.last)
    moment = Moment(
        trace.tasks,
        state=end.state,
        step=one.last + 1,
        steps=end.steps,
        topology=row.topology,
        link=row.link,
        rates=found.rates,
        per_step=found.per_step,
        numbers=found.numbers,
        hosts=() if end.hosting else end.hosts,
        stretch=stretch,
        loss=loss,
        accuracy=accuracy,
    )
    return StepFrame(moment, one.last, int(steps["end"].max()))


def _scaled(found: list[StepFrame], peak: float) -> Iterator[StepFrame]:
    """Give all moments one scale, so that their bars and arrows compare."""
    for one in found:
        scale, limit = run_state.capacity(one.moment.link, peak)
        yield one._replace(moment=replace(one.moment, scale=scale, limit=limit))
