"""The plans of a group's collectives, beside the all-reduce of the topologies. Pure.

Each deals with all others directly: a value moves once, from who has it to who wants
it. Sums are added in the order of a training: chunk c as the workers c, c+1, ..., c-1.

    broadcast   root -> each                     S to each of the n-1 others
    scatter     root -> each, its own piece
    gather      each -> root                     its own piece
    all_gather  each -> each                     its own piece to the n-1 others
    all_to_all  each -> each                     a piece of its own for each
    reduce      each -> root, who adds           S from each of the n-1 others
    reduce_scatter   each -> each, who adds      a piece to each of the n-1 others

Pieces lie behind each other in one flat buffer, the same for all, so that a range means
the same everywhere; a task touches those that it has or gets.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from kit.exchange.layout import Layout, Range
from kit.exchange.plan import (
    GRAD,
    NEXT,
    SELF,
    Add,
    Copy,
    Op,
    Plan,
    Receive,
    Send,
    Term,
    turned,
)
from kit.exchange.topologies.counting import Traffic
from kit.trace.traffic import TransferKind


class PieceMove(NamedTuple):
    """A piece of the flat buffer that goes from one task to another."""

    source: int
    target: int
    range: Range


def pieces(sizes: Sequence[int]) -> tuple[Range, ...]:
    """Return the ranges of pieces that lie one behind the other, each aligned.

    >>> pieces([8, 100, 4])
    (Range(lo=0, hi=8), Range(lo=64, hi=164), Range(lo=192, hi=196))
    """
    whole = [-(-size // 64) * 64 for size in sizes]
    edges = accumulate(whole, initial=0)
    return tuple(
        Range(lo, lo + size)
        for (lo, _), size in zip(pairwise(edges), sizes, strict=True)
    )


def broadcast(n: int, root: int, part: Range) -> tuple[PieceMove, ...]:
    """Return the moves of a broadcast."""
    return tuple(PieceMove(root, target, part) for target in _others(n, root))


def scatter(n: int, root: int, parts: Sequence[Range]) -> tuple[PieceMove, ...]:
    """Return the moves of a scatter."""
    return tuple(PieceMove(root, target, parts[target]) for target in _others(n, root))


def gather(n: int, root: int, parts: Sequence[Range]) -> tuple[PieceMove, ...]:
    """Return the moves of a gather."""
    return tuple(PieceMove(source, root, parts[source]) for source in _others(n, root))


def all_gather(n: int, parts: Sequence[Range]) -> tuple[PieceMove, ...]:
    """Return the moves of an all-gather."""
    return tuple(
        PieceMove(source, target, parts[source])
        for source in range(n)
        for target in _others(n, source)
    )


def all_to_all(n: int, parts: Sequence[Range]) -> tuple[PieceMove, ...]:
    """Return the moves of an all-to-all; piece i*n+j goes from task i to task j."""
    return tuple(
        PieceMove(source, target, parts[source * n + target])
        for source in range(n)
        for target in _others(n, source)
    )


def moving(moves: Sequence[PieceMove], me: int) -> Plan:
    """Return a task's plan for moves of what is there already.

    All is sent before anything is waited for, so no two wait for each other.
    """
    kind = TransferKind.GATHER
    ops: list[Op] = [
        Send(item.target, NEXT, item.range, kind) for item in moves if item.source == me
    ]
    for move in moves:
        if move.target == me:
            ops.append(Receive(move.source, NEXT, move.range, kind))
            ops.append(Copy(Term(move.source, NEXT), NEXT, move.range))
    return Plan((tuple(ops),), ())


def reducing(n: int, me: int, owners: Sequence[tuple[Range, int, int]]) -> Plan:
    """Return a task's plan for sums at their owners.

    `owners` has each range, the task that wants its sum, and the task with whose share
    the sum begins.
    """
    kind = TransferKind.REDUCE
    ops: list[Op] = [
        Send(owner, GRAD, part, kind) for part, owner, _ in owners if owner != me
    ]
    mine = [(part, first) for part, owner, first in owners if owner == me]
    for source in _others(n, me):
        ops += [Receive(source, GRAD, part, kind) for part, _ in mine]
    terms = tuple(Term(SELF if rank == me else rank, GRAD) for rank in range(n))
    ops += [Add(part, turned(terms, first), into=NEXT) for part, first in mine]
    return Plan((tuple(ops),), ())


def at_root(layout: Layout, root: int) -> tuple[tuple[Range, int, int], ...]:
    """Return the owners of a reduce: the root has all chunks, each in its own order."""
    return tuple(
        (chunk, root, first)
        for bucket in layout.buckets
        for first, chunk in enumerate(bucket.chunks)
    )


def traffic_of_moves(moves: Sequence[PieceMove]) -> Traffic:
    """Return the bytes of some moves, by the formula in this file's head."""
    result: Traffic = {}
    for source, target, part in moves:
        key = source, target, TransferKind.GATHER
        result[key] = result.get(key, 0) + part.size
    return result


def traffic_of_sums(n: int, owners: Sequence[tuple[Range, int, int]]) -> Traffic:
    """Return the bytes of sums: each range goes to its owner from all others."""
    result: Traffic = {}
    for part, owner, _ in owners:
        for source in _others(n, owner):
            key = source, owner, TransferKind.REDUCE
            result[key] = result.get(key, 0) + part.size
    return result


def _others(n: int, me: int) -> tuple[int, ...]:
    """Return all other tasks, beginning with the next one."""
    return tuple((me + ahead) % n for ahead in range(1, n))
