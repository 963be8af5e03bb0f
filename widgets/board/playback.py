"""The board of a training as a page that plays: a slider over its steps, no kernel.

Pure text. The picture of the traffic, the numbers, the table of the links and a line in
the curves move with the slider; what is said of the whole training stands still. Where
no script runs, the page shows the end.
"""

from __future__ import annotations

from dataclasses import replace
from html import escape

from kit.trace.trace import Trace
from widgets.board import sentences, snapshot
from widgets.board.frames import Formula, StepFrame, frames
from widgets.board.scene import scene, title
from widgets.board.watcher import Beat
from widgets.drawing import charts
from widgets.drawing.curves import Chart
from widgets.drawing.looks import style
from widgets.drawing.player import MOST_BYTES, PLACE, STYLE, Frame, Track, pack, player

MOST = 200  # places of the slider
_INTERVAL_MS = 100


def html(beat: Beat, trace: Trace, formula: Formula, more: str = "") -> str:
    """Return the board as HTML that plays; `more` is HTML below it.

    Without any step that is kept it is the still board. Of fewer places than `MOST` if
    they would take more than `MOST_BYTES`. Cost: about a second.
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
    body = _body(beat, tracks[0].frames[-1], _rule(trace, shown))
    at = 0, len(shown) - 1
    played = player(body, packed, tracks, moves="Step", interval_ms=_INTERVAL_MS, at=at)
    return (
        f"<style>{style()}{STYLE}</style>{sentences.status(beat.moment)}"
        f'<div class="ps-board">{played}{snapshot.kept(beat)}{more}</div>'
    )


def _written(beat: Beat, shown: list[StepFrame]) -> list[Frame]:
    loss, links = snapshot.charts_of(beat)
    return [_frame(beat, one, loss, links) for one in shown]


def _frame(beat: Beat, one: StepFrame, loss: Chart, links: Chart) -> Frame:
    moment = one.moment
    where = f"step {moment.step:,} of {moment.steps:,}"
    how = sentences.configuration(moment)
    places = [
        escape(f"{where[0].upper()}{where[1:]}: {how}."),
        sentences.cells(sentences.facts(moment)),
        f"{scene(moment)}<figcaption>{escape(title(moment))}</figcaption>",
        charts.curves_pointer(loss, one.step, moment.loss),
    ]
    if links.series:
        second = (one.end - beat.history.origin) / 1e9
        places.append(charts.links_pointer(links, second))
    places.append(snapshot.rates_table(replace(beat, moment=moment)))
    return Frame(where, tuple(places))


def _body(beat: Beat, last: Frame, rule: str) -> str:
    """Return the board with places; it shows the last frame itself."""
    said, numbers, picture, *pointers, table = last.places
    _, *still = snapshot.pictures(beat)
    figures = [f"<figure {PLACE}>{picture}</figure>"]
    for number, (drawn, told) in enumerate(still):
        if number < len(pointers):
            place = f"<g {PLACE}>{pointers[number]}</g></svg>"
            drawn = drawn.removesuffix("</svg>") + place
        figures.append(
            f"<figure>{drawn}<figcaption>{escape(told)}</figcaption></figure>"
        )
    return (
        f'<p class="ps-head" role="status" aria-live="polite" {PLACE}>{said}</p>'
        f'<div class="ps-room" {PLACE}>{numbers}</div>'
        f'<div class="ps-pictures">{"".join(figures)}</div>'
        f"<details><summary>The links at this step, as a table</summary>"
        f"<div {PLACE}>{table}</div></details><p>{escape(rule)}</p>"
    )


def _rule(trace: Trace, shown: list[StepFrame]) -> str:
    """Say what a place of the slider is of."""
    most = max(one.moment.numbers.n_steps for one in shown)
    what = "one step" if most == 1 else f"the mean of up to {most:,} steps"
    said = f"The slider has {len(shown):,} places; each shows {what}, as measured."
    if first := trace.kept.details:
        said += f" Who sent what is kept from step {first:,} on; it begins there."
    return said
