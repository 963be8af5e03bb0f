"""The lessons' curves: lines of a formula, dots of what was measured, on one picture.

Pure: numbers in, SVG out. A saved notebook keeps the picture as it is, with no script
in it, and its colours follow the theme of the page. `repr` says the same in text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import chain

from widgets.drawing.looks import style
from widgets.drawing.svg_charts import Scale, ticks

WIDTH, HEIGHT = 640, 330
_LEFT, _RIGHT, _TOP, _FOOT = 64, 130, 34, 282
_HUES = {"ps": 0, "ring": 1, "mesh": 2}
_DASHES = ("", "7 4", "2 4", "2 4 7 4")
_SAID = 12  # points of a curve that the text tells, at most
_LABEL_PX = 17  # from one name at the right edge to the next

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Curves:
    """A picture of lines and dots by name; show it as the last line of a cell.

    `lines` and `dots` give each name its points (x, y). A name has one colour and one
    dash or mark, so lines and dots of one name belong together.

    >>> print(Curves({"ring": [(2, 1.0), (4, 1.5)]}, x="workers", y="times S"))
    times S by workers
    ring, line: 2 -> 1, 4 -> 1.5
    """

    lines: Mapping[str, Points] = field(default_factory=dict)
    dots: Mapping[str, Points] = field(default_factory=dict)
    x: str = ""
    y: str = ""

    def __repr__(self) -> str:
        said = [f"{self.y} by {self.x}"]
        for kind, curves in (("line", self.lines), ("measured", self.dots)):
            for name, points in curves.items():
                some = points[:: 1 + (len(points) - 1) // _SAID]
                pairs = ", ".join(f"{x:,.4g} -> {y:,.4g}" for x, y in some)
                said.append(f"{name}, {kind}: {pairs}")
        return "\n".join(said)

    def _repr_html_(self) -> str:
        return (
            f'<style>{style()}</style><div class="ps-board ps-wide">{self.svg()}</div>'
        )

    def svg(self) -> str:
        """Return the picture alone; its colours are variables of the page."""
        names = list(dict.fromkeys([*self.lines, *self.dots]))
        points = list(chain.from_iterable([*self.lines.values(), *self.dots.values()]))
        across, up = _scales(points)
        parts = [_grid(across, up, self.x, self.y)]
        for place, name in enumerate(names):
            colour = f"var(--ps-h{_hue(name, place)})"
            line = self.lines.get(name, ())
            parts.append(_line(line, across, up, colour, _DASHES[place % 4]))
            dots = self.dots.get(name, ())
            parts += [_mark(place, across(x), up(y), colour) for x, y in dots]
        parts.append(_names(names, self._ends(names, up)))
        return (
            f'<svg class="ps-chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            f'xmlns="http://www.w3.org/2000/svg" aria-label="{escape(repr(self))}">'
            f"{''.join(parts)}</svg>"
        )

    def _ends(self, names: Iterable[str], up: Scale) -> list[float]:
        """Return the height at which each curve ends."""
        curves = (self.lines.get(name) or self.dots[name] for name in names)
        return [up(max(points)[1]) for points in curves]


def _scales(points: Points) -> tuple[Scale, Scale]:
    xs, ys = [x for x, _ in points] or [0.0], [y for _, y in points] or [0.0]
    low = min(xs) if min(xs) > 0.3 * max(xs) else min(0.0, *xs)
    across = Scale(low, max(xs), _LEFT, WIDTH - _RIGHT)
    return across, Scale(min(0.0, *ys), 1.06 * max(*ys, 1e-9), _FOOT, _TOP)


def _hue(name: str, place: int) -> int:
    """Return the number of a name's colour: a topology has the one of the board."""
    first = name.split(",")[0].split()[0]
    return _HUES.get(first, 3 + place % 3)


def _grid(across: Scale, up: Scale, x: str, y: str) -> str:
    parts = [f'<text x="8" y="16">{escape(y)}</text>']
    for value in ticks(up.low, up.high, 5):
        at = up(value)
        parts.append(
            f'<path class="ps-grid" d="M{_LEFT},{at:.1f} H{WIDTH - _RIGHT}"/>'
            f'<text x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">'
            f"{value:,g}</text>"
        )
    parts.append(f'<path class="ps-axis" d="M{_LEFT},{_FOOT} H{WIDTH - _RIGHT}"/>')
    for value in ticks(across.low, across.high):
        at = across(value)
        parts.append(
            f'<path class="ps-axis" d="M{at:.1f},{_FOOT} v5"/>'
            f'<text x="{at:.1f}" y="{_FOOT + 20}" text-anchor="middle">'
            f"{value:,g}</text>"
        )
    middle = (across.start + across.end) / 2
    what = f'x="{middle:.0f}" y="{_FOOT + 42}" text-anchor="middle"'
    return "".join([*parts, f"<text {what}>{escape(x)}</text>"])


def _line(points: Points, across: Scale, up: Scale, colour: str, dash: str) -> str:
    if not points:
        return ""
    path = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in points)
    return (
        f'<polyline points="{path}" style="fill:none;stroke:{colour};stroke-width:2.4" '
        f'stroke-dasharray="{dash}"/>'
    )


def _mark(place: int, x: float, y: float, colour: str) -> str:
    """Draw a dot whose form tells the curve as its colour does."""
    look = f'style="fill:{colour};stroke:var(--ps-background);stroke-width:1.2"'
    if place % 2:
        return f'<path d="M{x:.1f},{y - 7:.1f} l7,7 l-7,7 l-7,-7 z" {look}/>'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5.5" {look}/>'


def _names(names: Sequence[str], ends: Sequence[float]) -> str:
    """Write each name where its curve ends, moved down where two would collide."""
    parts, free = [], 0.0
    for place in sorted(range(len(names)), key=lambda i: ends[i]):
        at = max(ends[place] + 4, free)
        free = at + _LABEL_PX
        colour = f"var(--ps-h{_hue(names[place], place)})"
        parts.append(
            f'<text x="{WIDTH - _RIGHT + 12}" y="{at:.1f}" '
            f'style="fill:{colour};font-weight:600">{escape(names[place])}</text>'
        )
    return "".join(parts)
