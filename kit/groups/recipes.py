"""What each collective does: plan, where values lie, bytes by formula. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from kit.exchange.layout import Layout, Range, Spec, lay_out
from kit.exchange.pipeline import pipelined
from kit.exchange.plan import (
    GRAD,
    NEXT,
    SELF,
    Add,
    Apply,
    Copy,
    Group,
    Op,
    Plan,
    Receive,
    Send,
    Term,
    by_host,
    turned,
)
from kit.exchange.topologies.counting import Traffic
from kit.exchange.topologies.topology import Topology
from kit.groups.generation import Recipe
from kit.groups.values import Form, leaves, n_bytes, size_of
from kit.trace.traffic import TransferKind

# --------------------------------------------------------------------------------------
# The plans of a group's collectives, beside the all-reduce of the topologies. Pure.
#
# Each deals with all others directly: a value moves once, from who has it to who wants
# it. Sums are added in the order of a training: chunk c as the workers c, c+1, ...,
# c-1.
#
#     broadcast   root -> each                     S to each of the n-1 others
#     scatter     root -> each, its own piece
#     gather      each -> root                     its own piece
#     all_gather  each -> each                     its own piece to the n-1 others
#     all_to_all  each -> each                     a piece of its own for each
#     reduce      each -> root, who adds           S from each of the n-1 others
#     reduce_scatter   each -> each, who adds      a piece to each of the n-1 others
#
# Pieces lie behind each other in one flat buffer, the same for all, so that a range
# means the same everywhere; a task touches those that it has or gets.


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


# --------------------------------------------------------------------------------------
# The recipe of each collective.

Place = tuple[int, Range, str]


@dataclass(frozen=True)
class Recipes:
    """Makes the recipes of one task of a group."""

    n: int
    me: int
    hosts: tuple[int, ...]
    bucket_bytes: int

    @property
    def group(self) -> Group:
        """The tasks in the order in which they are added: by host."""
        names = [str(host) for host in self.hosts] or [""] * self.n
        return Group((), by_host(range(self.n), names), (), self.hosts)

    def all_reduce(self, form: Form, topology: Topology, combine: np.ufunc) -> Recipe:
        """Carry out a topology's plan, to apply which is to complete a sum."""
        layout, ranges = self._typed([form])
        group = self.group
        plan = topology.plan(layout, group, self.me)
        assert plan is not None, "every task is a worker"
        plan = summing(pipelined(plan, layout, early=True))
        return Recipe(
            plan,
            topology.traffic(layout, group),
            [(GRAD, *part) for part in ranges[0]],
            [(NEXT, *part) for part in ranges[0]],
            layout.n_bytes,
            layout,
            combine=combine,
            topology=topology.name,
        )

    def reduce(self, form: Form, root: int, combine: np.ufunc) -> Recipe:
        """Send all shares to the root, which adds them."""
        layout, ranges = self._typed([form])
        owners = at_root(layout, root)
        return self._summed(layout, owners, ranges[0], ranges[0], root, combine)

    def reduce_scatter(self, forms: Sequence[Form], combine: np.ufunc) -> Recipe:
        """Send piece j of all tasks to task j, which adds them."""
        layout, ranges = self._typed(forms)
        owners = [
            (part, owner, owner)
            for owner, pieces in enumerate(ranges)
            for part, _ in pieces
        ]
        put = [piece for pieces in ranges for piece in pieces]
        return self._summed(layout, owners, put, ranges[self.me], self.me, combine)

    def broadcast(self, form: Form, root: int) -> Recipe:
        """Send the root's value to each."""
        (part,) = pieces([size_of(form)])
        whole = _inside(part, form)
        mine = whole if self.me == root else []
        moves = broadcast(self.n, root, part)
        return self._moved([part], moves, mine, whole)

    def scatter(self, forms: Sequence[Form], root: int) -> Recipe:
        """Send piece j of the root's to task j."""
        parts = pieces([size_of(form) for form in forms])
        inside = [_inside(*pair) for pair in zip(parts, forms, strict=True)]
        mine = _joined(inside) if self.me == root else []
        moves = scatter(self.n, root, parts)
        return self._moved(parts, moves, mine, inside[self.me])

    def gather(self, forms: Sequence[Form], root: int | None) -> Recipe:
        """Send each task's value to the root, or, without one, to all."""
        parts = pieces([size_of(form) for form in forms])
        inside = [_inside(*pair) for pair in zip(parts, forms, strict=True)]
        if root is None:
            moves = all_gather(self.n, parts)
        else:
            moves = gather(self.n, root, parts)
        results = _joined(inside) if root in (None, self.me) else []
        return self._moved(parts, moves, inside[self.me], results)

    def all_to_all(self, forms: Sequence[Sequence[Form]]) -> Recipe:
        """Send piece j of task i to task j."""
        flat = [form for row in forms for form in row]
        parts = pieces([size_of(form) for form in flat])
        inside = [_inside(*pair) for pair in zip(parts, flat, strict=True)]
        mine = inside[self.me * self.n : (self.me + 1) * self.n]
        return self._moved(
            parts,
            all_to_all(self.n, parts),
            _joined(mine),
            _joined(inside[self.me :: self.n]),
        )

    def _typed(
        self, forms: Sequence[Form]
    ) -> tuple[Layout, list[list[tuple[Range, str]]]]:
        """Return the layout of values to be added, a training's, and their ranges."""
        specs, numbers = list[Spec](), list[list[int]]()
        for form in forms:
            numbers.append([])
            for dtype, shape in leaves(form):
                numbers[-1].append(len(specs))
                specs.append(Spec(str(len(specs)), shape, dtype))
        layout = lay_out(specs, self.n, self.bucket_bytes)
        typed = [(leaf.range, leaf.spec.dtype) for leaf in layout.leaves]
        return layout, [[typed[number] for number in some] for some in numbers]

    def _summed(
        self,
        layout: Layout,
        owners: Sequence[tuple[Range, int, int]],
        put: Sequence[tuple[Range, str]],
        results: Sequence[tuple[Range, str]],
        root: int,
        combine: np.ufunc,
    ) -> Recipe:
        return Recipe(
            reducing(self.n, self.me, owners),
            traffic_of_sums(self.n, owners),
            [(GRAD, *part) for part in put],
            [(NEXT, *part) for part in results] if root == self.me else [],
            layout.n_bytes,
            layout,
            combine=combine,
        )

    def _moved(
        self,
        parts: Sequence[Range],
        moves: Sequence[PieceMove],
        put: Sequence[tuple[Range, str]],
        results: Sequence[tuple[Range, str]],
    ) -> Recipe:
        return Recipe(
            moving(moves, self.me),
            traffic_of_moves(moves),
            [(NEXT, *part) for part in put],
            [(NEXT, *part) for part in results],
            parts[-1].hi,  # the same on all tasks, which grow their memory together
        )


