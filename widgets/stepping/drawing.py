"""A recording as HTML: matrix, counters and picture of a state, and a page that plays.

Pure text; everything that comes from outside is escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kit.exchange.stepping.stepped_exchange import (
    ColumnCell,
    Holding,
    SteppedExchange,
    SteppedMessage,
    SteppedState,
)
from kit.groups.replay import ReplayedCall
from kit.markup import Html, joined, markup, verbatim
from widgets.board.geometry import WIDTH, Path, SceneLayout, layout, path, short_name
from widgets.board.labels import label_places
from widgets.board.sentences import cells
from widgets.board.snapshot import ONE_OF_BOTH
from widgets.drawing.looks import style as board_style
from widgets.drawing.player import PLACE, STYLE, Frame, Track, pack, player
from widgets.drawing.theme import TEXT_PX
from widgets.stepping import words
from widgets.stepping.participants import Formula, formula_of

KEY = (
    "0+1: the sum of the numbers of workers 0 and 1, added in this order; \u2713: the "
    "sum of all. In brackets: has come and is not added yet. Dashed frame: a copy of "
    "this sum was sent. Thick frames: what was just sent, and what changed by it."
)
HONEST = (
    "A recording of a real exchange in memory, by the same plans and the same code as "
    "in a training, held at each message."
)
# The width of the matrix: without so much room beside the picture, it goes below.
_TASK_PX, _COLUMN_PX = 124, 98
_NARROW = 124  # a box in which more than a number has no room
_LETTER = 15  # of a label
_INTERVAL_MS = 1500
# Tells screen readers to read the sentence of the live view whenever it changes.
_SPEAK = """
(() => {
  let tries = 0;
  const mark = () => {
    for (const place of document.querySelectorAll(".ps-saying .widget-html-content")) {
      place.setAttribute("role", "status");
      place.setAttribute("aria-live", "polite");
    }
    if (++tries < 20) setTimeout(mark, 500);
  };
  mark();
})();
"""


def still(recording: SteppedExchange, formula: Formula) -> Html:
    """Return what a notebook keeps: the states that matter most.

    They need no script; the one that is in it serves the live view above it.
    """
    figures = joined(
        markup(
            '<div class="ps-state">{}{}</div>',
            sentence(recording, position),
            state(recording, formula, position),
        )
        for position in turning_points(recording)
    )
    return markup(
        "<style>{}{}</style>"
        '<div class="ps-snapshot ps-board ps-stepper">'
        '<p class="ps-head">{}</p>'
        "{}{}</div><script>{}</script>",
        style(),
        ONE_OF_BOTH,
        words.title(recording),
        figures,
        foot(formula),
        verbatim(_SPEAK),
    )


def turning_points(recording: SteppedExchange) -> list[int]:
    """Return the beginning, the last state of each kind of message, and the end."""
    kinds = [s.message.kind if s.message else None for s in recording.states]
    ends = [i for i in range(1, len(kinds) - 1) if kinds[i] != kinds[i + 1]]
    return list(dict.fromkeys([0, *ends, len(kinds) - 1]))


def sentence(recording: SteppedExchange, position: int) -> Html:
    """Return which state it is, and what just happened."""
    return markup(
        '<p class="ps-said"><span class="ps-where">{}.</span> {}</p>',
        words.where(recording, position),
        words.said(recording, position),
    )


def state(recording: SteppedExchange, formula: Formula, position: int) -> Html:
    """Return the counters, the picture and the matrix of a state."""
    width = _TASK_PX + _COLUMN_PX * len(recording.columns)
    return markup(
        '<div class="ps-room">{}</div>'
        '<div class="ps-both">{}'
        '<div style="flex-basis:{}px" tabindex="0" role="region" '
        'aria-label="Who holds which sum">'
        "{}</div></div>",
        counters(recording, formula, position),
        picture(recording, position),
        width,
        matrix(recording, formula, position),
    )


def foot(formula: Formula) -> Html:
    """Return the key, the formula in words, and what this is."""
    said = " ".join(filter(None, (formula.text, HONEST)))
    return markup('<p class="ps-key">{}</p><p>{}</p>', KEY, said)


def counters(recording: SteppedExchange, formula: Formula, position: int) -> Html:
    """Return messages, bytes and hops so far, beside those of the formula."""
    now = recording.states[position]
    n_messages = sum(messages for messages, _ in now.traffic.values())
    n_bytes = sum(n_bytes for _, n_bytes in now.traffic.values())
    done = now.message.round if now.message else recording.n_rounds * bool(position)
    return cells(
        [
            ("messages arrived", f"{n_messages}", f"of {formula.n_messages:,} in all"),
            ("bytes arrived", f"{n_bytes:,}", f"by formula {formula.n_bytes:,} in all"),
            ("hop", f"{done}", f"of {recording.n_rounds}"),
        ]
    )


def matrix(recording: SteppedExchange, formula: Formula, position: int) -> Html:
    """Return the table of tasks and chunks: which task holds which sum."""
    now = recording.states[position]
    heads = joined(
        markup(
            '<th scope="col">{}<small>{}</small></th>',
            words.heading(recording, number),
            _elements(column.lo, column.hi),
        )
        for number, column in enumerate(recording.columns)
    )
    rows = joined(
        markup(
            '<tr><th scope="row">{}<small>{}</small></th>{}</tr>',
            name,
            _sent(now, formula, member),
            joined(_cells(recording, now, member)),
        )
        for member, name in enumerate(recording.names)
    )
    return markup(
        '<table class="ps-matrix"><caption>{}</caption><thead><tr>'
        '<th scope="col">task</th>{}</tr></thead><tbody>{}</tbody></table>',
        "Who holds which numbers" if recording.call else "Who holds which sum",
        heads,
        rows,
    )


def _elements(lo: int, hi: int) -> str:
    """Return the elements of a column in words.

    >>> _elements(4, 7), _elements(4, 5), _elements(4, 4)
    ('elements 4\u20136', 'element 4', 'empty')
    """
    if hi - lo < 2:
        return f"element {lo}" if hi > lo else "empty"
    return f"elements {lo}\u2013{hi - 1}"


def _sent(now: SteppedState, formula: Formula, member: int) -> str:
    sent = sum(n for (source, _), (_, n) in now.traffic.items() if source == member)
    return f"sent {sent:,} of {formula.sent[member]:,} B"


def _cells(
    recording: SteppedExchange, now: SteppedState, member: int
) -> Iterator[Html]:
    message = now.message
    for number, cell in enumerate(now.rows[member]):
        marks = ["ps-old"] * (cell.is_sent and not cell.is_result)
        if message is not None and number in message.columns:
            marks += ["ps-from"] * (member == message.source)
            marks += ["ps-to"] * (member == message.destination)
            marks += ["ps-out-again"] * (message.kind in words.BACK)
        if cell.held and words.is_complete(recording, cell.held):
            marks.append("ps-full")
        name = markup(' class="{}"', " ".join(marks)) if marks else ""
        yield markup("<td{}>{}</td>", name, _inside(recording, cell))


def _inside(recording: SteppedExchange, cell: ColumnCell) -> Html:
    kept = joined(
        markup("<i>({}) {}</i>", words.added(term.who), words.numbers(term.values))
        for term in cell.kept
    )
    return (_sum(recording, cell.held) if cell.held else Html("<b>\u2013</b>")) + kept


def _sum(recording: SteppedExchange, held: Holding) -> Html:
    n = len(recording.workers)
    mark = " \u2713" if words.is_complete(recording, held) else ""
    share = 100 * len(held.who) / n
    return markup(
        "<b>{}{}</b>"
        "<span>{}</span>"
        '<div class="ps-meter"><div style="width:{:.0f}%"></div></div>',
        words.added(held.who),
        mark,
        words.numbers(held.values),
        share,
    )


# --------------------------------------------------------------------------------------
# The picture: members as boxes, messages as arrows. The thick arrow is the message that
# has just arrived, dashed ones are posted and held, and thin ones are the other links
# that the topology uses.


def picture(recording: SteppedExchange, position: int) -> Html:
    """Return the picture as an SVG element that fits the width of its place."""
    now = recording.states[position]
    layout_of = layout(recording.names, recording.topology)
    arrows = joined(_arrows(recording, layout_of, now))
    boxes = joined(
        _box(layout_of, member, name, now)
        for member, name in enumerate(recording.names)
    )
    title = f"{words.where(recording, position)}. {words.said(recording, position)}"
    label = _label(recording, layout_of, now.message) if now.message else ""
    return markup(
        '<svg class="ps-scene" viewBox="0 0 {} {:.0f}" role="img" '
        'xmlns="http://www.w3.org/2000/svg" aria-label="{}">'
        "{}{}{}</svg>",
        WIDTH,
        layout_of.height,
        title,
        arrows,
        boxes,
        label,
    )


def _arrows(
    recording: SteppedExchange, layout_of: SceneLayout, state: SteppedState
) -> list[Html]:
    now = state.message
    # Of several that are held on one link the first decides how its arrow looks.
    held = {(m.source, m.destination): m for m in reversed(state.held)}
    links = dict.fromkeys((m.source, m.destination) for m in recording.messages)
    drawn = []
    for link in links:
        if now is not None and link == (now.source, now.destination):
            continue
        message = held.get(link)
        kind = "still" if message is None else _kind(message) + " ps-waits"
        drawn.append(
            _arrow(path(layout_of, link), kind, 2.2 if message is None else 4.0)
        )
    if now is not None:  # last, so that it is on top
        line = path(layout_of, (now.source, now.destination))
        drawn.append(_arrow(line, _kind(now), 8.0))
    return drawn


def _kind(message: SteppedMessage) -> str:
    return "pull" if message.kind in words.BACK else "push"


def _arrow(line: Path, kind: str, width: float) -> Html:
    head = 9 + width * 1.1
    return markup(
        '<g class="ps-arrow ps-{}">{}</g>', kind, line.arrow(width, head, head / 2)
    )


def _label(
    recording: SteppedExchange, layout_of: SceneLayout, message: SteppedMessage
) -> Html:
    """Write beside the arrow what it carries, where there is room for it."""
    link = message.source, message.destination
    text = words.columns(recording, message.columns).removeprefix("chunks ")
    places = label_places(layout_of, ((link,),), _LETTER * len(text), 28)
    return joined(
        markup('<text class="ps-rate" x="{:.0f}" y="{:.0f}">{}</text>', x, y + 8, text)
        for x, y in places.values()
    )


def _box(layout: SceneLayout, member: int, name: str, state: SteppedState) -> Html:
    box = layout.boxes[member]
    left, top = box.x - box.width / 2, box.y - box.height / 2
    sent = sum(n for (source, _), (_, n) in state.traffic.items() if source == member)
    idle = " ps-idle" if member in layout.idle else ""
    said = f"{sent} B" if box.width < _NARROW else f"sent {sent} B"
    return markup(
        '<g class="ps-task{}"><rect x="{:.1f}" y="{:.1f}" rx="7" '
        'width="{:.1f}" height="{}"/>'
        '<text class="ps-name" x="{:.1f}" y="{:.1f}">{}'
        '</text><text class="ps-way" text-anchor="middle" x="{:.1f}" '
        'y="{:.1f}">{}</text></g>',
        idle,
        left,
        top,
        box.width,
        box.height,
        box.x,
        top + 28,
        short_name(name, box),
        box.x,
        top + 54,
        said,
    )


# --------------------------------------------------------------------------------------
# A page that plays: a slider over messages, and another over the number of workers.
# Without scripts the page shows the states that matter most, below each other.


class Stepped(NamedTuple):
    """An exchange that was recorded, and what it costs by formula."""

    recording: SteppedExchange
    formula: Formula


def calls(replayed: Sequence[ReplayedCall]) -> Html:
    """Return calls of a group as HTML that plays, the newest first."""
    shown = [Stepped(call.recording, formula_of(call)) for call in replayed[::-1]]
    return playing(shown, 0, [call.recording.title for call in shown], "Call")


def playing(
    exchanges: Sequence[Stepped],
    chosen: int,
    titles: Sequence[str] = (),
    chooses: str = "Number of workers",
) -> Html:
    """Return the content of a page that begins with the recording number `chosen`.

    `titles` name the recordings, by default by their numbers of workers.
    """
    names = titles or [
        words.count(len(exchange.recording.workers), "worker") for exchange in exchanges
    ]
    tracks = [*map(Track, names, map(_frames, exchanges))]
    head, said, drawn, below = tracks[chosen].frames[0].places
    body = markup(
        '<p class="ps-head" {}>{}</p>'
        '<div role="status" aria-live="polite" {}>{}</div>'
        '<div class="ps-state" {}>{}</div><div {}>{}</div>'
        "<noscript>{}</noscript>",
        PLACE,
        head,
        PLACE,
        said,
        PLACE,
        drawn,
        PLACE,
        below,
        _still(exchanges[chosen]),
    )
    played = player(
        body,
        pack(tracks),
        tracks,
        moves="Messages that have arrived",
        interval_ms=_INTERVAL_MS,
        at=(chosen, 0),
        chooses=chooses,
    )
    styles = markup("<style>{}{}</style>", style(), STYLE)
    return markup('{}<div class="ps-board ps-stepper">{}</div>', styles, played)


def _frames(exchange: Stepped) -> list[Frame]:
    recording, formula = exchange
    head, below = markup("{}", words.title(recording)), foot(formula)
    frames = []
    for position in range(len(recording.states)):
        said = sentence(recording, position)
        drawn = state(recording, formula, position)
        where = words.where(recording, position)
        frames.append(Frame(where, (head, said, drawn, below)))
    return frames


def _still(exchange: Stepped) -> Html:
    """Return the states that matter most, without the first one."""
    return joined(
        markup(
            '<section class="ps-state">{}{}</section>',
            sentence(exchange.recording, position),
            state(*exchange, position),
        )
        for position in turning_points(exchange.recording)[1:]
    )


# --------------------------------------------------------------------------------------
# The style sheet of a stepper, on top of the board's. Nothing is shown by colour alone:
# a complete sum has a tick, a cell that has just changed a thick frame, and a cell with
# a copy of a sum that was sent on a dashed one.


_STYLE = """
.ps-stepper .ps-said { font-size: 15px; min-height: 3em; max-width: 110ch; }
.ps-board.ps-stepper .ps-numbers { max-width: 690px;
  grid-template-columns: repeat(3, minmax(0, 1fr)); }
