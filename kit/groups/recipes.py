"""What each collective does: plan, where values lie, bytes by formula. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    Send,
    Term,
    by_host,
)
from kit.exchange.topologies.topology import Topology
from kit.groups import plans
from kit.groups.generation import Recipe
from kit.groups.plans import PieceMove
from kit.groups.values import Form, leaves, n_bytes, size_of

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
        owners = plans.at_root(layout, root)
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
        (part,) = plans.pieces([size_of(form)])
        whole = _inside(part, form)
        mine = whole if self.me == root else []
        moves = plans.broadcast(self.n, root, part)
        return self._moved([part], moves, mine, whole)

    def scatter(self, forms: Sequence[Form], root: int) -> Recipe:
        """Send piece j of the root's to task j."""
        parts = plans.pieces([size_of(form) for form in forms])
        inside = [_inside(*pair) for pair in zip(parts, forms, strict=True)]
        mine = _joined(inside) if self.me == root else []
        moves = plans.scatter(self.n, root, parts)
        return self._moved(parts, moves, mine, inside[self.me])

    def gather(self, forms: Sequence[Form], root: int | None) -> Recipe:
        """Send each task's value to the root, or, without one, to all."""
        parts = plans.pieces([size_of(form) for form in forms])
        inside = [_inside(*pair) for pair in zip(parts, forms, strict=True)]
        if root is None:
            moves = plans.all_gather(self.n, parts)
        else:
            moves = plans.gather(self.n, root, parts)
        results = _joined(inside) if root in (None, self.me) else []
        return self._moved(parts, moves, inside[self.me], results)

    def all_to_all(self, forms: Sequence[Sequence[Form]]) -> Recipe:
        """Send piece j of task i to task j."""
        flat = [form for row in forms for form in row]
        parts = plans.pieces([size_of(form) for form in flat])
        inside = [_inside(*pair) for pair in zip(parts, flat, strict=True)]
        mine = inside[self.me * self.n : (self.me + 1) * self.n]
        return self._moved(
            parts,
            plans.all_to_all(self.n, parts),
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
            plans.reducing(self.n, self.me, owners),
            plans.traffic_of_sums(self.n, owners),
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
            plans.moving(moves, self.me),
            plans.traffic_of_moves(moves),
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
