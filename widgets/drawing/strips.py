"""Columns of the live figures that need shaping: strips of links, names of regions.

Pure. A live figure has a fixed set of marks, of which only the data change, because a
reloaded page begins with the marks of the start. So all links are rows of one table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from widgets.drawing import figure_data
from widgets.drawing.curves import Chart, Region
from widgets.drawing.figure_data import Columns
from widgets.drawing.theme import Theme

TOP = 0.12  # the share of a strip that is free above its highest line


def strips(chart: Chart, theme: Theme, *, has_own_scales: bool = False) -> Columns:
    """Return xs and ys of each series' line in steps, its colour, dash and name.

    The strip of series number k is between y = k + 1 (0) and y = k + 0.12 (the highest
    value of all; with scales of their own, of this series, which its name tells).

    >>> from widgets.drawing.curves import links
    >>> from widgets.drawing.theme import LIGHT
    >>> link = {"second": np.array([0.0, 2.0]), "rate": np.array([4.0, 4.0])}
    >>> result = strips(links({"a -> b": link}, {"second": [], "label": []}), LIGHT)
    >>> result["xs"], result["ys"]
    ([[0.0, 0.0, 2.0, 2.0]], [[1.0, 0.12, 0.12, 1.0]])
    """
    columns: Columns = {"xs": [], "ys": [], "colour": [], "dash": [], "name": []}
    for index, series in enumerate(chart.series):
        second, rate = series.points.T
        top = rate.max(initial=0.0) if has_own_scales else chart.y.high
        inner = np.repeat(index + 1 - (1 - TOP) * rate[:-1] / (top or 1.0), 2)
        ys = np.concatenate([[index + 1.0], inner, [index + 1.0]])
        columns["xs"].append(np.repeat(second, 2).round(4).tolist())
        columns["ys"].append(ys.round(4).tolist())
        columns["colour"].append(theme.colour(series.colour))
        columns["dash"].append(series.dash)
        columns["name"].append(series.label + f", {top:.3g}" * has_own_scales)
    return columns


def thinned(lines: Mapping[str, Columns], most: int = 100) -> dict[str, Columns]:
    """Return lines of at most `most` stretches, joined so that no byte is lost.

    To send a number of a live figure costs the kernel some microseconds each time.

    >>> rate = np.array([4.0, 2.0, 6.0, 6.0])
    >>> link = {"second": np.array([0.0, 1.0, 2.0, 4.0]), "rate": rate}
    >>> result = thinned({"a -> b": link}, most=2)["a -> b"]
    >>> result["second"].tolist(), result["rate"].tolist()
    ([0.0, 2.0, 4.0], [3.0, 6.0, 6.0])
    """
    thin = {}
    for name, line in lines.items():
        second, rate = np.asarray(line["second"]), np.asarray(line["rate"])
        first = np.arange(0, len(second) - 1, -(-(len(second) - 1) // most) or 1)
        if not len(first):
            thin[name] = line
            continue
        amount = np.add.reduceat(rate[:-1] * np.diff(second), first)
        edges = np.append(second[first], second[-1])
        means = amount / np.maximum(np.diff(edges), 1e-9)
        thin[name] = {"second": edges, "rate": np.append(means, means[-1])}
    return thin


def smoothed(loss: Columns, share: float) -> tuple[Columns, int]:
    """Return the loss as a moving mean over a share of its points, and over how many.

    Each point is the mean of itself and those before it, as far as there are any. The
    range of the workers stays as it is.

    >>> loss = {"step": [0, 1, 2, 3], "loss": [4.0, 2.0, 6.0, 8.0]}
    >>> result, width = smoothed(loss, 0.5)
    >>> result["loss"], width
    ([4.0, 3.0, 4.0, 7.0], 2)
    >>> smoothed({"step": [0, 1, 2], "loss": [4.0, np.nan, 6.0]}, 0.7)[0]["loss"]
    [4.0, 4.0, 6.0]
    """
    width = max(1, round(share * len(loss["step"])))
    if width == 1:
        return loss, 1
    values = np.asarray(loss["loss"], np.float64)
    means = figure_data.moving_mean(values, width, is_trailing=True)
    return loss | {"loss": means.tolist()}, width


_FRAME_PX = 420.0  # how wide a narrow figure's frame is
_LETTER_PX = 7.5


def mark_words(
    labels: Sequence[str], places: Sequence[float], frame_px: float
) -> list[tuple[str, bool]]:
    """Return what to write at each mark, and whether to its left; "" without room.

    `places` are the marks, in pixels from the left of the frame, in their order.

    >>> mark_words(["ps to ring", "ring to ps"], [10, 390], 400)
    [('ps to ring', False), ('ring to ps', True)]
    >>> mark_words(["ps to ring", "ring to ps"], [10, 20], 60)
    [('', False), ('', False)]
    """
    words, taken = [], 0.0  # up to where there are words or marks
    for number, (label, at) in enumerate(zip(labels, places, strict=True)):
        width = _LETTER_PX * len(label) + 10
        free = min([frame_px, *places[number + 1 : number + 2]])
        is_right, is_left = at + width <= free, at - width >= taken
        words.append((label if is_right or is_left else "", is_left and not is_right))
        taken = at + width if is_right else at
    return words


def marks(chart: Chart) -> Columns:
    """Return the columns of the marks: where, and the words at them."""
    seconds = [mark.at for mark in chart.marks]
    begin, end = (chart.x.low, chart.x.high) if chart.series else (0.0, 1.0)
    scale = _FRAME_PX / ((end - begin) or 1.0)
    places = [(second - begin) * scale for second in seconds]
    words = mark_words([mark.label for mark in chart.marks], places, _FRAME_PX)
    return {
        "second": seconds,
        "label": [word for word, _ in words],
        "align": ["right" if is_left else "left" for _, is_left in words],
        "offset": [-5 if is_left else 5 for _, is_left in words],
        "top": [1.0] * len(seconds),
    }


def again(chart: Chart) -> Columns:
    """Return left and right of the stretches that were done again."""
    stretches = [span for span in chart.again if span[1] > span[0]]
    return {
        "left": [left for left, _ in stretches],
        "right": [right for _, right in stretches],
    }


def named(regions: Sequence[Region], theme: Theme) -> Columns:
    """Return the regions with a colour each, and a name where there is room for it."""
    edges = [edge for region in regions for edge in (region.left, region.right)]
    whole = max(edges, default=0.0) - min(edges, default=0.0) or 1.0
    is_few = len(regions) <= 8
    return {
        "left": [region.left for region in regions],
        "right": [region.right for region in regions],
        "colour": [theme.colour(region.colour) for region in regions],
        "name": [
            region.label
            if is_few
            and len(region.label) * _LETTER_PX + 10
            <= (region.right - region.left) / whole * _FRAME_PX
            else ""
            for region in regions
        ],
        "top": [1.0] * len(regions),
    }
