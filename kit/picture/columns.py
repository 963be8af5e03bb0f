"""Who stands beside whom: the order within a row, and where exactly.

Pure. The order is found by barycentres, sweeping down and up, and the one with the
fewest crossings is kept. Each lane (a task) is a strip of its own.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from itertools import pairwise

SWEEPS = 6

# One row: the keys in each lane, from left to right.
Row = list[list[str]]
Neighbours = Mapping[str, Sequence[str]]


def ordered(rows: Sequence[Row], above: Neighbours, below: Neighbours) -> list[Row]:
    """Return the rows in an order with few crossings.

    `above` and `below` tell for each key which ones of the next row it is joined to.

    >>> rows = [[["a", "b"]], [["x", "y"]]]
    >>> ordered(rows, {"x": ["b"], "y": ["a"]}, {"a": ["y"], "b": ["x"]})
    [[['a', 'b']], [['y', 'x']]]
    """
    current = [[list(lane) for lane in row] for row in rows]
    best, fewest = current, crossings(current, below)
    for sweep in range(SWEEPS):
        if not fewest:
            break
        is_down = sweep % 2 == 0
        current = _swept(current, above if is_down else below, is_down)
        count = crossings(current, below)
        if count < fewest:
            best, fewest = current, count
    return best


def _swept(rows: Sequence[Row], neighbours: Neighbours, is_down: bool) -> list[Row]:
    found = [[list(lane) for lane in row] for row in rows]
    steps = range(1, len(rows)) if is_down else range(len(rows) - 2, -1, -1)
    for i in steps:
        place = _places(found[i - 1 if is_down else i + 1])
        for lane in found[i]:
            own = {key: float(at) for at, key in enumerate(lane)}
            for key in lane:
                there = [place[one] for one in neighbours.get(key, ())]
                own[key] = sum(there) / len(there) if there else -1.0
            _sort_joined(lane, own)
    return found


def _sort_joined(lane: list[str], barycentre: Mapping[str, float]) -> None:
    """Sort those that have neighbours; the others keep their places."""
    joined = sorted((k for k in lane if barycentre[k] >= 0), key=barycentre.__getitem__)
    rest = iter(joined)
    lane[:] = [key if barycentre[key] < 0 else next(rest) for key in lane]


def crossings(rows: Sequence[Row], below: Neighbours) -> int:
    """Return how often lines between neighbouring rows cross.

    >>> crossings([[["a", "b"]], [["x", "y"]]], {"a": ["y"], "b": ["x"]})
    1
    """
    total = 0
    for upper, lower in pairwise(rows):
        place = _places(lower)
        passed: list[int] = []
        for key in (key for lane in upper for key in lane):
            ends = sorted(place[one] for one in below.get(key, ()))
            total += sum(len(passed) - bisect_right(passed, end) for end in ends)
            for end in ends:
                insort(passed, end)
    return total


def _places(row: Row) -> dict[str, int]:
    keys = [key for lane in row for key in lane]
    return {key: at for at, key in enumerate(keys)}


def spaced(
    wanted: Sequence[float],
    widths: Sequence[float],
    weights: Sequence[float],
    gap: float,
    left: float,
    right: float,
) -> list[float]:
    """Return centres near those that are wanted, in order, between `left` and `right`.

    The weighted squares of the shifts are least. What does not fit runs over `right`.

    >>> spaced([5.0, 5.0], [2.0, 2.0], [1.0, 1.0], 1.0, 0.0, 10.0)
    [3.5, 6.5]
    """
    offsets, total = [], 0.0
    for i, width in enumerate(widths):
        total += width / 2 if i == 0 else (widths[i - 1] + width) / 2 + gap
        offsets.append(total)
    # Without the offsets the centres need only not decrease: pool those that do.
    pools: list[tuple[float, float, int]] = []
    for want, offset, weight in zip(wanted, offsets, weights, strict=True):
        mean, mass, count = want - offset, weight, 1
        while pools and pools[-1][0] >= mean:
            other, more, n = pools.pop()
            mean = (mean * mass + other * more) / (mass + more)
            mass, count = mass + more, count + n
        pools.append((mean, mass, count))
    most = max(left, right - offsets[-1] - widths[-1] / 2) if offsets else left
    flat = [min(max(mean, left), most) for mean, _, n in pools for _ in range(n)]
    return [base + offset for base, offset in zip(flat, offsets, strict=True)]
