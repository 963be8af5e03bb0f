"""The streams of a graph's random ops in a training: fixed by seeds, none shared.

Pure. What an op draws in a step depends on the training's seed, the worker, the op and
the number of steps before; so a training can be repeated, and two workers, whose
examples differ, do not drop the same units.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from kit.graph.node import Node

_SEEDS = "seeds"  # the attribute of an op that draws: two numbers, None if unseeded


def is_random(node: Node) -> bool:
    """Whether an op's only state is its stream of random numbers."""
    return _SEEDS in node.attrs


def seeded(nodes: Sequence[Node], seed: int, rank: int | None = None) -> list[Node]:
    """Return the nodes with seeds for the worker number `rank`.

    Without a rank, for what is computed once for all, an op's own seeds are kept and
    only those that have none get some.
    """
    return [_seeded(node, seed, rank) if is_random(node) else node for node in nodes]


def _seeded(node: Node, seed: int, rank: int | None) -> Node:
    own = node.attrs[_SEEDS]
    if own is not None and rank is None:
        return node
    seeds = _mixed(seed, rank, node.name if own is None else tuple(own))
    return replace(node, attrs={**node.attrs, _SEEDS: seeds})


def _mixed(*parts: object) -> tuple[int, int]:
    """Return two 64-bit numbers that every part decides.

    >>> _mixed(1, 0, "dropout") == _mixed(1, 0, "dropout") != _mixed(1, 1, "dropout")
    True
    """
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=16).digest()
    return int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big")
