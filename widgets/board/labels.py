"""Where the numbers at the arrows of a picture are, so that they cover nothing.

Pure arithmetic, in pixels. Every place on a grid is tried: a label may touch no box, no
arrow and no other label. It is as near to its own arrow as it can be, and nearer to it
than to any other. A link without such a place has no label: what it carries is in the
table, and where the mouse rests on the arrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from widgets.board.geometry import WIDTH, SceneLayout, TaskBox, path
from widgets.board.run_state import Link

Links = tuple[Link, ...]  # one, or both directions between two tasks
_GRID = 6  # from one place to the next
_BESIDE, _TIP = 9.0, 15.0  # free beside an arrow, and around its tip
_REACH = 30.0  # further off, nobody would look for a label
_SHARES = np.linspace(0.0, 1.0, 25)  # of an arrow, at which its distance is taken


@lru_cache(maxsize=64)  # a board asks at each beat, and they seldom change
def label_places(
    layout: SceneLayout, labels: tuple[Links, ...], width: float, height: float
) -> dict[Links, tuple[float, float]]:
    """Return the middles of labels of one size, each of a link or of both directions.

    >>> from widgets.board.geometry import layout
    >>> pair = (0, 1), (1, 0)
    >>> picture = layout(["ps:0", "worker:0"], "ps")
    >>> (x, y), = label_places(picture, (pair,), 60, 40).values()
    >>> abs(x - picture.boxes[0].x) > 30
    True
    """
    x, y = np.meshgrid(
        np.arange(width / 2 + 4, WIDTH - width / 2 - 3, _GRID),
        np.arange(height / 2, layout.height - height / 2, _GRID),
    )

    def gap(points: Sequence[tuple[float, float]]) -> npt.NDArray[np.float64]:
        """Return how far a label at each place is from the nearest of some points."""
        wide = [np.maximum(abs(x - at) - width / 2, 0) for at, _ in points]
        high = [np.maximum(abs(y - at) - height / 2, 0) for _, at in points]
        nearest: npt.NDArray[np.float64] = np.min([*map(np.hypot, wide, high)], axis=0)
        return nearest

    def covers(box: TaskBox) -> npt.NDArray[np.bool_]:
        wide, high = (box.width + width) / 2 + 2, (box.height + height) / 2 + 2
        inside: npt.NDArray[np.bool_] = (abs(x - box.x) < wide) & (
            abs(y - box.y) < high
        )
        return inside

    lines = {links: [path(layout, link) for link in links] for links in labels}
    gaps = {
        links: gap([line.at(share) for line in some for share in _SHARES])
        for links, some in lines.items()
    }
    is_free = np.min([*gaps.values()], axis=0) > _BESIDE
    is_free &= gap([line.end for some in lines.values() for line in some]) > _TIP
    for box in (*layout.boxes, *(panel.head for panel in layout.panels)):
        is_free &= ~covers(box)
    outwards = np.hypot(x - WIDTH / 2, y - layout.height / 2)
    costs = {}
    for links, near in gaps.items():
        others = [gaps[label] for label in labels if label != links]
        is_own = np.min([np.full_like(near, _REACH), *others], axis=0) >= near
        middle = gap([line.at(0.5) for line in lines[links]])
        costs[links] = np.where(is_own, near + 0.3 * middle - 0.05 * outwards, np.inf)
    places = {}
    # Those with the fewest places to choose from come first.
    for links in sorted(
        labels, key=lambda label: (is_free & np.isfinite(costs[label])).sum()
    ):
        free = np.where(is_free, costs[links], np.inf)
        best = np.unravel_index(free.argmin(), free.shape)
        if np.isfinite(free[best]):
            places[links] = float(x[best]), float(y[best])
            is_free &= ~covers(TaskBox(*places[links], width, height))
    return places
