"""The grid of a picture: which box is below which, and which are beside each other.

Pure. *Rows*: the longest path from a box without inputs gives its row; such boxes, and
tensors that arrive from another task, then move down to just above the first box that
needs them. A line that closes a circle (folded scopes may need each other) leads up.

*Columns*: the order within a row is found by barycentres, sweeping down and up, and the
one with the fewest crossings is kept. Each lane (a task) is a strip of its own. This is
the layered drawing of Sugiyama, Tagawa and Toda, IEEE Trans. SMC 11 (1981).
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from graphlib import TopologicalSorter
from itertools import pairwise, permutations

from kit.devices.device import DeviceSpec

# --------------------------------------------------------------------------------------
# Lanes: which strip of the picture a task gets, and which strips are neighbours.
#
# Pure. Tasks that send each other much become neighbours, so that few lines pass below
# the boxes of a third one.

NOT_PLACED = "not placed"
# All 720 orders are tried in a millisecond. Of more lanes only the busiest is moved, to
# the middle.
_MOST_TRIED = 6


@lru_cache(maxsize=1024)
def lane_of(device: str) -> str:
    """Return the lane of a device name: its task, as far as the name has one.

    >>> lane_of("/job:ps/task:1/device:CPU:0"), lane_of("/job:ps"), lane_of("")
    ('ps:1', 'ps', 'not placed')
    """
    try:
        spec = DeviceSpec.from_string(device)
    except ValueError:
        return device
    if spec.job is None and spec.task is None:
        return NOT_PLACED
    job = spec.job or "task"
    return job if spec.task is None else f"{job}:{spec.task}"


def device_of(device: str) -> str:
    """Return what to show of the device besides its task: an accelerator.

    >>> device_of("/job:ps/device:GPU:1"), device_of("/job:ps/device:CPU:0")
    ('GPU:1', '')
    """
    _, mark, rest = device.rpartition("/device:")
    return rest if mark and not rest.startswith("CPU") else ""


def lane_order(
    lanes: Sequence[str], traffic: Mapping[tuple[str, str], int]
) -> tuple[str, ...]:
    """Return the lanes, sorted, unless another order brings traffic closer together.

    >>> lane_order(["ps:0", "worker:0", "worker:1"],
    ...            {("ps:0", "worker:0"): 4, ("worker:1", "ps:0"): 4})
    ('worker:0', 'ps:0', 'worker:1')
    """
    tasks = sorted({lane for lane in lanes if lane != NOT_PLACED}, key=_sort_key)
    between = {pair: n for pair, n in traffic.items() if NOT_PLACED not in pair}
    rest = (NOT_PLACED,) if NOT_PLACED in lanes else ()
    if len(tasks) > _MOST_TRIED:
        return _busiest_in_the_middle(tasks, between) + rest

    def distance(order: Sequence[str]) -> int:
        at = {lane: i for i, lane in enumerate(order)}
        return sum(n * abs(at[a] - at[b]) for (a, b), n in between.items())

    # Of equally good orders `min` takes the first, and the first is the sorted one.
    return min(permutations(tasks), key=distance) + rest


def _busiest_in_the_middle(
    tasks: Sequence[str], traffic: Mapping[tuple[str, str], int]
) -> tuple[str, ...]:
    load = dict.fromkeys(tasks, 0)
    for (a, b), n in traffic.items():
        load[a] += n
        load[b] += n
    busiest = max(tasks, key=lambda lane: load[lane])
    others = [lane for lane in tasks if lane != busiest]
    half = len(others) // 2
    return (*others[:half], busiest, *others[half:])


def _sort_key(lane: str) -> tuple[str, int]:
    job, _, index = lane.partition(":")
    return job, int(index) if index.isdigit() else -1


# --------------------------------------------------------------------------------------
# The grid.

_SWEEPS = 6  # down and up in turn

Pair = tuple[str, str]
# One row: the keys in each lane, from left to right.
Row = list[list[str]]
Neighbours = Mapping[str, Sequence[str]]


def rows(
    keys: Sequence[str], pairs: Iterable[Pair], movable: Collection[str] = ()
) -> dict[str, int]:
    """Return the row of each box, counted from 0; `movable` ones are low.

    >>> rows(["a", "b", "c", "w"], [("a", "b"), ("b", "c"), ("w", "c")])
    {'a': 0, 'b': 1, 'c': 2, 'w': 1}
    """
    below = _without_circles(keys, pairs)
    # From the lowest boxes to those that need nothing.
    upwards = [*TopologicalSorter(below).static_order()]
    rows_of = dict.fromkeys(keys, 0)
    for key in reversed(upwards):
        for other in below[key]:
            rows_of[other] = max(rows_of[other], rows_of[key] + 1)
    has_inputs = {target for targets in below.values() for target in targets}
    # From below, so that what a box feeds has found its row before the box does.
    for key in upwards:
        if below[key] and (key not in has_inputs or key in movable):
            rows_of[key] = min(rows_of[item] for item in below[key]) - 1
    # A row from which all boxes have moved would be a gap in the picture.
    used = {row: i for i, row in enumerate(sorted(set(rows_of.values())))}
    return {key: used[row] for key, row in rows_of.items()}


def _without_circles(
    keys: Sequence[str], pairs: Iterable[Pair]
) -> dict[str, list[str]]:
    """Return the boxes below each box; lines that close a circle are reversed."""
    below: dict[str, list[str]] = {key: [] for key in keys}
    for source, target in dict.fromkeys(pairs):
        if source != target:
            below[source].append(target)
    # Depth first, with a stack of our own: a chain of ops may be longer than Python's.
    # A line to a box that is still open closes a circle.
    state = dict.fromkeys(keys, 0)  # 0 unseen, 1 open, 2 done
    for root in keys:
        # Copies, as the lists change while they are gone through.
        stack = [(root, iter(list(below[root])))] if state[root] == 0 else []
        while stack:
            key, rest = stack[-1]
            state[key] = 1
            key_below = next(rest, None)
            if key_below is None:
                state[key] = 2
                stack.pop()
            elif state[key_below] == 1:
                below[key].remove(key_below)
                if key not in below[key_below]:
                    below[key_below].append(key)
            elif state[key_below] == 0:
                stack.append((key_below, iter(list(below[key_below]))))
    return below


# --------------------------------------------------------------------------------------
# Columns.


def ordered(rows: Sequence[Row], above: Neighbours, below: Neighbours) -> list[Row]:
    """Return the rows in an order with few crossings.

    `above` and `below` give for each key those of the next row that it is joined to.

    >>> rows = [[["a", "b"]], [["x", "y"]]]
    >>> ordered(rows, {"x": ["b"], "y": ["a"]}, {"a": ["y"], "b": ["x"]})
    [[['a', 'b']], [['y', 'x']]]
    """
    current = [[list(lane) for lane in row] for row in rows]
    best, fewest = current, crossings(current, below)
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        is_down = sweep % 2 == 0
        current = _swept(current, above if is_down else below, is_down)
        count = crossings(current, below)
        if count < fewest:
            best, fewest = current, count
    return best


def _swept(rows: Sequence[Row], neighbours: Neighbours, is_down: bool) -> list[Row]:
    swept = [[list(lane) for lane in row] for row in rows]
    steps = range(1, len(rows)) if is_down else range(len(rows) - 2, -1, -1)
    for i in steps:
        position = _places(swept[i - 1 if is_down else i + 1])
        for lane in swept[i]:
            own = {key: float(at) for at, key in enumerate(lane)}
            for key in lane:
                there = [position[key_near] for key_near in neighbours.get(key, ())]
                own[key] = sum(there) / len(there) if there else -1.0
            _sort_joined(lane, own)
    return swept


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
        position = _places(lower)
        passed: list[int] = []
        for key in (key for lane in upper for key in lane):
            # Two lines cross if their ends are in the opposite order. A box's own lines
            # are added only after they were counted: they meet, and do not cross.
            ends = sorted(position[key_below] for key_below in below.get(key, ()))
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
    """Return centres near the wanted ones, in order, between `left` and `right`.

    The weighted sum of the squared shifts is least. What does not fit overruns `right`.

    >>> spaced([5.0, 5.0], [2.0, 2.0], [1.0, 1.0], 1.0, 0.0, 10.0)
    [3.5, 6.5]
    """
    offsets, total = [], 0.0
    for i, width in enumerate(widths):
        total += width / 2 if i == 0 else (widths[i - 1] + width) / 2 + gap
        offsets.append(total)
    # Less the offset that each has in a row without spare room, the centres need only
    # not decrease. That is isotonic regression: those that do decrease are pooled, at
    # their mean, until no two neighbours are out of order ("pool adjacent violators").
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
