"""The picture of a state: members as boxes, messages as arrows, as text in SVG.

Pure. The thick arrow is the message that has just arrived, dashed ones are posted and
held, thin ones are the other links that the topology uses.
"""

from __future__ import annotations

from html import escape

from kit.exchange.stepping.stepped_exchange import (
    SteppedExchange,
    SteppedMessage,
    SteppedState,
)
from widgets.board.geometry import WIDTH, Path, SceneLayout, layout, path
from widgets.stepping import words

_NARROW = 124  # a box in which a whole name has no room
_LABELLED = 6  # workers in a ring whose arrows are long enough for words


def picture(recording: SteppedExchange, position: int) -> str:
    """Return the picture as an SVG element that fits the width of its place."""
    state = recording.states[position]
    found = layout(recording.names, recording.topology)
    arrows = "".join(_arrows(recording, found, state))
    boxes = "".join(
        _box(found, member, name, state) for member, name in enumerate(recording.names)
    )
    told = f"{words.where(recording, position)}. {words.said(recording, position)}"
    label = _label(recording, found, state.message) if state.message else ""
    return (
        f'<svg class="ps-scene" viewBox="0 0 {WIDTH} {found.height:.0f}" role="img" '
        f'xmlns="http://www.w3.org/2000/svg" aria-label="{escape(told)}">'
        f"{arrows}{boxes}{label}</svg>"
    )


def _arrows(
    recording: SteppedExchange, found: SceneLayout, state: SteppedState
) -> list[str]:
    now = state.message
    held = {(m.source, m.destination): m for m in reversed(state.held)}
    links = dict.fromkeys((m.source, m.destination) for m in recording.messages)
    drawn = []
    for link in links:
        if now is not None and link == (now.source, now.destination):
            continue
        message = held.get(link)
        kind = "still" if message is None else _kind(message) + " ps-waits"
        drawn.append(_arrow(path(found, link), kind, 2.2 if message is None else 4.0))
    if now is not None:  # last, so that it lies on top
        line = path(found, (now.source, now.destination))
        drawn.append(_arrow(line, _kind(now), 8.0))
    return drawn


def _kind(message: SteppedMessage) -> str:
    return "pull" if message.kind in words.BACK else "push"


def _arrow(line: Path, kind: str, width: float) -> str:
    head = 9 + width * 1.1
    return f'<g class="ps-arrow ps-{kind}">{line.arrow(width, head, head / 2)}</g>'


def _label(
    recording: SteppedExchange, found: SceneLayout, message: SteppedMessage
) -> str:
    """Write beside the arrow what it carries, where there is room for it."""
    if found.is_ring and len(recording.workers) > _LABELLED:
        return ""
    line = path(found, (message.source, message.destination))
    x, y, anchor = line.beside(0.5, (14, 20), is_outwards=True)
    text = words.columns(recording, message.columns).removeprefix("chunks ")
    return (
        f'<text class="ps-rate" x="{x:.0f}" y="{y + 6:.0f}" text-anchor="{anchor}">'
        f"{escape(text)}</text>"
    )


def _box(found: SceneLayout, member: int, name: str, state: SteppedState) -> str:
    box = found.boxes[member]
    left, top = box.x - box.width / 2, box.y - box.height / 2
    sent = sum(n for (source, _), (_, n) in state.traffic.items() if source == member)
    idle = " ps-idle" if member in found.idle else ""
    job, _, task = name.partition(":")
    is_narrow = box.width < _NARROW
    short = f"{job[0]}:{task}" if is_narrow and task else name
    said = f"{sent} B" if is_narrow else f"sent {sent} B"
    return (
        f'<g class="ps-task{idle}"><rect x="{left:.1f}" y="{top:.1f}" rx="7" '
        f'width="{box.width:.1f}" height="{box.height}"/>'
        f'<text class="ps-name" x="{box.x:.1f}" y="{top + 28:.1f}">{escape(short)}'
        f'</text><text class="ps-way" text-anchor="middle" x="{box.x:.1f}" '
        f'y="{top + 54:.1f}">{said}</text></g>'
    )