.ps-stepper .ps-where { font-weight: 600; }
.ps-stepper .ps-both { display: flex; flex-wrap: wrap-reverse; gap: 10px;
  align-items: flex-end; }
.ps-board.ps-stepper .ps-both > svg { flex: 1 1 308px; min-width: 308px;
  max-width: 440px; margin: 0; }
.ps-stepper .ps-both > div { flex-grow: 3; min-width: 0; overflow-x: auto; }
.ps-stepper .ps-both > div:focus-visible { outline: 3px solid var(--ps-accent); }
.ps-stepper .ps-matrix { border-collapse: separate; border-spacing: 4px;
  margin: 0; }
.ps-board.ps-stepper .ps-matrix tr { background: none; }
.ps-board.ps-stepper .ps-matrix :is(th, td) { text-align: left; }
.ps-stepper .ps-matrix th { border: none; padding: 2px 6px; vertical-align: middle; }
.ps-stepper .ps-matrix tbody th { white-space: nowrap; }
.ps-stepper .ps-matrix th small { display: block; white-space: nowrap;
  font-size: TEXTpx; color: var(--ps-faint); }
.ps-stepper .ps-matrix td { border: 1.5px solid var(--ps-grid); border-radius: 6px;
  background: var(--ps-panel); padding: 4px 8px; min-width: 72px;
  vertical-align: top; }
