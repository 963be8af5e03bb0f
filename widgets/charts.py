"""The curves as plain SVG text, for where no script runs: columns in, picture out.

Pure. They show what the live figures show, from the same columns, and need nothing: a
saved notebook, a page made of it and a reader without JavaScript see them. Colours are
variables of the page (`widgets.looks`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

from kit.trace.traffic import Phase
from widgets.feed import Columns
from widgets.strips import TOP, mark_words, peak
from widgets.theme import DASHES, PHASE_HEIGHT, topology_hues

WIDTH = 640
_LEFT, _RIGHT, _UNDER, _OVER = 56, 14, 44, 26
_STRIP, _ROW = 26, 40
_DASH = {"solid": "", "dashed": "7 4", "dotdash": "2 4 7 4", "dotted": "2 4"}
_HUES = 6
PATTERNS = (
    '<defs><pattern id="ps-cross" width="7" height="7" patternUnits="userSpaceOnUse">'
    '<path d="M0,0 L7,7 M7,0 L0,7"/></pattern><pattern id="ps-slant" width="7" '
    'height="7" patternUnits="userSpaceOnUse"><path d="M0,7 L7,0"/></pattern></defs>'
)
_HATCH = {Phase.APPLY: "ps-cross", Phase.SEND: "ps-slant"}


class Scale(NamedTuple):
    """Maps values from `low` to `high` onto pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the pixel of a value.

        >>> Scale(0, 10, 100, 200)(2.5)
        125.0
        """
        share = (value - self.low) / ((self.high - self.low) or 1.0)
        return self.start + share * (self.end - self.start)


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


def loss_chart(loss: Columns, regions: Columns, shares: Columns | None = None) -> str:
    """Draw the loss over the steps: mean, range, and the topologies behind.

    `shares` are steps and values of the accuracy, from 0 to 1 on an axis at the right.
    """
    height = 250
    if not loss["step"]:
        return ""
    last = max([*regions["right"][-1:], loss["step"][-1]])
    finite = [v for v in (*loss["low"], *loss["high"]) if math.isfinite(v)] or [0.0]
    x = Scale(0, last or 1, _LEFT, WIDTH - _RIGHT)
    y = Scale(min(0.0, *finite), max(finite) or 1.0, height - _UNDER, _OVER + 18)
    parts = [_shade(regions, x, height), _x_axis(x, height, "step")]
    parts += [_y_tick(y(value), f"{value:g}") for value in ticks(y.low, y.high, 5)]
    there = [x(step) for step in loss["step"]]
    edge = [*_points(there, loss["high"], y), *reversed(_points(there, loss["low"], y))]
    parts.append(f'<polygon class="ps-band" points="{" ".join(edge)}"/>')
    mean = " ".join(_points(there, loss["loss"], y))
    parts.append(f'<polyline class="ps-mean" points="{mean}"/>')
    if shares and shares["step"]:
        parts.append(_share(shares, x, Scale(0.0, 1.0, y.start, y.end)))
    return _chart(height, f"Loss over {last:,.0f} steps", "loss", parts)


def links_chart(lines: Mapping[str, Columns], switches: Columns) -> str:
    """Draw the rate of each link over time, each in a strip of its own."""
    if not lines:
        return ""
    top, n = peak(lines) or 1.0, len(lines)
    height = _OVER + _STRIP * n + _UNDER
    left = 18 + 7.6 * max(map(len, lines))
    last = max(float(line["second"][-1]) for line in lines.values())
    x = Scale(0.0, last, left, WIDTH - _RIGHT)
    parts = [_x_axis(x, height, "time since the start [s]", left)]
    for place, (name, line) in enumerate(lines.items()):
        foot = _OVER + _STRIP * (place + 1)
        y = Scale(0.0, top, foot, foot - _STRIP * (1 - TOP))
        parts.append(_strip(line, x, y, place))
        parts.append(_right_text(left - 6, foot - 3, name))
    places = [x(second) - left for second in switches["second"]]
    said = mark_words(switches["label"], places, WIDTH - _RIGHT - left)
    for pixel, (words, is_left) in zip(places, said, strict=True):
        at = left + pixel
        parts.append(f'<path class="ps-mark" d="M{at:.1f},4 V{height - _UNDER}"/>')
        write = _right_text if is_left else _text
        parts.append(write(at - 4 if is_left else at + 4, 16, words))
    what = f"Bytes on each link over time, each strip from 0 to {top:.3g} MB/s"
    return _chart(height, what, "", parts)


def timeline_chart(spans: Columns, starts: Columns, tasks: Sequence[str]) -> str:
    """Draw what each task did: a row for each, a bar for each stretch of time."""
    if not len(spans["left"]):
        return ""
    height = _OVER + 24 + _ROW * len(tasks) + _UNDER
    left = 18 + 8 * max(map(len, tasks))
    low, high = float(min(spans["left"])), float(max(spans["right"]))
    x = Scale(low, high, left, WIDTH - _RIGHT)
    parts = [PATTERNS, _key(), _x_axis(x, height, "time [ms]", left)]
    middle = {}
    for place, name in enumerate(tasks):
        middle[name] = _OVER + 24 + _ROW * (place + 0.5)
        parts.append(_right_text(left - 6, middle[name] + 4, name))
    columns = (spans[name] for name in ("task", "phase", "left", "right"))
    for task, phase, begin, end in zip(*columns, strict=True):
        tall = _ROW * 0.8 * PHASE_HEIGHT[Phase[phase.upper()]]
        box = (x(begin), middle[task] - tall / 2, max(0.6, x(end) - x(begin)), tall)
        parts.append(_bar(Phase[phase.upper()], *box))
    for at, step in zip(starts["at"], starts["step"], strict=True):
        pixel = x(at)
        path = (
            f'<path class="ps-grid" d="M{pixel:.1f},{_OVER + 20} V{height - _UNDER}"/>'
        )
        parts.append(f'{path}<text x="{pixel + 2:.1f}" y="{_OVER + 18}">{step}</text>')
    return _chart(height, "What each task did in the steps shown", "", parts)


def _share(shares: Columns, x: Scale, y: Scale) -> str:
    """Draw the accuracy, and its axis within the frame."""
    points = " ".join(_points([x(s) for s in shares["step"]], shares["value"], y))
    axis = "".join(
        _right_text(WIDTH - _RIGHT, y(value) - 4, f"{value:.0%}") for value in (0.5, 1)
    )
    name = _right_text(WIDTH - _RIGHT, 14, "accuracy (dashed, at the right)")
    return f'<polyline class="ps-share" points="{points}"/>{axis}{name}'


def _chart(height: float, what: str, y_label: str, parts: Sequence[str]) -> str:
    label = f'<text x="8" y="14">{y_label}</text>' if y_label else ""
    return (
        f'<svg class="ps-chart" viewBox="0 0 {WIDTH} {height:.0f}" role="img" '
        f'xmlns="http://www.w3.org/2000/svg" aria-label="{escape(what)}">'
        f"{''.join(parts)}{label}</svg>"
    )


def _shade(regions: Columns, x: Scale, height: float) -> str:
    parts = []
    names = regions["topology"]
    hues = topology_hues(names)
    for left, right, name in zip(regions["left"], regions["right"], names, strict=True):
        hue = hues[name] % _HUES
        begin, end = x(left), x(right)
        parts.append(
            f'<rect class="ps-region" style="fill:var(--ps-h{hue})" x="{begin:.1f}" '
            f'y="{_OVER}" width="{max(0.0, end - begin):.1f}" '
            f'height="{height - _UNDER - _OVER}"/>'
        )
        if end - begin >= 8 * len(name) + 10:  # there is room for it
            parts.append(_text(begin + 4, _OVER + 14, name))
    return "".join(parts)


def _x_axis(x: Scale, height: float, label: str, left: float = _LEFT) -> str:
    foot = height - _UNDER
    parts = [f'<path class="ps-axis" d="M{left:.1f},{foot} H{WIDTH - _RIGHT}"/>']
    for value in ticks(x.low, x.high):
        at = x(value)
        parts.append(
            f'<path class="ps-axis" d="M{at:.1f},{foot} v5"/>'
            f'<text x="{at:.1f}" y="{foot + 18}" text-anchor="middle">{value:,g}</text>'
        )
    middle = (x.start + x.end) / 2
    text = f'<text x="{middle:.0f}" y="{foot + 36}" text-anchor="middle">{label}</text>'
    return "".join([*parts, text])


def _y_tick(at: float, text: str) -> str:
    line = f'<path class="ps-grid" d="M{_LEFT},{at:.1f} H{WIDTH - _RIGHT}"/>'
    return line + _right_text(_LEFT - 6, at + 4, text)


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _right_text(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="end">{escape(text)}</text>'


def _points(there: Sequence[float], values: Sequence[float], y: Scale) -> list[str]:
    pairs = zip(there, values, strict=True)
    return [f"{at:.1f},{y(value):.1f}" for at, value in pairs if math.isfinite(value)]


def _strip(line: Columns, x: Scale, y: Scale, place: int) -> str:
    """Draw one link's rate in steps over a tinted area."""
    hue = place % _HUES
    dash = _DASH[DASHES[(place + place // _HUES) % len(DASHES)]]
    path = [f"M{x(float(line['second'][0])):.1f},{y(0):.1f}"]
    inner = zip(line["rate"][:-1], line["second"][1:], strict=True)
    path += [f"V{y(float(rate)):.1f}H{x(float(end)):.1f}" for rate, end in inner]
    path.append(f"V{y(0):.1f}")
    return (
        f'<path class="ps-strip" style="stroke:var(--ps-h{hue});fill:var(--ps-h{hue})" '
        f'stroke-dasharray="{dash}" d="{"".join(path)}"/>'
    )


def _bar(phase: Phase, x: float, y: float, width: float, height: float) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    found = f'<rect class="ps-{phase.name.lower()}" {place}/>'
    if phase in _HATCH:
        found += f'<rect fill="url(#{_HATCH[phase]})" {place}/>'
    return found


def _key() -> str:
    """Draw the legend of the phases."""
    parts = []
    for place, phase in enumerate(Phase):
        at = 20 + place * 118
        tall = 18 * PHASE_HEIGHT[phase]
        parts.append(_bar(phase, at, 13 - tall / 2, 26, tall))
        parts.append(f'<text x="{at + 32}" y="18">{phase.name.lower()}</text>')
    return "".join(parts)
