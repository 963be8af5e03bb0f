"""Operations of a plan bound to arrays and ports, so that a step looks nothing up.

An operation of a plan names members, regions and ranges. A bound operation holds the
arrays and the port themselves, looked up once per epoch. There are six kinds.
`kit.exchange.execution.python_executor` carries them out in Python,
`kit.exchange.execution.native_executor` gives them to a compiled loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from kit.exchange.layout import Layout, Range
from kit.exchange.plan import (
    GRAD,
    NEXT,
    NOW,
    SELF,
    SLOT,
    Add,
    Apply,
    Copy,
    Op,
    Plan,
    Receive,
    Send,
    Term,
)
from kit.exchange.ports.endpoint import Endpoint
from kit.exchange.ports.memory import Array, Memory, is_apart
from kit.exchange.ports.port import Expected, Port
from kit.trace.traffic import Phase, TransferKind


class Post(NamedTuple):
    """Tell a neighbour that a range of ours is ready."""

    port: Port
    region: int  # physical
    range: Range
    phase: Phase = Phase.SEND


class Take(NamedTuple):
    """Wait for a neighbour's next message, compare it with what is due, count it."""

    port: Port
    kind: int
    due: Expected
    phase: Phase = Phase.WAIT


class Sum(NamedTuple):
    """Set `out` to a + b; `out` is one of them, or overlaps neither.

    A group may combine by another function, such as `np.maximum`.
    """

    out: Array
    a: Array
    b: Array
    phase: Phase = Phase.RECEIVE
    combine: np.ufunc = np.add


class BoundCopy(NamedTuple):
    """Copy `source` to `out`; they do not overlap."""

    out: Array
    source: Array
    phase: Phase = Phase.RECEIVE


class BoundUpdate(NamedTuple):
    """Update parameters."""

    call: Callable[[], None]
    phase: Phase = Phase.APPLY


class Descend(NamedTuple):
    """Update parameters by gradient descent: out = now - total * weight * rate.

    `out` is `total` or does not overlap it; `now` overlaps neither. The product and
    the difference are each rounded by themselves, never fused, so that Python and C
    give the same bits. `call` does the same, and may change `total`.
    """

    call: Callable[[], None]
    out: Array
    now: Array
    total: Array
    weight: float
    rate: float
    phase: Phase = Phase.APPLY


BoundOp = Post | Take | Sum | BoundCopy | BoundUpdate | Descend


class Update(Protocol):
    """Sets `out` from the parameters and the sum of all workers' gradients."""

    def __call__(
        self, now: Array, total: Array, slots: Sequence[Array], out: Array, step: int
    ) -> None:
        """Update; arrays are flat, of one dtype and length. May overwrite `total`.

        Where the stamp says that the next parameters overwrite the gradients, `out` is
        `total` itself.
        """


@runtime_checkable
class UpdateByRange(Protocol):
    """An update that may do something else with other ranges of the parameters."""

    def over(self, layout: Layout, part: Range) -> Update:
        """Return the update of a range."""


@runtime_checkable
class Descent(Protocol):
    """An update that may turn out to be plain gradient descent."""

    def descent(self, dtype: np.dtype[Any]) -> tuple[float, float] | None:
        """Return weight and rate, see `Descend`; None if it is anything else.

        Both are numbers of `dtype` and the same in each step.
        """