.ps-stepper .ps-matrix b { display: block; font-size: 15px; font-weight: 650;
  overflow-wrap: anywhere; }
.ps-stepper .ps-matrix span { display: block; font-size: TEXTpx;
  white-space: pre-wrap; }
.ps-stepper .ps-matrix i { display: block; font-size: TEXTpx; font-style: normal;
  color: var(--ps-faint); }
.ps-stepper .ps-matrix .ps-old { border: 1.5px dashed var(--ps-faint);
  background: none; }
.ps-stepper .ps-matrix .ps-from { border: 3px dashed var(--ps-push); }
.ps-stepper .ps-matrix .ps-to { border: 3px solid var(--ps-push); }
.ps-stepper .ps-matrix .ps-from.ps-out-again { border-color: var(--ps-pull); }
.ps-stepper .ps-matrix .ps-to.ps-out-again { border-color: var(--ps-pull); }
.ps-stepper .ps-matrix .ps-full b { color: var(--ps-pull); }
.ps-stepper .ps-meter { height: 5px; border-radius: 2px; background: var(--ps-grid);
  margin: 3px 0; }
.ps-stepper .ps-meter div { height: 5px; border-radius: 2px;
  background: var(--ps-accent); }
.ps-stepper .ps-full .ps-meter div { background: var(--ps-pull); }
.ps-stepper .ps-scene text { font-size: 25px; }
.ps-stepper .ps-scene .ps-way { font-size: 25px; }
.ps-stepper .ps-scene .ps-rate { font-size: 25px; font-weight: 650; }
.ps-stepper .ps-waits path { stroke-dasharray: 9 6; opacity: .75; }
.ps-stepper .ps-key { font-size: TEXTpx; color: var(--ps-faint); }
.ps-stepper .ps-state { margin: 0 0 26px; }
"""


def style() -> Html:
    """Return the whole style sheet, the board's included."""
    return board_style() + verbatim(_STYLE.replace("TEXT", str(TEXT_PX)))
