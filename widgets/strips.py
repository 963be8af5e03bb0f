"""Columns of the live figures that need shaping: strips of links, names of regions.

Pure. The live figures have a fixed set of marks whose data alone changes, because a
page that was reloaded begins with the marks of the start; so all links are rows of one
table.
"""

from __future__ import annotations

from collections.abc import Mapping

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


def peak(lines: Mapping[str, Columns]) -> float:
    """Return the highest rate of all links; 0.0 without any."""
    return max((float(np.max(line["rate"])) for line in lines.values()), default=0.0)


def named(regions: Columns, theme: Theme) -> Columns:
    """Return the regions with a colour each, and the name at most of them."""
    known = tuple(dict.fromkeys(regions["topology"]))
    names = list(regions["topology"])
    if len(names) > 8:  # more would cover each other
        names = [""] * len(names)
    return {
        "left": list(regions["left"]),
        "right": list(regions["right"]),
        "colour": [theme.topology(name, known) for name in regions["topology"]],
        "name": names,
        "top": [1.0] * len(names),
    }
