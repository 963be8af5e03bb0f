"""Which acts of a member may be done together, piece by piece.

A mesh's owner adds, updates and hands out the same range, one act after the other. Done
for 16 KiB at a time instead of half a mebibyte, each act finds in the nearest cache
what the one before left there, and the result is the same: no element depends on one in
another place. The times of each act are kept apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from kit.exchange.execution.bound_operations import Act, Descend, Move, Post, Sum
from kit.exchange.ports.memory import Array


def gathered(acts: Iterable[Act]) -> list[Act]:
    """Bring together what works on ranges of one size: posts in between come after.

    Nobody waits for anything in between, so no member waits longer than that work
    takes, and what is posted is as complete as before.
    """
    done: list[Act] = []
    posts: list[Act] = []
    size = 0
    for act in acts:
        if isinstance(act, Post):
            posts.append(act)
            continue
        found = sum(array.nbytes for array in _arrays(act)[:1])
        if not found or found != size:
            done += posts
            posts = []
        size = found
        done.append(act)
    return done + posts


def joins(acts: Sequence[Act], most: int) -> list[bool]:
    """Tell of each act whether it and the next one may be done piece by piece.

    At most so many in a row.
    """
    found: list[bool] = []
    group: list[Act] = []
    for one, two in zip_longest(acts, acts[1:]):
        group = [*group, one] if found and found[-1] else [one]
        fits = two is not None and len(group) < most
        found.append(fits and all(_are_alike(first, two) for first in group))
    return found


def address(array: Any) -> int:
    """Return where an array lies, or the words of a memoryview."""
    if isinstance(array, memoryview):
        array = np.frombuffer(array, np.uint8)
    return int(array.__array_interface__["data"][0])


def _arrays(act: Act) -> tuple[Array, ...]:
    """Return what an act writes, and then what it reads."""
    match act:
        case Move(out, source):
            return out, source
        case Sum(out, a, b):
            return out, a, b
        case Descend(_, out, now, total):
            return out, now, total
    return ()


def _are_alike(one: Act, two: Act) -> bool:
    """Whether what one act writes and the other uses is the same range, or apart."""
    mine, theirs = _arrays(one), _arrays(two)
    if not mine or not theirs or mine[0].nbytes != theirs[0].nbytes:
        return False
    pairs = [(mine[0], array) for array in theirs]
    pairs += [(array, theirs[0]) for array in mine]
    return all(address(a) == address(b) or not np.shares_memory(a, b) for a, b in pairs)
