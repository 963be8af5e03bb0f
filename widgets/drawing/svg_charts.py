"""The curves as plain SVG, for where no script runs: a chart in, a picture out.

Pure. They show what the live figures show, from the same description
(`widgets.drawing.curves`), and need nothing else: they are visible in a saved notebook,
in a page made from it, and without JavaScript. Colours are variables of the page
(`widgets.drawing.looks`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kit.demo.verdict import number_text
from kit.markup import NO_HTML, Html, element, joined
from kit.trace.traffic import Phase
from widgets.drawing.curves import Bars, Chart, Mark, Region, Series, Timeline
from widgets.drawing.strips import TOP, mark_words
from widgets.drawing.theme import FLIGHT, FLIGHT_OFF, GROUP_PHASES, PHASE_HEIGHT

WIDTH = 640
_LEFT, _RIGHT, _UNDER, _OVER = 56, 14, 44, 26
_STRIP, _ROW, _BAR, _THIN = 26, 40, 30, 5
_CURVES = 250  # the height of curves in one frame
_DASH = {"solid": "", "dashed": "7 4", "dotdash": "2 4 7 4", "dotted": "2 4"}
PATTERNS = Html(
    '<defs><pattern id="ps-cross" width="7" height="7" patternUnits="userSpaceOnUse">'
    '<path d="M0,0 L7,7 M7,0 L0,7"/></pattern><pattern id="ps-slant" width="7" '
    'height="7" patternUnits="userSpaceOnUse"><path d="M0,7 L7,0"/></pattern>'
    '<pattern id="ps-upright" width="7" height="7" patternUnits="userSpaceOnUse">'
    '<path d="M3,0 V7"/></pattern></defs>'
)
_HATCH = {
    Phase.APPLY: "ps-cross",
    Phase.SEND: "ps-slant",
    Phase.LOAD: "ps-upright",
}


class Scale(NamedTuple):
    """Maps values from `low` to `high` onto pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def __call__(self, value: float) -> float:
        """Return the pixel of a value, or NaN if it needs a logarithm and has none.

        >>> Scale(0, 10, 100, 200)(2.5), Scale(0.01, 100, 0, 200, is_log=True)(1)
        (125.0, 100.0)
        """
        low, high = self.low, self.high
        if self.is_log:
            low, high, value = _log(low), _log(high), _log(value)
        share = (value - low) / ((high - low) or 1.0)
        return self.start + share * (self.end - self.start)

    def ticks(self, most: int) -> list[float]:
        """Return round values; on a logarithmic scale powers of ten, or 1, 2 and 5."""
        if not self.is_log:
            return ticks(self.low, self.high, most)
        first, last = math.floor(_log(self.low)), math.ceil(_log(self.high))
        # Over two decades or less, powers of ten alone would be too few.
        steps = (1, 2, 5) if last - first <= 2 else (1,)
        every = max(1, math.ceil((last - first) / most))
        numbers = [m * 10.0**n for n in range(first, last + 1, every) for m in steps]
        return [number for number in numbers if self.low <= number <= self.high]


