"""The picture of a try: the work, messages and memory of each task over time, as SVG.

Pure. Each task has a strip. From the top it shows what the task sends, its work, what
it receives, and its memory, in which an array is a block as high as it is large.

    worker:0  ▬▬▬ sends           an arrow for each message
              ███ works
              ▒▒▒▒▒▒▒▒ x          blocks: what it holds
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kit.markup import Html, element, joined, verbatim
from kit.picture.svg import (
    DETAIL_PX,
    FONT,
    N_HUES,
    TEXT_PX,
    Colours,
    in_all_themes,
    whole,
)
from kit.puzzles.clock import ClockedRun, HeldSpan, MessageSpan

_LEFT, _RIGHT, _WIDTH, _TOP, _FOOT = 92.0, 16.0, 820.0, 12.0, 34.0
_PORT, _WORK, _MEMORY, _GAP = 7.0, 18.0, 54.0, 22.0
_LETTER = 6.6  # px, about
_ROOM = 0.07
_MOST_LABELS = 8  # arrows with words; more would cover each other
_N_TICKS = 8


class _Block(NamedTuple):
    """An array in the memory of a task; it starts `bottom` bytes above the floor."""

    span: HeldSpan
    bottom: int


class _Scale(NamedTuple):
    """How ms and bytes become pixels, and where the strips are.

    There is some room after `end`, to show the memory that is held then.
    """

    end: float
    most: int
    has_work: bool

    @property
    def last(self) -> float:
        return self.end * (1 + _ROOM) or 1.0

    def x(self, ms: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * ms / self.last

    def high(self, n_bytes: int) -> float:
        return _MEMORY * n_bytes / self.most

    @property
    def strip(self) -> float:
        work = _WORK if self.has_work else 0.0
        return 2 * _PORT + 4 + work + _MEMORY + _GAP

    def top(self, task: int) -> float:
        return _TOP + task * self.strip

    def work(self, task: int) -> float:
        return self.top(task) + _PORT + 2

    def port_in(self, task: int) -> float:
        return self.work(task) + (_WORK if self.has_work else 0.0) + 2

    def floor(self, task: int) -> float:
        return self.port_in(task) + _PORT + _MEMORY


def draw(names: Sequence[str], line: ClockedRun, title: str) -> Html:
    """Return the picture as the text of an SVG element.

    >>> draw(["worker:0"], ClockedRun(1), "nothing").startswith("<svg")
    True
    """
    last = _Scale(line.end, 1, False).last
    held = [h._replace(end=min(h.end, last)) for h in line.held]
    stacks = [_stack([h for h in held if h.task == k]) for k in range(line.n)]
    most = max((b.bottom + b.span.n_bytes for s in stacks for b in s), default=1)
    scale = _Scale(line.end, max(most, 1), bool(line.work))
    height = scale.top(line.n) + _FOOT
    parts = [
        element("style", _style()),
        element("rect", class_="ground", width=_WIDTH, height=height),
        *_axis(scale, line.n),
        *(_lane(name, task, scale) for task, name in enumerate(names)),
        *(_memory(block, scale) for stack in stacks for block in stack),
        *_works(line, scale),
        *_messages(names, line, scale),
        *_open_waits(names, line, scale),
    ]
    return whole("kit-puzzle", _WIDTH, height, _described(names, line, title), parts)


def _described(names: Sequence[str], line: ClockedRun, title: str) -> str:
    stuck = [names[w.task] for w in line.waits if w.open]
    waits = f"; {', '.join(stuck)} wait for ever" if stuck else ""
    return (
        f"{title}: {len(line.flights)} messages between {len(names)} tasks in "
        f"{line.end:.3g} ms{waits}"
    )


def _stack(spans: Sequence[HeldSpan]) -> list[_Block]:
    """Put each array as low as there is room for it during all of its life."""
    placed: list[_Block] = []
    for span in sorted(spans, key=lambda item: (item.begin, -item.end)):
        if span.end <= span.begin:
            continue
        bottom = 0
        # What was placed before began no later, so it is in the way if it lasts longer
        # than until this one begins.
        beside = [block for block in placed if block.span.end > span.begin]
        for block in sorted(beside, key=lambda item: item.bottom):
            if block.bottom >= bottom + span.n_bytes:
                break
            bottom = max(bottom, block.bottom + block.span.n_bytes)
        placed.append(_Block(span, bottom))
    return placed


def _axis(scale: _Scale, n: int) -> Iterator[Html]:
    bottom = scale.top(n) - _GAP / 2
    step = _step(scale.end)
    for k in range(int(scale.end / step + 1e-9) + 1 if scale.end else 0):
        x = scale.x(k * step)
        yield element("path", class_="tick", d=f"M{x:.1f} {_TOP:.0f}V{bottom:.1f}")
        label = f"{k * step:g}{'' if k else ' ms'}"
        yield _centred(label, "detail", x, bottom + 16)


def _centred(text: str, kind: str, x: float, y: float) -> Html:
    return element("text", text, class_=kind, text_anchor="middle", x=x, y=y)


def _step(end: float) -> float:
    """Return a round step that gives some ticks.

    >>> _step(12), _step(0.9)
    (2, 0.2)
    """
    for step in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500):
        if end / step <= _N_TICKS:
            return step
    return end / _N_TICKS


def _lane(name: str, task: int, scale: _Scale) -> Html:
    top, floor = scale.top(task), scale.floor(task)
    line = f"M{_LEFT:.1f} {floor:.1f}H{_WIDTH - _RIGHT:.1f}"
    return joined(
        [
            element("text", name, class_="title", x=8, y=top + 14),
            element("text", "holds", class_="detail", x=8, y=floor - 4),
            element("path", class_="line", d=line),
        ]
    )


def _memory(block: _Block, scale: _Scale) -> Html:
    span = block.span
    x, right = scale.x(span.begin), scale.x(span.end)
    high, low = scale.high(span.n_bytes), scale.floor(span.task)
    y = low - scale.high(block.bottom) - high
    until = f"to {span.end:.3g} ms" if span.end < scale.last else "ms to the end"
    tip = f"{span.name}: {span.n_bytes:,} bytes, {span.begin:.3g} {until}"
    text = _inside(span.name, x, right, y + high / 2 + 4) if high >= DETAIL_PX else ""
    area = element("rect", class_="held", x=x, y=y, width=right - x, height=high)
    return element("g", element("title", tip), area, text)


def _inside(
    text: str, left: float, right: float, y: float, kind: str = "detail"
) -> Html:
    """Write into a box, as much as it has room for."""
    room = int((right - left - 4) / _LETTER)
    if room < min(len(text), 2):
        return Html()
    short = text if len(text) <= room else f"{text[: room - 1]}\u2026"
    return _centred(short, kind, (left + right) / 2, y)


def _works(line: ClockedRun, scale: _Scale) -> Iterator[Html]:
    for span in line.work:
        x, right, y = scale.x(span.begin), scale.x(span.end), scale.work(span.task)
        tip = f"{span.label}: {span.begin:.3g} to {span.end:.3g} ms"
        size = {"width": right - x - 1, "height": _WORK}
        area = element("rect", class_="work", x=x + 0.5, y=y, **size, rx=2)
        text = _inside(span.label, x, right, y + _WORK - 5, "on-work")
        yield element("g", element("title", tip), area, text)


def _messages(names: Sequence[str], line: ClockedRun, scale: _Scale) -> Iterator[Html]:
    flights = [*line.flights.values(), *line.unread]
    is_labelled = len(flights) <= _MOST_LABELS
    for flight in flights:
        is_read = flight not in line.unread
        hue = flight.source % N_HUES
        out_y, in_y = scale.top(flight.source), scale.port_in(flight.to)
        tip = (
            f"{flight.name or 'message'} from {names[flight.source]} to "
            f"{names[flight.to]}: {flight.n_bytes:,} bytes, {flight.begin:.3g} to "
            f"{flight.end:.3g} ms{'' if is_read else ', never received'}"
        )
        bars = _bar(flight.begin, flight.ms, out_y, hue, scale)
        if is_read:
            bars += _bar(flight.end - flight.ms, flight.ms, in_y, hue, scale)
        arrow = _arrow(flight, scale, hue, is_read)
        label = _label(flight, scale) if is_labelled else ""
        yield element("g", element("title", tip), bars, arrow, label)


def _bar(begin: float, ms: float, y: float, hue: int, scale: _Scale) -> Html:
    x, right = scale.x(begin), scale.x(begin + ms)
    size = {"width": max(right - x, 1.5), "height": _PORT}
    return element("rect", class_=f"f{hue}", x=x, y=y, **size, rx=1)


def _ends(flight: MessageSpan, scale: _Scale) -> tuple[float, float, float, float]:
    is_down = flight.to > flight.source
    y1 = scale.top(flight.source) + (_PORT if is_down else 0.0)
    y2 = scale.port_in(flight.to) + (0.0 if is_down else _PORT)
    return scale.x(flight.begin), y1, scale.x(flight.end), y2


def _arrow(flight: MessageSpan, scale: _Scale, hue: int, is_read: bool) -> Html:
    x1, y1, x2, y2 = _ends(flight, scale)
    back = y2 - 7 if y2 > y1 else y2 + 7
    tip = f"{x2:.1f},{y2:.1f} {x2 - 4:.1f},{back:.1f} {x2 + 4:.1f},{back:.1f}"
    line = element(
        "path",
        class_=f"s{hue}",
        stroke_width=1.6,
        stroke_dasharray=None if is_read else "4 3",
        d=f"M{x1:.1f} {y1:.1f}L{x2:.1f} {back:.1f}",
    )
    return line + element("polygon", class_=f"f{hue}", points=tip)


def _label(flight: MessageSpan, scale: _Scale) -> Html:
    x1, y1, x2, y2 = _ends(flight, scale)
    x, y = x1 + (x2 - x1) * 0.32, y1 + (y2 - y1) * 0.32
    return element("text", flight.name[:18], class_="on-arrow", x=x + 5, y=y + 4)


def _open_waits(
    names: Sequence[str], line: ClockedRun, scale: _Scale
) -> Iterator[Html]:
    for wait in line.waits:
        if not wait.open:
            continue
        x, y = scale.x(wait.begin), scale.top(wait.task) - 2
        x = min(x, _WIDTH - _RIGHT - 250)
        text = f"waits for {wait.name or 'a message'} from {names[wait.source]}"
        size = {"width": _WIDTH - _RIGHT - x, "height": 20}
        yield element(
            "g",
            element("rect", class_="stuck", x=x, y=y, rx=3, **size),
            element("text", text, class_="stuck-text", x=x + 8, y=y + 14.5),
        )


def _style() -> Html:
    plain = (
        # On a phone it is moved sideways: made as narrow, its words could not be read.
        f".kit-puzzle{{min-width:{0.75 * _WIDTH:.0f}px}}"
        f".kit-puzzle text{{font:{TEXT_PX}px {FONT}}}"
        ".kit-puzzle .title{font-weight:600}"
        f".kit-puzzle .detail,.kit-puzzle .on-work,.kit-puzzle .on-arrow"
        f"{{font-size:{DETAIL_PX}px}}.kit-puzzle path{{fill:none}}"
        ".kit-puzzle .stuck{stroke-dasharray:5 3;stroke-width:1.6}"
        ".kit-puzzle .on-arrow{paint-order:stroke;stroke-width:3px}"
    )
    return verbatim(plain + in_all_themes(".kit-puzzle", _rules))


def _rules(scope: str, colours: Colours) -> str:
    ground, ink, faint, grey = (
        colours.ground,
        colours.ink,
        colours.faint,
        colours.hues[-1],
    )
    red = colours.hues[4]
    rules = [
        f"{scope} .ground{{fill:{ground}}}",
        f"{scope} text{{fill:{ink}}}",
        f"{scope} .detail{{fill:{faint}}}",
        f"{scope} .line{{stroke:{faint}}}",
        f"{scope} .tick{{stroke:{faint};stroke-opacity:.22}}",
        f"{scope} .held{{fill:{grey};fill-opacity:.2;stroke:{faint};stroke-width:.7}}",
        f"{scope} .work{{fill:{ink};fill-opacity:.82}}",
        f"{scope} .on-work{{fill:{ground}}}",
        f"{scope} .on-arrow{{stroke:{ground}}}",
        f"{scope} .stuck{{fill:{ground};stroke:{red}}}",
        f"{scope} .stuck-text{{fill:{red};font-weight:600}}",
    ]
    for i, hue in enumerate(colours.hues):
        rules.append(f"{scope} .s{i}{{stroke:{hue}}}{scope} .f{i}{{fill:{hue}}}")
    return "".join(rules)