@dataclass
class Binder:
    """Looks up the arrays and ports that the operations of one member's plan name.

    `update` may be None if the plan applies nothing. `is_native`: whether the compiled
    loop may carry out what it binds.
    """

    is_native: ClassVar[bool] = True

    endpoint: Endpoint
    memory: Memory
    update: Update | None
    n_slots: int
    plan: Plan
    # The layout that the plan was made for, if it is not that of the memory.
    layout: Layout | None = None
    combine: np.ufunc = np.add

    @cached_property
    def _finals(self) -> frozenset[tuple[int, int, Range]]:
        """Source, region and range of all that arrives finished (GATHER)."""
        return frozenset(
            (op.source, op.region, op.range)
            for op in self.plan.ops
            if isinstance(op, Receive) and op.kind == TransferKind.GATHER
        )

    def bind(self, op: Op, parity: int) -> Iterator[BoundOp]:
        """Yield what carries out one operation in steps of this parity.

        Arrays differ by parity alone, since regions change places with each step: two
        bindings are made of each operation, and serve for the whole epoch.
        """
        match op:
            case Send():
                yield from self._send(op, parity)
            case Receive():
                region = self.endpoint.stamp.at(op.region, parity)
                due = Expected(region, op.range)
                yield Take(self.endpoint.ports[op.source], int(op.kind), due)
            case Add(part, terms, into):
                views = [self._view(term, part, parity) for term in terms]
                yield from _sum(views, self._own(into, part, parity), self.combine)
            case Copy(source, into, part):
                view = self._view(source, part, parity)
                own = self._own(into, part, parity)
                # Nothing to do if the range is there already: the port has received it
                # in place, or its sender has written it here (`_is_placed`). Ranges
                # overlap where their bounds do.
                is_here = not part.size or np.may_share_memory(view, own)
                if not is_here and not self._is_placed(source, into, part):
                    is_offer = source.member == SELF and into == GRAD
                    phase = Phase.SEND if is_offer else Phase.RECEIVE
                    yield BoundCopy(own, view, phase)
            case Apply(part):
                if part.size:
                    yield self._change(part, parity)

    def _send(self, op: Send, parity: int) -> Iterator[BoundOp]:
        port, part = self.endpoint.ports[op.to], op.range
        region = self.endpoint.stamp.at(op.region, parity)
        if (
            self.plan.placed
            and port.shared
            and op.kind == TransferKind.GATHER
            and part.size
        ):
            # Written by the sender, while the range is still in its cache; the
            # receivers would each fetch it from there.
            theirs = port.window(region, part, separate=is_apart(op.region))
            own = self.memory.typed(region, part)
            yield BoundCopy(self._as(theirs, part), self._as(own, part), Phase.SEND)
        yield Post(port, region, part)

    def _is_placed(self, source: Term, into: int, part: Range) -> bool:
        """Whether the sender or the port has put this range in its final place."""
        if source.member == SELF or source.region != into:
            return False
        if self.endpoint.ports[source.member].shared:
            return self.plan.placed
        return (source.member, into, part) in self._finals

    def _view(self, term: Term, part: Range, parity: int) -> Array:
        if term.member == SELF:
            return self._own(term.region, part, parity)
        region = self.endpoint.stamp.at(term.region, parity)
        is_separate = is_apart(term.region)
        theirs = self.endpoint.ports[term.member].window(
            region, part, separate=is_separate
        )
        return self._as(theirs, part)

    def _own(self, region: int, part: Range, parity: int) -> Array:
        own = self.memory.typed(self.endpoint.stamp.at(region, parity), part)
        return self._as(own, part)

    def _as(self, array: Array, part: Range) -> Array:
        """Return a range as the plan's layout types it."""
        layout = self.layout
        return array if layout is None else array.view(layout.dtype_at(part.lo))

    def _update_of(self, part: Range) -> Update:
        if self.update is None:
            raise ValueError("this plan updates parameters: give `update`.")
        if isinstance(self.update, UpdateByRange):
            return self.update.over(self.memory.layout, part)
        return self.update

    def _change(self, part: Range, parity: int) -> BoundUpdate | Descend:
        update, stamp = self._update_of(part), self.endpoint.stamp
        now, out, total = (
            self._own(region, part, parity) for region in (NOW, NEXT, GRAD)
        )
        slots = [self.memory.typed(SLOT + n, part) for n in range(self.n_slots)]

        def apply() -> None:
            update(now, total, slots, out, stamp.step)

        descent = update.descent(now.dtype) if isinstance(update, Descent) else None
        return (
            Descend(apply, out, now, total, *descent) if descent else BoundUpdate(apply)
        )


def _sum(
    views: Sequence[Array], out: Array, combine: np.ufunc = np.add
) -> Iterator[BoundOp]:
    """Add strictly from left to right: another order would give other bits."""
    if not out.size:
        return
    first, *rest = views
    if not rest:
        yield BoundCopy(out, first)
        return
    # In place, unless our own summand comes third or later: the first sum would
    # overwrite it before its turn. First or second it is read in the very operation
    # that writes.
    early = any(np.may_share_memory(view, out) for view in rest[1:])
    target = np.empty_like(out) if early else out
    yield Sum(target, first, rest[0], combine=combine)
    for view in rest[1:]:
        yield Sum(target, target, view, combine=combine)
    if early:
        yield BoundCopy(out, target)