def _log(value: float) -> float:
    return math.log10(value) if value > 0 else math.nan


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return round values between two bounds.

    >>> ticks(0, 47)
    [0, 10, 20, 30, 40]
    >>> ticks(0.0, 0.9, most=4)
    [0.0, 0.3, 0.6, 0.9]
    """
    span = high - low
    if not span > 0 or not math.isfinite(span):
        return [low]
    size = 10.0 ** math.floor(math.log10(span / most))
    step = next(size * m for m in (1, 2, 3, 5, 10) if span / (size * m) <= most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    if step >= 1:
        return [int(step) * n for n in range(first, last + 1)]
    return [round(step * n, 12) for n in range(first, last + 1)]


def curves_chart(chart: Chart) -> Html:
    """Draw curves in one frame on the regions behind them; "" without any points."""
    height = _CURVES
    if not any(len(series.points) for series in chart.series):
        return Html()
    x, y = _curves_scales(chart)
    parts = [_shade(chart.regions, x, height), _x_axis(x, height, chart.x.label)]
    parts += _again(chart.again, x, height)
    parts += [_y_tick(y(value), number_text(value)) for value in y.ticks(5)]
    bands_first = sorted(chart.series, key=lambda line: not line.to)
    lines = [line for line in bands_first if len(line.points)]
    parts += [_curve(line, x, y) for line in lines if not line.is_right]
    right = [line for line in lines if line.is_right]
    if chart.right and right:
        share = Scale(chart.right.low, chart.right.high, y.start, y.end)
        parts += [_curve(line, x, share) for line in right]
        for value in ticks(share.low, share.high, 2)[1:]:
            parts.append(_right_text(WIDTH - _RIGHT, share(value) - 4, f"{value:.0%}"))
        parts.append(_right_text(WIDTH - _RIGHT, 14, chart.right.label))
    # Below the names of the regions, and below a share of 1.
    parts += _marks(chart.marks, x, "ps-mark", _OVER + 24, height - _UNDER)
    return _chart(height, chart.title, chart.y.label, parts)


def links_chart(chart: Chart) -> Html:
    """Draw each series in steps, in a separate strip; "" without any."""
    if not chart.series:
        return Html()
    x, height = _strips_scale(chart)
    left = x.start
    parts = [_x_axis(x, height, chart.x.label, left)]
    for index, series in enumerate(chart.series):
        foot = _OVER + _STRIP * (index + 1)
        y = Scale(0.0, chart.y.high, foot, foot - _STRIP * (1 - TOP))
        parts.append(_strip(series, x, y))
        parts.append(_right_text(left - 6, foot - 3, series.label))
    parts += _marks(chart.marks, x, "ps-mark", 4, height - _UNDER)
    return _chart(height, f"{chart.title}, {chart.y.label}", "", parts)


def curves_pointer(chart: Chart, at: float, value: float | None) -> Html:
    """Return a line at a place of `curves_chart`'s x axis, with a dot at a value."""
    x, y = _curves_scales(chart)
    line = _pointer(x(at), _OVER, _CURVES - _UNDER)
    if value is None or not math.isfinite(value):
        return line
    return line + element("circle", class_="ps-pointer", cx=x(at), cy=y(value), r=5)


def links_pointer(chart: Chart, at: float) -> Html:
    """Return a line at a place of `links_chart`'s x axis."""
    x, height = _strips_scale(chart)
    return _pointer(x(at), 4, height - _UNDER)


def _pointer(x: float, top: float, foot: float) -> Html:
    return element("path", class_="ps-pointer", d=f"M{x:.1f},{top:g} V{foot:g}")


def _curves_scales(chart: Chart) -> tuple[Scale, Scale]:
    x = Scale(chart.x.low, chart.x.high, _LEFT, WIDTH - _RIGHT)
    return x, Scale(*chart.y[1:], _CURVES - _UNDER, _OVER + 18, chart.is_log)


def _strips_scale(chart: Chart) -> tuple[Scale, float]:
    """Return the x axis of strips, and the height of all."""
    left = 18 + 7.6 * max(len(series.label) for series in chart.series)
    height = _OVER + _STRIP * len(chart.series) + _UNDER
    return Scale(chart.x.low, chart.x.high, left, WIDTH - _RIGHT), height


def timeline_chart(chart: Timeline) -> Html:
    """Draw what each task did: a row for each, a bar for each stretch of time."""
    spans = chart.spans
    if not len(spans["left"]):
        return Html()
    height = _OVER + 24 + _ROW * len(chart.rows) + _UNDER
    left = 18 + 8 * max(map(len, chart.rows))
    x = Scale(chart.x.low, chart.x.high, left, WIDTH - _RIGHT)
    phases = tuple(Phase) if chart.arrows is None else GROUP_PHASES
    parts = [PATTERNS, _key(phases), _x_axis(x, height, chart.x.label, left)]
    middle = {}
    for index, name in enumerate(chart.rows):
        middle[name] = _OVER + 24 + _ROW * (index + 0.5)
        parts.append(_right_text(left - 6, middle[name] + 4, name))
    columns = (spans[name] for name in ("task", "phase", "left", "right"))
    for task, phase, begin, end in zip(*columns, strict=True):
        tall = _ROW * 0.8 * PHASE_HEIGHT[Phase[phase.upper()]]
        box = (x(begin), middle[task] - tall / 2, max(0.6, x(end) - x(begin)), tall)
        parts.append(_bar(Phase[phase.upper()], *box))
    columns = (chart.flights[name] for name in ("task", "left", "right"))
    for task, begin, end in zip(*columns, strict=True):
        y = middle[task] - _ROW * FLIGHT_OFF - _THIN / 2
        parts.append(_flight(x(begin), y, max(0.6, x(end) - x(begin))))
    parts += _marks(chart.starts, x, "ps-grid", _OVER + 6, height - _UNDER)
    parts += _arrows(chart, x, middle)
    return _chart(height, chart.title, "", parts)


