"""Who stands below whom: the row of each box, so that lines lead downwards.

Pure. The longest path from a box without inputs gives the row; such boxes, and tensors
that arrive from elsewhere, then move down to just above the first that needs them. A
line that closes a circle (folded scopes may need each other) leads upwards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

Pair = tuple[str, str]


def rows(
    keys: Sequence[str], pairs: Iterable[Pair], movable: Collection[str] = ()
) -> dict[str, int]:
    """Return the row of each box, counted from 0; `movable` ones stand low.

    >>> rows(["a", "b", "c", "w"], [("a", "b"), ("b", "c"), ("w", "c")])
    {'a': 0, 'b': 1, 'c': 2, 'w': 1}
    """
    below = _without_circles(keys, pairs)
    order = _sorted(keys, below)
    found = dict.fromkeys(keys, 0)
    for key in order:
        for one in below[key]:
            found[one] = max(found[one], found[key] + 1)
    has_inputs = {one for targets in below.values() for one in targets}
    for key in reversed(order):
        if below[key] and (key not in has_inputs or key in movable):
            found[key] = min(found[one] for one in below[key]) - 1
    used = {row: i for i, row in enumerate(sorted(set(found.values())))}
    return {key: used[row] for key, row in found.items()}


def _without_circles(
    keys: Sequence[str], pairs: Iterable[Pair]
) -> dict[str, list[str]]:
    """Return who stands below each box; a line back to an open box is turned round."""
    below: dict[str, list[str]] = {key: [] for key in keys}
    for source, target in dict.fromkeys(pairs):
        if source != target:
            below[source].append(target)
    state = dict.fromkeys(keys, 0)  # 0 unseen, 1 open, 2 done
    for root in keys:
        stack = [(root, iter(list(below[root])))] if state[root] == 0 else []
        while stack:
            key, rest = stack[-1]
            state[key] = 1
            one = next(rest, None)
            if one is None:
                state[key] = 2
                stack.pop()
            elif state[one] == 1:
                below[key].remove(one)
                if key not in below[one]:
                    below[one].append(key)
            elif state[one] == 0:
                stack.append((one, iter(list(below[one]))))
    return below


def _sorted(keys: Sequence[str], below: Mapping[str, Sequence[str]]) -> list[str]:
    waits = dict.fromkeys(keys, 0)
    for targets in below.values():
        for one in targets:
            waits[one] += 1
    order = [key for key in keys if not waits[key]]
    for key in order:  # it grows while we go through it
        for one in below[key]:
            waits[one] -= 1
            if not waits[one]:
                order.append(one)
    return order
