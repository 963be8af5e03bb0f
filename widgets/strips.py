"""Columns of the live figures that need shaping: strips of links, names of regions.

Pure. The live figures have a fixed set of marks whose data alone changes, because a
page that was reloaded begins with the marks of the start; so all links are rows of one
table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from widgets.feed import Columns
from widgets.theme import Theme, link_style

TOP = 0.12  # of a strip is left free above its highest line


def strips(lines: Mapping[str, Columns], theme: Theme) -> Columns:
    """Return xs and ys of each link's line in steps, its colour, dash, name and peak.

    The strip of link number k lies between y = k + 1 (no bytes) and y = k + 0.12 (the
    highest rate of all links).

    >>> from widgets.theme import LIGHT
    >>> one = {"second": np.array([0.0, 2.0]), "rate": np.array([4.0, 4.0])}
    >>> found = strips({"a -> b": one}, LIGHT)
    >>> found["xs"], found["ys"]
    ([[0.0, 0.0, 2.0, 2.0]], [[1.0, 0.12, 0.12, 1.0]])
    """
    top = peak(lines) or 1.0
    columns: Columns = {"xs": [], "ys": [], "colour": [], "dash": [], "name": []}
    for place, (name, line) in enumerate(lines.items()):
        second, rate = line["second"], line["rate"][:-1]
        inner = np.repeat(place + 1 - (1 - TOP) * rate / top, 2)
        ys = np.concatenate([[place + 1.0], inner, [place + 1.0]])
        colour, dash = link_style(theme, place)
        columns["xs"].append(np.repeat(second, 2).round(4).tolist())
        columns["ys"].append(ys.round(4).tolist())
        columns["colour"].append(colour)
        columns["dash"].append(dash)
        columns["name"].append(name)
    return columns


def thinned(lines: Mapping[str, Columns], most: int = 100) -> dict[str, Columns]:
    """Return lines of at most `most` stretches, joined without losing a byte.

    Each number of a live figure costs the kernel some microseconds whenever it is sent.

    >>> rate = np.array([4.0, 2.0, 6.0, 6.0])
    >>> one = {"second": np.array([0.0, 1.0, 2.0, 4.0]), "rate": rate}
    >>> found = thinned({"a -> b": one}, most=2)["a -> b"]
    >>> found["second"].tolist(), found["rate"].tolist()
    ([0.0, 2.0, 4.0], [3.0, 6.0, 6.0])
    """
    found = {}
    for name, line in lines.items():
        second, rate = np.asarray(line["second"]), np.asarray(line["rate"])
        first = np.arange(0, len(second) - 1, -(-(len(second) - 1) // most) or 1)
        if not len(first):
            found[name] = line
            continue
        amount = np.add.reduceat(rate[:-1] * np.diff(second), first)
        edges = np.append(second[first], second[-1])
        means = amount / np.maximum(np.diff(edges), 1e-9)
        found[name] = {"second": edges, "rate": np.append(means, means[-1])}
    return found


def peak(lines: Mapping[str, Columns]) -> float:
    """Return the highest rate of all links; 0.0 without any."""
    return max((float(np.max(line["rate"])) for line in lines.values()), default=0.0)


_FRAME_PX = 420.0  # how wide a narrow figure's frame is
_LETTER_PX = 7.5


def mark_words(
    labels: Sequence[str], places: Sequence[float], frame_px: float
) -> list[tuple[str, bool]]:
    """Return what is written at each mark, and whether at its left; "" without room.

    `places` are the marks, in pixels from the left of the frame, in their order.

    >>> mark_words(["ps to ring", "ring to ps"], [10, 390], 400)
    [('ps to ring', False), ('ring to ps', True)]
    >>> mark_words(["ps to ring", "ring to ps"], [10, 20], 60)
    [('', False), ('', False)]
    """
    found, taken = [], 0.0  # up to where there are words or marks
    for number, (label, place) in enumerate(zip(labels, places, strict=True)):
        width = _LETTER_PX * len(label) + 10
        free = min([frame_px, *places[number + 1 : number + 2]])
        is_right, is_left = place + width <= free, place - width >= taken
        found.append((label if is_right or is_left else "", is_left and not is_right))
        taken = place + width if is_right else place
    return found


def marks(switches: Columns, lines: Mapping[str, Columns]) -> Columns:
    """Return the columns of the marks of switches: where, and the words at them."""
    seconds = list(switches["second"])
    ends = [(line["second"][0], line["second"][-1]) for line in lines.values()]
    begin, end = (ends or [(0.0, 1.0)])[0]
    scale = _FRAME_PX / ((end - begin) or 1.0)
    places = [(second - begin) * scale for second in seconds]
    words = mark_words(switches["label"], places, _FRAME_PX)
    return {
        "second": seconds,
        "label": [word for word, _ in words],
        "align": ["right" if is_left else "left" for _, is_left in words],
        "offset": [-5 if is_left else 5 for _, is_left in words],
        "top": [1.0] * len(seconds),
    }


def named(regions: Columns, theme: Theme) -> Columns:
    """Return the regions with a colour each, and a name where there is room for it."""
    known = tuple(dict.fromkeys(regions["topology"]))
    edges = [*regions["left"], *regions["right"]]
    whole = max(edges, default=0.0) - min(edges, default=0.0) or 1.0
    shares = (np.asarray(regions["right"]) - np.asarray(regions["left"])) / whole
    is_few = len(shares) <= 8
    names = [
        name if is_few and len(name) * _LETTER_PX + 10 <= share * _FRAME_PX else ""
        for name, share in zip(regions["topology"], shares, strict=True)
    ]
    return {
        "left": list(regions["left"]),
        "right": list(regions["right"]),
        "colour": [theme.topology(name, known) for name in regions["topology"]],
        "name": names,
        "top": [1.0] * len(names),
    }
