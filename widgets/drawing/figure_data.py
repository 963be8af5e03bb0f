"""What the figures draw: a trace turned into columns.

Pure: numpy only, no bokeh. One function for each figure; the units are those of the
axes (steps, seconds, milliseconds, megabytes of 1,000,000 bytes). However long the run,
the columns are small enough for a page: long series are thinned, tiny spans joined.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kit.trace.log import Rows
from kit.trace.named_rows import Change, EpochRow, Switch
from kit.trace.time_bins import Bins, spread
from kit.trace.trace import Trace
from kit.trace.traffic import ANYONE, Phase

Columns = dict[str, Any]
#: Task name -> bytes sent and received per step, by a closed formula.
Formula = Mapping[str, tuple[int, int]]

MB = 1e6
OTHERS = "other links together"  # the end of the name of a sum of links
_POINTS = 1500  # of a curve; a screen has pixels for fewer
_BINS = 150
_PIXELS = 1000
_MOST_ARROWS = 150


class TimeWindow(NamedTuple):
    """A stretch of the run: its steps and times (nanoseconds); `zero` is marked."""

    first_step: int
    last_step: int
    start: int
    end: int
    zero: int
    label: str  # what happened at zero; "" if nothing


def loss(trace: Trace) -> Columns:
    """Return step, loss and mean: the loss of each step and its moving mean.

    The window of the mean is a fortieth of the run. Of each stretch of a long run the
    smallest and the largest loss are kept, so that spikes stay visible.
    """
    steps, values = trace.losses()
    keep = extremes(values)
    mean = moving_mean(values, mean_width(len(steps)))[keep]
    return {"step": steps[keep], "loss": values[keep], "mean": mean}


def moving_mean(
    values: npt.NDArray[Any], width: int, *, is_trailing: bool = False
) -> npt.NDArray[Any]:
    """Return for each value the mean of the `width` values around it.

    With `is_trailing` it is the mean of the value and those before it; if not, `width`
    is odd. Near an end there are fewer, and what is not finite does not count. Cost:
    the number of values times the width.

    >>> moving_mean(np.array([0.0, 3.0, 6.0, np.nan]), 3).tolist()
    [1.5, 3.0, 4.5, 6.0]
    """
    n, first = len(values), 0 if is_trailing else width // 2
    is_there, ones = np.isfinite(values), np.ones(width)
    if not n:
        return np.zeros(0)
    # Not differences of running sums: after a spike they would be rounded off.
    around = slice(first, first + n)
    total = np.convolve(np.where(is_there, values, 0.0), ones)[around]
    n_known = np.rint(np.convolve(is_there, ones)[around])
    means = np.full(n, np.nan)
    np.divide(total, n_known, out=means, where=n_known > 0)
    return means


def mean_width(n_steps: int) -> int:
    """Return the width of the moving mean of the loss, in steps.

    >>> mean_width(20), mean_width(400)
    (1, 11)
    """
    half = min(n_steps // 80, 250)
    return 2 * half + 1


def extremes(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the indexes to draw: all, or the extremes of each stretch."""
    n = len(values)
    if n <= _POINTS:
        return np.arange(n)
    finite = np.nan_to_num(values)
    edges = np.linspace(0, n, _POINTS // 2 + 1).astype(int)
    kept = {0, n - 1}
    for low, high in pairwise(edges.tolist()):
        kept |= {low + int(finite[low:high].argmin())}
        kept |= {low + int(finite[low:high].argmax())}
    return np.array(sorted(kept))


def regions(trace: Trace) -> Columns:
    """Return left, right and topology: the steps under each topology."""
    return regions_of(sorted(trace.epochs), _steps(trace)[1])


def regions_of(epochs: Iterable[EpochRow], last: int) -> Columns:
    """Return the same for epochs in order, of which the last ends at step `last`."""
    left: list[int] = []
    names: list[str] = []
    for row in epochs:
        # A generation of an elastic training repeats steps, so it may begin before an
        # epoch of the one before: that has no steps left.
        while left and left[-1] > row.first_step:
            left.pop()
            names.pop()
        if names[-1:] != [row.topology]:
            left.append(row.first_step)
            names.append(row.topology)
    right = [*left[1:], *[max([last, *left])] * bool(left)]
    return {"left": left, "right": right, "topology": names}


def switches(
    trace: Trace, origin: int | None = None, changes: Sequence[Change] = ()
) -> Columns:
    """Return step, second and label of each switch; seconds from `origin` (ns).

    By default that is the first event. `changes` are those of an elastic training; each
    begins a generation.
    """
    origin = trace.bounds()[0] if origin is None else origin
    # The epochs of a group are only what came between two failures.
    changes_seen = trace.switches() if trace.calls is None else ()
    labels_of = [_label(switch, changes) for switch in changes_seen]
    return {
        "step": [step for step, _ in labels_of],
        "second": [(switch.after.at - origin) / 1e9 for switch in changes_seen],
        "label": [label for _, label in labels_of],
    }


def _label(switch: Switch, changes: Sequence[Change]) -> tuple[int, str]:
    """Return the step and the label of a switch, or of a change of tasks."""
    after = switch.after
    if after.generation == switch.before.generation:
        return after.first_step, switch.label
    if after.generation > len(changes):  # as of a saved trace
        return after.first_step, "tasks changed"
    change = changes[after.generation - 1]
    return change.step, change.label


def changes_of(epochs: Iterable[EpochRow], changes: Sequence[Change]) -> Columns:
    """Return step, label, left and right of each change of an elastic training.

    From left to right are the steps that were done again.
    """
    first: dict[int, int] = {}  # the step before which each generation began
    for row in epochs:
        first.setdefault(row.generation, row.first_step)
    changes_done = [
        (change, first[n]) for n, change in enumerate(changes, 1) if n in first
    ]
    return {
        "step": [change.step for change, _ in changes_done],
        "label": [change.label for change, _ in changes_done],
        "left": [begin for _, begin in changes_done],
        "right": [begin + change.repeated for change, begin in changes_done],
    }


def links(trace: Trace, most: int = 12) -> dict[str, Columns]:
    """Return for each link its columns second and rate (MB/s until the next row).

    Rates are means over whole steps: with other cuts, bursts would interfere with them.
    The busiest links are single, in the order of their task numbers; if there are more
    than `most`, the others are summed up in one line, the last.
    """
    if not len(trace.transfers):
        return {}
    origin, _ = trace.bounds()
    edges = _edges(trace)
    pairs, amount = trace.bytes_between(edges)
    rate = amount / np.diff(edges) * (1e9 / MB)
    second = (edges - origin) / 1e9
    return busiest(trace, pairs, amount.sum(axis=1), second, rate, most)


def busiest(
    trace: Trace,
    pairs: Sequence[tuple[int, int]],
    amount: npt.NDArray[Any],
    second: npt.NDArray[Any],
    rate: npt.NDArray[Any],
    most: int,
) -> dict[str, Columns]:
    """Return the columns of `links`, from a row of `rate` for each of `pairs`."""
    # A value holds until the next row, so the end of the last stretch is a row too.
    rate = np.column_stack([rate, rate[:, -1]])
    order = np.argsort(-amount, kind="stable")
    single = order if len(pairs) <= most else order[: most - 1]
    rest = order[len(single) :]
    lines = {
        link_name(trace, *pairs[i]): {"second": second, "rate": rate[i]}
        for i in sorted(single.tolist())
    }
    if len(rest):
        name = f"{len(rest)} {OTHERS}"
        lines[name] = {"second": second, "rate": rate[rest].sum(axis=0)}
    return lines


def _edges(trace: Trace) -> npt.NDArray[np.int64]:
    """Return the times that cut the run into about 150 stretches of whole steps.

    Every switch is a cut too. Steps without their transfers, which were dropped, are
    left out, or they would look idle. Without any step, stretches are equally long.
    """
    table = trace.transfers
    first, last = int(table["start"].min()), int(table["end"].max()) + 1
    kept = trace.steps[trace.steps["step"] >= table["step"].min()]
    is_cut = len(kept) < len(trace.steps)
    if is_cut:  # the oldest step that is left may have lost some transfers
        kept = kept[kept["step"] > table["step"].min()]
    if not len(kept):
        return np.unique(np.linspace(first, last, _BINS + 1).astype(np.int64))
    numbers, row_of = np.unique(kept["step"], return_inverse=True)
    starts = np.full(len(numbers), np.iinfo(np.int64).max)
    np.minimum.at(starts, row_of, kept["start"])
    first = int(starts.min()) if is_cut else min(first, int(starts.min()))
    last = max(last, int(kept["end"].max()))
    every = -(-len(numbers) // _BINS)
    changed = np.isin(numbers, [row.first_step for row in trace.epochs])
    chosen = starts[changed | (np.arange(len(numbers)) % every == 0)]
    inside = chosen[(chosen > first) & (chosen < last)]
    return np.unique([first, *inside.tolist(), last])


def link_name(trace: Trace, source: int, destination: int) -> str:
    """Return the name of a link, for legends: `worker:0 -> ps:0`."""
    return f"{trace.names[source]} -> {trace.names[destination]}"


def window(trace: Trace, n_steps: int = 2) -> TimeWindow:
    """Return `n_steps` steps on each side of the first switch of topology.

    Without such a switch, or if its steps are not kept any more, they are around the
    middle of the kept steps; without any step it is the whole time.
    """
    if not len(trace.steps):
        start, end = trace.bounds()
        return TimeWindow(0, 0, start, end, start, "")
    low, high = _steps(trace)
    step, label = (low + high + 1) // 2, ""
    for switch in trace.switches():
        after = switch.after
        if low < after.first_step <= high and after.topology != switch.before.topology:
            step, label = after.first_step, switch.label
            break
    first, last = max(low, step - n_steps), min(high, step + n_steps - 1)
    number = trace.steps["step"]
    inside = trace.steps[(number >= first) & (number <= last)]
    zero = int(inside["start"][inside["step"] >= step].min())
    start, end = int(inside["start"].min()), int(inside["end"].max())
    return TimeWindow(first, last, start, end, zero if label else start, label)


def timeline(trace: Trace, view: TimeWindow) -> Columns:
    """Return task, phase, left and right: what each task did (ms, `view.zero` is 0).

    Spans wider than a pixel stay as they are. Of narrower ones, a pixel gets the phase
    that took most of it, and equal neighbours are joined.
    """
    table = trace.spans
    table = table[(table["end"] > view.start) & (table["start"] < view.end)]
    pixel = max(1, -(-(view.end - view.start) // _PIXELS))
    wide = table["end"] - table["start"] >= pixel
    task, phase = table["task"][wide].tolist(), table["phase"][wide].tolist()
    left = np.maximum(table["start"][wide], view.start).tolist()
    right = np.minimum(table["end"][wide], view.end).tolist()
    pixels = Bins(view.start, pixel, _PIXELS)
    for number in range(len(trace.tasks)):
        mine = table[~wide & (table["task"] == number)]
        for kind, start, end in _joined(mine, pixels):
            task.append(number)
            phase.append(kind)
            left.append(start)
            right.append(end)
    names, words = trace.names, {item.value: item.name.lower() for item in Phase}
    return {
        "task": [names[number] for number in task],
        "phase": [words[number] for number in phase],
        "left": (np.array(left, np.float64) - view.zero) / 1e6,
        "right": (np.array(right, np.float64) - view.zero) / 1e6,
    }


def _joined(table: Rows, pixels: Bins) -> list[tuple[int, int, int]]:
    """Return (phase, start, end) of runs of pixels that one phase dominates."""
    if not len(table):
        return []
    start, end, phase = table["start"], table["end"], table["phase"]
    n_phases = 1 + max(Phase)
    amount = end - start
    spent = spread(start, end, amount, group=phase, n_groups=n_phases, bins=pixels)
    chief = np.where(spent.sum(axis=0) >= pixels.width / 2, spent.argmax(axis=0), 0)
    cuts = [0, *(np.flatnonzero(np.diff(chief)) + 1).tolist(), pixels.n]
    edges = pixels.edges()
    return [
        (int(chief[low]), int(edges[low]), int(edges[high]))
        for low, high in pairwise(cuts)
        if chief[low]
    ]


def flights(trace: Trace, view: TimeWindow) -> Columns:
    """Return task, left and right: when bytes were on their way to a task.

    In ms, as `timeline` has them. Messages that overlap, or have less than a pixel
    between them, are one stretch.
    """
    table = trace.transfers
    table = table[(table["end"] > view.start) & (table["start"] < view.end)]
    pixel = max(1, -(-(view.end - view.start) // _PIXELS))
    columns: Columns = {"task": [], "left": [], "right": []}
    for number, name in enumerate(trace.names):
        mine = np.sort(table[table["destination"] == number], order="start")
        if not len(mine):
            continue
        begin = np.maximum(mine["start"], view.start)
        reached = np.maximum.accumulate(np.minimum(mine["end"], view.end))
        first = np.flatnonzero(np.r_[True, begin[1:] > reached[:-1] + pixel])
        last = np.append(first[1:], len(mine)) - 1
        columns["task"] += [name] * len(first)
        columns["left"] += ((begin[first] - view.zero) / 1e6).tolist()
        columns["right"] += ((reached[last] - view.zero) / 1e6).tolist()
    return columns


def arrows(trace: Trace, view: TimeWindow) -> Columns:
    """Return source, target, sent, arrived, look and told of messages (ms).

    Of a group, the newest ones: from the row of who sent one to that of who got it. The
    look of one that nobody has asked for is "unread"; of one that did not come, which
    has no arrow, it is "missing".
    """
    table = trace.receipts
    last = np.maximum(table["end"], table["arrived"])
    table = table[(last > view.start) & (table["sent"] < view.end)][-_MOST_ARROWS:]
    columns: Columns = {
        name: [] for name in ("source", "target", "sent", "arrived", "look", "told")
    }
    for row in table:
        target = trace.names[row["destination"]]
        is_missing = row["bytes"] < 0
        source = "anyone" if row["source"] == ANYONE else trace.names[row["source"]]
        where = f", asked for in line {row['line']}" if row["line"] else ""
        if is_missing:
            title, look = f"{target} asked {source}{where}; nothing came", "missing"
        else:
            title = f"{source} to {target}, tag {row['tag']}: {row['bytes']:,} bytes"
            look = "message" if row["end"] else "unread"
            title += where if row["end"] else ", not asked for"
        sent, arrived = row["sent"], row["arrived"]
        ends = (row["end"], row["end"]) if is_missing else (sent, arrived)
        values = target if is_missing else source, target
        times = [(int(at) - view.zero) / 1e6 for at in ends]
        for name, value in zip(columns, (*values, *times, look, title), strict=True):
            columns[name].append(value)
    return columns


def tasks_of(trace: Trace, *drawn: Columns) -> list[str]:
    """Return the tasks that are in any of the columns, in the order of the trace."""
    names_drawn = {name for columns in drawn for name in columns.get("task", ())}
    names_drawn |= {name for columns in drawn for name in columns.get("target", ())}
    names_drawn |= {name for columns in drawn for name in columns.get("source", ())}
    return [name for name in trace.names if name in names_drawn]


def step_starts(trace: Trace, view: TimeWindow) -> Columns:
    """Return at (ms, `view.zero` is 0) and step: where each step of the view began."""
    table = trace.steps
    numbers = range(view.first_step, view.last_step + 1)
    starts = [(n, table["start"][table["step"] == n]) for n in numbers]
    return {
        "at": [(int(s.min()) - view.zero) / 1e6 for _, s in starts if len(s)],
        "step": [n for n, s in starts if len(s)],
    }


def volume(trace: Trace, formulas: Mapping[str, Formula]) -> Columns:
    """Return measured and calculated MB per step, for each topology and task.

    `place` is (topology, task); `sent`, `received` are measured over all steps of the
    topology; `formula_sent`, `formula_received` are NaN if `formulas` (topology -> task
    -> bytes) has no value. Tasks that neither moved bytes nor should are left out.
    """
    names = ("place", "sent", "received", "formula_sent", "formula_received")
    columns: Columns = {name: [] for name in names}
    for topology in dict.fromkeys(row.topology for row in sorted(trace.epochs)):
        epochs = [row.number for row in trace.epochs if row.topology == topology]
        n_steps = sum(trace.n_steps(epoch) for epoch in epochs)
        formula = formulas.get(topology, {})
        for task in trace.names if n_steps else ():
            sent = sum(trace.sent(task, epoch) for epoch in epochs)
            received = sum(trace.received(task, epoch) for epoch in epochs)
            if not (sent or received or task in formula):
                continue
            expected = formula.get(task, (np.nan, np.nan))
            columns["place"].append((topology, task))
            columns["sent"].append(sent / n_steps / MB)
            columns["received"].append(received / n_steps / MB)
            columns["formula_sent"].append(expected[0] / MB)
            columns["formula_received"].append(expected[1] / MB)
    return columns


def _steps(trace: Trace) -> tuple[int, int]:
    """Return the first and the last kept step; (0, 0) if there is none."""
    number = trace.steps["step"]
    return (int(number.min()), int(number.max())) if len(number) else (0, 0)