def _arrows(chart: Timeline, x: Scale, middle: Mapping[str, float]) -> Iterator[Html]:
    """Draw messages from row to row, and a cross where one did not come."""
    columns = chart.arrows or {"told": []}
    names = ("source", "target", "sent", "arrived", "look", "told")
    rows = zip(*(columns[name] for name in names), strict=True) if chart.arrows else ()
    for source, target, sent, arrived, look, title in rows:
        x1, y1 = x(max(chart.x.low, sent)), middle[source]
        x2, y2 = x(arrived), middle[target]
        if look == "missing":
            path = f"M{x2 - 5:.1f},{y2 - 5:.1f} l10,10 m0,-10 l-10,10"
            kind, shape = "ps-missing", element("path", d=path)
        else:
            dash = None if look == "message" else "5 4"
            path = f"M{x1:.1f},{y1:.1f} L{x2:.1f},{y2:.1f}"
            line = element("path", stroke_dasharray=dash, d=path)
            kind, shape = "ps-message", line + element("circle", cx=x2, cy=y2, r=4)
        yield element("g", element("title", title), shape, class_=kind)


def bars_chart(chart: Bars) -> Html:
    """Draw a bar for each row, with its length at the end; "" without any."""
    if not chart.rows:
        return Html()
    over = _OVER if chart.is_of_phases else 8
    height = over + _BAR * len(chart.rows) + _UNDER
    # As wide as in the larger type of a phone, where the whole is drawn smaller.
    left = 18 + 10.2 * max(len(label) for label, _ in chart.rows)
    x = Scale(0.0, chart.x.high, left, WIDTH - _RIGHT - 60)
    parts = [PATTERNS, _key()] if chart.is_of_phases else []
    parts.append(_x_axis(x, height, chart.x.label, left))
    for index, (label, stretches) in enumerate(chart.rows):
        middle, at = over + _BAR * (index + 0.5), 0.0
        parts.append(_right_text(left - 6, middle + 4, label))
        for part in stretches:
            begin, end = x(at), x(at + part.value)
            box = (begin, middle - _BAR * 0.36, max(0.6, end - begin), _BAR * 0.72)
            if part.phase is not None:
                parts.append(_bar(part.phase, *box))
            else:
                parts.append(_box(*box, style=f"fill:var(--ps-{part.colour})"))
            at += part.value
        parts.append(_text(x(at) + 6, middle + 4, f"{at:,.4g}"))
    return _chart(height, chart.title, "", parts)


def sample(colour: str, dash: str) -> Html:
    """Draw a short piece of a curve, for a legend."""
    line = element(
        "path",
        class_="ps-curve",
        d="M1,6 H43",
        stroke_dasharray=_DASH[dash] or None,
        style=f"stroke:var(--ps-{colour})",
    )
    return element(
        "svg",
        line,
        class_="ps-chart ps-sample",
        viewBox="0 0 44 12",
        width=44,
        height=12,
        aria_hidden="true",
    )


def _flight(x: float, y: float, width: float) -> Html:
    """Draw the thin bar of bytes that are on their way."""
    return _box(x, y, width, _THIN, class_="ps-flight")


def _curve(series: Series, x: Scale, y: Scale) -> Html:
    """Draw a line, or a band between two."""
    name = series.label
    if series.to:
        there, low, high = series.points.T
        edge = [*_points(there, high, x, y), *reversed(_points(there, low, x, y))]
        look = {"class_": "ps-band", "style": f"fill:var(--ps-{series.colour})"}
        return element("polygon", **look, data_series=name, points=" ".join(edge))
    there, values = series.points.T
    points = " ".join(_points(there, values, x, y))
    line = element(
        "polyline",
        class_="ps-curve ps-thin" if series.is_thin else "ps-curve",
        style=f"stroke:var(--ps-{series.colour})",
        stroke_dasharray=_DASH[series.dash] or None,
        data_series=name,
        points=points,
    )
    if series.has_dots:
        dot = {"class_": "ps-dot", "style": f"fill:var(--ps-{series.colour})", "r": 3.5}
        pairs = (pair.split(",") for pair in points.split())
        line += joined(element("circle", **dot, cx=at, cy=value) for at, value in pairs)
    return line


def _chart(height: float, what: str, y_label: str, parts: Sequence[Html]) -> Html:
    label = element("text", y_label, x=8, y=14) if y_label else NO_HTML
    return element(
        "svg",
        *parts,
        label,
        class_="ps-chart",
        viewBox=f"0 0 {WIDTH} {height:.0f}",
        role="img",
        xmlns="http://www.w3.org/2000/svg",
        aria_label=what,
    )


