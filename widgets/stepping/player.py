"""Recordings as a page of their own: a slider over messages, another over workers.

Pure text. Without scripts the page shows the states that matter most, below each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from kit.exchange.stepping.stepped_exchange import SteppedExchange
from widgets.drawing.player import PLACE, STYLE, Frame, Track, pack, player
from widgets.stepping import drawing, words
from widgets.stepping.drawing import style
from widgets.stepping.participants import Formula

_INTERVAL_MS = 1500


class Stepped(NamedTuple):
    """An exchange that was recorded, and what it costs by formula."""

    recording: SteppedExchange
    formula: Formula


def html(found: Sequence[Stepped], chosen: int) -> str:
    """Return a page's content, which begins with the recording number `chosen`."""
    tracks = [Track(_workers(one.recording), _frames(one)) for one in found]
    head, said, state, foot = tracks[chosen].frames[0].places
    body = (
        f'<p class="ps-head" {PLACE}>{head}</p>'
        f'<div role="status" aria-live="polite" {PLACE}>{said}</div>'
        f'<div class="ps-state" {PLACE}>{state}</div><div {PLACE}>{foot}</div>'
        f"<noscript>{_still(found[chosen])}</noscript>"
    )
    played = player(
        body,
        pack(tracks),
        tracks,
        moves="Messages that have arrived",
        interval_ms=_INTERVAL_MS,
        at=(chosen, 0),
        chooses="Number of workers",
    )
    styles = f"<style>{style()}{STYLE}</style>"
    return f'{styles}<div class="ps-board ps-stepper">{played}</div>'


def _workers(recording: SteppedExchange) -> str:
    n = len(recording.workers)
    return f"{n} worker{'' if n == 1 else 's'}"


def _frames(one: Stepped) -> list[Frame]:
    recording, formula = one
    head = escape(words.title(recording))
    foot = drawing.foot(formula)
    return [
        Frame(
            words.where(recording, position),
            (
                head,
                drawing.sentence(recording, position),
                drawing.state(recording, formula, position),
                foot,
            ),
        )
        for position in range(len(recording.states))
    ]


def _still(one: Stepped) -> str:
    """Return the states after the first one that matter most."""
    return "".join(
        f'<section class="ps-state">{drawing.sentence(one.recording, position)}'
        f"{drawing.state(*one, position)}</section>"
        for position in drawing.turning_points(one.recording)[1:]
    )