def summing(plan: Plan) -> Plan:
    """Return a plan of a topology in which a complete sum is handed out as it is."""
    reduce = tuple(_summing(ops) for ops in plan.reduce)
    return plan._replace(reduce=reduce, finish=_summing(plan.finish))


def _summing(ops: Sequence[Op]) -> tuple[Op, ...]:
    ops_so_far = list[Op]()
    for op in ops:
        if not isinstance(op, Apply):
            ops_so_far.append(op)
            continue
        # The last sum is made where it is handed out, unless it is read before that.
        at = max(
            (n for n, other in enumerate(ops_so_far) if _sums(other, op.range)),
            default=-1,
        )
        if at >= 0 and not any(
            _reads(other, op.range) for other in ops_so_far[at + 1 :]
        ):
            total = ops_so_far[at]
            assert isinstance(total, Add), "so it was found"
            ops_so_far[at] = total._replace(into=NEXT)
        else:
            ops_so_far.append(Copy(Term(SELF, GRAD), NEXT, op.range))
    return tuple(ops_so_far)


def _sums(op: Op, part: Range) -> bool:
    return isinstance(op, Add) and op.into == GRAD and op.range == part


def _reads(op: Op, part: Range) -> bool:
    """Whether an operation needs our sum of a range, or of a part of it."""
    is_own = isinstance(op, Send) and op.region == GRAD
    is_own |= isinstance(op, Add) and Term(SELF, GRAD) in op.terms
    is_own |= isinstance(op, Copy) and op.source == Term(SELF, GRAD)
    return is_own and op.range.lo < part.hi and part.lo < op.range.hi


def _inside(part: Range, form: Form) -> list[tuple[Range, str]]:
    """Return where the arrays of a value lie in its piece."""
    parts, lo = [], part.lo
    for dtype, shape in leaves(form):
        part = Range(lo, lo + n_bytes(dtype, shape))
        parts.append((part, dtype))
        lo = part.hi
    return parts


def _joined(parts: Sequence[list[tuple[Range, str]]]) -> list[tuple[Range, str]]:
    return [piece for part in parts for piece in part]
