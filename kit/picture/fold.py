"""A limited number of boxes: what is in a name scope becomes one box for each task.

Pure. Scopes are opened as long as there is room, the smallest first. Where ops without
scopes are too many, those made one after the other on one task become one box.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple


class BoxPlace(NamedTuple):
    """A box's name, such as `tower_0/MatMul`, and its task."""

    name: str
    lane: str


class BoxGroup(NamedTuple):
    """What some boxes become: a scope's name (or '' for a run of ops) and a number."""

    scope: str
    lane: str
    number: int = 0


def fold(places: Sequence[BoxPlace], most: int) -> list[BoxGroup | None]:
    """Return for each box what it is folded into, None for those that stay.

    >>> deep = [BoxPlace(f"deep/{i}", "ps:0") for i in range(9)]
    >>> boxes = [*deep, BoxPlace("loss", "")]
    >>> fold(boxes, 5)[0], fold(boxes, 5)[-1], fold(boxes, 10)[0]
    (BoxGroup(scope='deep', lane='ps:0', number=0), None, None)
    """
    if len(places) <= most:
        return [None] * len(places)
    paths = [box.name.split("/") for box in places]
    depth = _open_scopes(places, paths, most)
    groups: list[BoxGroup | None] = [
        BoxGroup("/".join(path[:n]), box.lane) if n < len(path) else None
        for box, path, n in zip(places, paths, depth, strict=True)
    ]
    _merge_runs(places, groups, most)
    return groups


def _open_scopes(
    places: Sequence[BoxPlace], paths: Sequence[Sequence[str]], most: int
) -> list[int]:
    """Return how many parts of each name are shown."""
    depth = [1] * len(places)
    inside: dict[str, list[int]] = {}
    for i, path in enumerate(paths):
        inside.setdefault(path[0] if len(path) > 1 else "", []).append(i)
    total = len(inside.pop("", [])) + sum(
        _n_lanes(places, members) for members in inside.values()
    )
    # By size: to open a small scope costs the fewest boxes.
    waiting = [(len(members), members, 2) for members in inside.values()]
    heapq.heapify(waiting)
    while waiting:
        # Scopes of one size, such as the towers of a model, are opened all or none.
        size = waiting[0][0]
        alike = []
        while waiting and waiting[0][0] == size:
            alike.append(heapq.heappop(waiting)[1:])
        opened = [_opened(places, paths, *run) for run in alike]
        more = sum(growth for growth, _ in opened)
        if total + more > most:
            continue  # a larger scope may still fit, if all of it is in a few others
        total += more
        for (members, level), (_, deeper) in zip(alike, opened, strict=True):
            for i in members:
                depth[i] = level
            for part in deeper:
                heapq.heappush(waiting, (len(part), part, level + 1))
    return depth


def _opened(
    places: Sequence[BoxPlace],
    paths: Sequence[Sequence[str]],
    members: Sequence[int],
    level: int,
) -> tuple[int, list[list[int]]]:
    """Return how many more boxes an open scope has, and the scopes within it."""
    parts: dict[str, list[int]] = {}
    for i in members:
        if len(paths[i]) > level:
            parts.setdefault(paths[i][level - 1], []).append(i)
    single = len(members) - sum(map(len, parts.values()))
    folded = sum(_n_lanes(places, part) for part in parts.values())
    return single + folded - _n_lanes(places, members), list(parts.values())


def _n_lanes(places: Sequence[BoxPlace], members: Sequence[int]) -> int:
    return len({places[i].lane for i in members})


def _merge_runs(
    places: Sequence[BoxPlace], groups: list[BoxGroup | None], most: int
) -> None:
    """Fold ops without scopes, in the order in which they were made."""
    loose = [i for i, group in enumerate(groups) if group is None]
    others = len({group for group in groups if group is not None})
    lanes = len({places[i].lane for i in loose})
    if len(loose) + others <= most:
        return
    # One run less for each lane, as the last run of a lane may be a short one.
    length = -(-len(loose) // max(1, most - others - lanes))
    seen: dict[str, int] = {}
    for i in loose:
        lane = places[i].lane
        # At least two: one op in a folded box would say less, not more.
        groups[i] = BoxGroup("", lane, seen.get(lane, 0) // max(2, length))
        seen[lane] = seen.get(lane, 0) + 1
