"""The board of a training as a page that plays: a slider over its steps, no kernel.

Pure. The picture of the traffic, the numbers, the table of the links and a line in the
curves change with the slider; what concerns the whole training does not. Where no
script runs, the page shows the end.

Long trainings have more steps than a slider has room for, so a frame is a *stretch* of
successive steps under one configuration: its numbers are the means over the rows of
these steps, and nothing is interpolated. Requests, refusals and losses of tasks are not
in the rows, so a frame does not have them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kit.markup import NO_HTML, Html, joined, markup
from kit.trace.log import Rows
from kit.trace.named_rows import EpochRow
from kit.trace.trace import STEP_KINDS, Trace
from widgets.board import group_moment, run_state, sentences, snapshot
from widgets.board.follower import Beat
from widgets.board.run_state import Moment
from widgets.board.scene import scene, title
from widgets.drawing import svg_charts
from widgets.drawing.curves import Chart
from widgets.drawing.looks import style
from widgets.drawing.player import MOST_BYTES, PLACE, STYLE, Frame, Track, pack, player

MOST = 200  # places of the slider
_INTERVAL_MS = 100


def html(beat: Beat, trace: Trace, formula: Formula, more: Html = NO_HTML) -> Html:
    """Return the board as HTML that plays; `more` is HTML below it.

    If the trace has kept no step it is the still board. It has fewer places than `MOST`
    if they would take more than `MOST_BYTES`. Cost: about a second.
    """
    most = MOST
    while True:
        shown = frames(trace, beat.moment, formula, most)
        if not shown:
            return snapshot.html(beat, more)
        tracks = [Track("", _written(beat, shown))]
        packed = pack(tracks)
        if len(packed) <= MOST_BYTES or most < 4:
            break
        most //= 2
    unit = "step" if beat.moment.group is None else "call"
    body = _body(beat, tracks[0].frames[-1], _rule(trace, shown, unit), unit)
    at = 0, len(shown) - 1
    moves = "Step" if beat.moment.group is None else "Call"
    played = player(body, packed, tracks, moves=moves, interval_ms=_INTERVAL_MS, at=at)
    return markup(
        '<style>{}{}</style>{}<div class="ps-board">{}{}{}</div>',
        style(),
        STYLE,
        sentences.status(beat.moment),
        played,
        snapshot.kept(beat) + snapshot.calls(beat) + snapshot.waits(beat),
        more,
    )


def _written(beat: Beat, shown: list[StepFrame]) -> list[Frame]:
    loss, links = snapshot.charts_of(beat)
    return [_frame(beat, frame, loss, links) for frame in shown]


def _frame(beat: Beat, frame: StepFrame, loss: Chart, links: Chart) -> Frame:
    moment = frame.moment
    where = f"{moment.unit} {moment.step:,} of {moment.steps:,}"
    if moment.group is None:
        where, how = where.replace("update", "step"), sentences.configuration(moment)
    else:
        how = moment.group.call.words if moment.group.call else "not kept"
    places = [
        markup("{}{}: {}.", where[0].upper(), where[1:], how),
        sentences.cells(sentences.facts(moment)),
        markup("{}<figcaption>{}</figcaption>", scene(moment), title(moment)),
    ]
    if moment.group is None:
        places.append(svg_charts.curves_pointer(loss, frame.step, moment.loss))
    if links.series:
        second = (frame.end - beat.history.origin) / 1e9
        places.append(svg_charts.links_pointer(links, second))
    places.append(snapshot.rates_table(replace(beat, moment=moment)))
    return Frame(where, tuple(places))


def _body(beat: Beat, last: Frame, rule: str, unit: str) -> Html:
    """Return the board with places for the frames; it shows the last frame."""
    said, numbers, picture, *pointers, table = last.places
    _, *still = snapshot.pictures(beat)
    figures = [markup("<figure {}>{}</figure>", PLACE, picture)]
    for number, (drawn, caption) in enumerate(still):
        if number < len(pointers):
            pointer = markup("<g {}>{}</g></svg>", PLACE, pointers[number])
            drawn = drawn.removesuffix(Html("</svg>")) + pointer
        figures.append(
            markup("<figure>{}<figcaption>{}</figcaption></figure>", drawn, caption)
        )
    return markup(
        '<p class="ps-head" role="status" aria-live="polite" {}>{}</p>'
        '<div class="ps-room" {}>{}</div>'
        '<div class="ps-pictures">{}</div>'
        "<details><summary>The links at this {}, as a table</summary>"
        "<div {}>{}</div></details><p>{}</p>",
        PLACE,
        said,
        PLACE,
        numbers,
        joined(figures),
        unit,
        PLACE,
        table,
        rule,
    )


def _rule(trace: Trace, shown: list[StepFrame], unit: str) -> str:
    """Say what each place of the slider stands for."""
    most = max(frame.moment.numbers.n_steps for frame in shown)
    what = f"one {unit}" if most == 1 else f"the mean of up to {most:,} {unit}s"
    said = f"The slider has {len(shown):,} places; each shows {what}, as measured."
    if first := trace.kept.details:
        said += f" Who sent what is kept from {unit} {first:,} on; it begins there."
    return said


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
    """Cut steps into at most `most` stretches.

    They are of equal length, except at the end of an epoch. If there are more epochs
    than `most`, some stretches are left out, evenly over the training.

    >>> from kit.trace.traffic import STEP, rows
    >>> row = (0.5, 8, 0, 1, 0, 0, 0)
    >>> table = rows(STEP, [(1, n, n // 3, *row) for n in range(5)])
    >>> [tuple(stretch) for stretch in stretches(table, 3)]
    [(0, 0, 1), (0, 2, 2), (1, 3, 4)]
    """
    order = np.lexsort((steps["epoch"], steps["step"]))
    numbers, epochs = steps["step"][order], steps["epoch"][order]
    # An elastic training does some steps again: the last time counts.
    is_last = np.append(numbers[1:] != numbers[:-1], True)[: len(numbers)]
    numbers, epochs = numbers[is_last].tolist(), epochs[is_last].tolist()
    _, held = np.unique(epochs, return_counts=True)
    # Each epoch may end with a short stretch, so an even cut can give too many.
    length = max(1, -(-len(numbers) // most))
    while sum(-(-held // length)) > most and length < max(held):
        length += 1
    groups: list[list[tuple[int, int]]] = []
    for epoch, number in zip(epochs, numbers, strict=True):
        if not groups or groups[-1][0][0] != epoch or len(groups[-1]) == length:
            groups.append([])
        groups[-1].append((epoch, number))
    if len(groups) > most:
        chosen = np.unique(np.linspace(0, len(groups) - 1, most).round().astype(int))
        groups = [groups[index] for index in chosen.tolist()]
    return [EpochSpan(group[0][0], group[0][1], group[-1][1]) for group in groups]


def frames(
    trace: Trace, end: Moment, formula: Formula, most: int = 200
) -> list[StepFrame]:
    """Return at most `most` moments of a trace; `end` is its present one.

    Steps are left out if their transfers are not kept any more. Cost: 0.2 ms a moment.
    """
    if trace.calls is not None:
        return _call_frames(trace, most)
    steps = trace.steps[trace.steps["examples"] > 0]
    steps = np.sort(steps[steps["step"] >= trace.kept.details], order="step")
    moved = trace.transfers[np.isin(trace.transfers["kind"], STEP_KINDS)]
    moved = moved[np.argsort(moved["step"], kind="stable")]
    epochs = {row.number: row for row in trace.epochs}
    frames_made = [
        _step_frame(
            trace,
            stretch,
            _of(steps, stretch),
            _of(moved, stretch),
            epochs,
            end,
            formula,
        )
        for stretch in stretches(steps, most)
        if stretch.epoch in epochs
    ]
    peak = max((frame.moment.peak() for frame in frames_made), default=0.0)
    return list(_scaled(frames_made, peak))


def _call_frames(trace: Trace, most: int) -> list[StepFrame]:
    """Return at most `most` moments of a group: the calls that all have completed."""
    whole = group_moment.whole_calls(trace)
    whole = whole[whole >= trace.kept.details]
    steps = trace.steps[np.isin(trace.steps["step"], whole)]
    frames_made = []
    for stretch in stretches(np.sort(steps, order="step"), most):
        chosen = whole[(whole >= stretch.first) & (whole <= stretch.last)]
        mine = steps[np.isin(steps["step"], chosen)]
        moment = group_moment.of_calls(trace, chosen)
        frames_made.append(StepFrame(moment, stretch.last, int(mine["end"].max())))
    peak = max((frame.moment.peak() for frame in frames_made), default=0.0)
    return list(_scaled(frames_made, peak))


def _of(rows: Rows, span: EpochSpan) -> Rows:
    """Return the rows of a stretch from rows that are sorted by step."""
    low, high = np.searchsorted(rows["step"], [span.first, span.last + 1])
    mine: Rows = rows[low:high]
    rows_of: Rows = mine[mine["epoch"] == span.epoch]
    return rows_of


def _step_frame(
    trace: Trace,
    span: EpochSpan,
    steps: Rows,
    moved: Rows,
    epochs: dict[int, EpochRow],
    end: Moment,
    formula: Formula,
) -> StepFrame:
    row = epochs[span.epoch]
    # A link as one number, as `means` takes it.
    code = moved["source"].astype(np.int64) << 16 | moved["destination"]
    means = run_state.means(steps, code, moved["bytes"], formula(row.topology))
    if span.first == span.last:
        stretch = f"in step {span.last + 1:,}"
    else:
        stretch = f"in steps {span.first + 1:,} to {span.last + 1:,}"
    loss, accuracy = run_state.learned(replace(trace, steps=steps), span.last)
    moment = Moment(
        trace.tasks,
        state=end.state,
        step=span.last + 1,
        steps=end.steps,
        topology=row.topology,
        link=row.link,
        rates=means.rates,
        per_step=means.per_step,
        numbers=means.numbers,
        hosts=() if end.hosting else end.hosts,
        stretch=stretch,
        loss=loss,
        accuracy=accuracy,
    )
    return StepFrame(moment, span.last, int(steps["end"].max()))


def _scaled(frames: list[StepFrame], peak: float) -> Iterator[StepFrame]:
    """Give all moments one scale, so that bars and arrows can be compared."""
    for frame in frames:
        scale, limit = run_state.capacity(frame.moment.link, peak)
        yield frame._replace(moment=replace(frame.moment, scale=scale, limit=limit))