def _shade(regions: Sequence[Region], x: Scale, height: float) -> Html:
    parts = []
    for region in regions:
        begin, end = x(region.left), x(region.right)
        look = {"class_": "ps-region", "style": f"fill:var(--ps-{region.colour})"}
        tall = height - _UNDER - _OVER
        parts.append(_box(begin, _OVER, max(0.0, end - begin), tall, **look))
        if end - begin >= 8 * len(region.label) + 10:  # there is room for it
            parts.append(_text(begin + 4, _OVER + 14, region.label))
    return joined(parts)


def _again(
    stretches: Iterable[tuple[float, float]], x: Scale, height: float
) -> Iterator[Html]:
    """Draw a band over the steps that were done again."""
    for left, right in stretches:
        if right > left:
            size = (max(2.0, x(right) - x(left)), height - _UNDER - _OVER)
            yield _box(x(left), _OVER, *size, class_="ps-again")


def _x_axis(x: Scale, height: float, label: str, left: float = _LEFT) -> Html:
    foot = height - _UNDER
    path = f"M{left:.1f},{foot} H{WIDTH - _RIGHT}"
    parts = [element("path", class_="ps-axis", d=path)]
    for value in ticks(x.low, x.high):
        at = x(value)
        parts.append(element("path", class_="ps-axis", d=f"M{at:.1f},{foot} v5"))
        parts.append(_text(at, foot + 18, number_text(value), "middle"))
    middle = round((x.start + x.end) / 2)
    return joined([*parts, _text(middle, foot + 36, label, "middle")])


def _y_tick(at: float, text: str) -> Html:
    path = f"M{_LEFT},{at:.1f} H{WIDTH - _RIGHT}"
    line = element("path", class_="ps-grid", d=path)
    return line + _right_text(_LEFT - 6, at + 4, text)


def _marks(
    marks: Sequence[Mark], x: Scale, look: str, top: float, foot: float
) -> Iterator[Html]:
    """Draw a line at each mark, with its words where there is room for them."""
    places = [x(mark.at) for mark in marks]
    inner = [item - x.start for item in places]
    said = mark_words([mark.label for mark in marks], inner, x.end - x.start)
    for at, (words, is_left) in zip(places, said, strict=True):
        yield element("path", class_=look, d=f"M{at:.1f},{top:g} V{foot:g}")
        if words:
            write = _right_text if is_left else _text
            yield write(at - 4 if is_left else at + 4, top + 12, words)


def _text(x: float, y: float, text: str, anchor: str | None = None) -> Html:
    return element("text", text, x=x, y=y, text_anchor=anchor)


def _right_text(x: float, y: float, text: str) -> Html:
    return _text(x, y, text, "end")


def _points(
    there: Iterable[float], values: Iterable[float], x: Scale, y: Scale
) -> list[str]:
    pairs = ((x(at), y(value)) for at, value in zip(there, values, strict=True))
    return [f"{at:.1f},{value:.1f}" for at, value in pairs if math.isfinite(value)]


def _strip(series: Series, x: Scale, y: Scale) -> Html:
    """Draw one link's rate in steps over a tinted area."""
    second, rates = series.points.T.tolist()
    path = [f"M{x(second[0]):.1f},{y(0):.1f}"]
    inner = zip(rates[:-1], second[1:], strict=True)
    path += [f"V{y(rate):.1f}H{x(end):.1f}" for rate, end in inner]
    path.append(f"V{y(0):.1f}")
    colour = f"var(--ps-{series.colour})"
    return element(
        "path",
        class_="ps-strip",
        style=f"stroke:{colour};fill:{colour}",
        stroke_dasharray=_DASH[series.dash],
        data_series=series.label,
        d="".join(path),
    )


def _bar(phase: Phase, x: float, y: float, width: float, height: float) -> Html:
    box = (x, y, width, height)
    bar = _box(*box, class_=f"ps-{phase.name.lower()}")
    if phase in _HATCH:
        bar += _box(*box, fill=f"url(#{_HATCH[phase]})")
    return bar


def _box(x: float, y: float, width: float, height: float, **look: str) -> Html:
    return element("rect", **look, x=x, y=y, width=width, height=height)


def _key(phases: Iterable[Phase] = Phase) -> Html:
    """Draw the legend of the phases and of bytes in flight, in one line."""
    parts, at, wide = [], 8.0, 16
    for phase in phases:
        tall, name = 18 * PHASE_HEIGHT[phase], phase.name.lower()
        parts.append(_bar(phase, at, 13 - tall / 2, wide, tall))
        parts.append(_text(at + wide + 4, 18, name))
        at += wide + 13 + 8.2 * len(name)
    parts.append(_flight(at, 13 - _THIN / 2, wide))
    return joined([*parts, _text(at + wide + 4, 18, FLIGHT)])
