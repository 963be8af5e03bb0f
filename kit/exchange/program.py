"""Carry out a plan: each operation becomes one bound call, made once an epoch.

The loop over the calls is all that happens in a step; views, ports and arguments are
looked up when the program is made. Time is noted between the calls, so the spans of a
task tell without a gap what it did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Protocol

import numpy as np

from kit.exchange.endpoint import Endpoint
from kit.exchange.layout import Range
from kit.exchange.memory import Array, Memory, physical
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
from kit.exchange.port import Expected
from kit.traffic import Kind, Meter, Phase

Call = tuple[int, Callable[[], object]]  # phase, what to do
Stretch = tuple[int, tuple[Callable[[], object], ...]]  # calls of one phase, in a row
_WAIT = int(Phase.WAIT)  # an enum's member is slower to compare


class Update(Protocol):
    """Sets `out` from the parameters and the sum of all workers' gradients."""

    def __call__(
        self, now: Array, total: Array, slots: Sequence[Array], out: Array, step: int
    ) -> None:
        """All arrays are flat, of one dtype and length; `total` may be overwritten."""


class Program:
    """One member's plan, bound to its memory, links and meter.

    `reduce(bucket)` for each bucket in order, then `finish()`, make a step;
    `endpoint.stamp` says which one.
    """

    def __init__(
        self,
        plan: Plan,
        endpoint: Endpoint,
        memory: Memory,
        meter: Meter,
        *,
        update: Update | None = None,
        n_slots: int = 0,
        once: bool = False,
        expects: bool = True,
    ) -> None:
        """Bind a plan; `update` may be missing where it applies nothing.

        A program to be run `once` expects no message beyond its own; one that does not
        expect at all leaves it to the caller to tell the endpoint what will come.
        """
        self._endpoint, self._memory, self._meter = endpoint, memory, meter
        self._update, self._n_slots = update, n_slots
        self._placed = plan.placed
        self._finals = {
            (op.source, op.region, op.range)
            for op in plan.ops
            if isinstance(op, Receive) and op.kind == Kind.GATHER
        }
        self.waited_ns = 0
        if expects:
            self._expect(plan, once)
        self._reduce = [
            [self._bind(ops, parity) for ops in plan.reduce] for parity in (0, 1)
        ]
        self._finish = [self._bind(plan.finish, parity) for parity in (0, 1)]
        self.n_buckets = len(plan.reduce)

    def reduce(self, bucket: int) -> None:
        """Sum up one bucket. Raises what `Endpoint.receive` raises."""
        self._run(self._reduce[self._endpoint.stamp.parity][bucket])

    def finish(self) -> None:
        """Update what is ours, hand it out, take the rest; then NEXT is complete."""
        self._run(self._finish[self._endpoint.stamp.parity])
        self._endpoint.flush()

    def step(self) -> None:
        """Do a whole step."""
        for bucket in range(self.n_buckets):
            self.reduce(bucket)
        self.finish()

    def _run(self, stretches: list[Stretch]) -> None:
        clock, meter = self._endpoint.clock, self._meter
        task, step = meter.task, self._endpoint.stamp.step
        spans = []
        begun = clock()
        for phase, calls in stretches:
            for call in calls:
                call()
            at = clock()
            if phase == _WAIT:
                self.waited_ns += at - begun
            spans.append((task, phase, step, begun, at))
            begun = at
        if meter.trace:
            meter.spans.extend(spans)

    def _expect(self, plan: Plan, once: bool) -> None:
        scripts: dict[int, list[list[Expected]]] = {
            member: [[], []] for member in self._endpoint.ports
        }
        for op in plan.ops:
            if isinstance(op, Receive):
                for parity, script in enumerate(scripts[op.source]):
                    region, final = physical(op.region, parity), op.kind == Kind.GATHER
                    script.append(Expected(region, op.range, final))
        first = self._endpoint.stamp.parity
        for pair in scripts.values():
            if once:
                pair[1 - first] = []
        self._endpoint.expect(scripts, first)

    def _bind(self, ops: Iterable[Op], parity: int) -> list[Stretch]:
        calls = [call for op in ops for call in self._calls(op, parity)]
        return [
            (int(phase), tuple(call for _, call in group))
            for phase, group in groupby(calls, key=itemgetter(0))
        ]

    def _calls(self, op: Op, parity: int) -> list[Call]:
        match op:
            case Send():
                return [(Phase.SEND, call) for call in self._sender(op, parity)]
            case Receive():
                return [(Phase.WAIT, self._receiver(op))]
            case Add(part, terms):
                views = [self._view(term, part, parity) for term in terms]
                return self._adder(views, self._memory.typed(GRAD, part))
            case Copy(source, into, part):
                view = self._view(source, part, parity)
                own = self._memory.typed(physical(into, parity), part)
                if not part.size or np.shares_memory(view, own):
                    return []
                if self._is_placed(source, into, part):
                    return []
                return [(Phase.RECEIVE, partial(np.copyto, own, view))]
            case Apply():
                return [(Phase.APPLY, self._applier(op, parity))] * bool(op.range.size)

    def _sender(self, op: Send, parity: int) -> Iterator[Callable[[], None]]:
        port, part = self._endpoint.ports[op.to], op.range
        region = physical(op.region, parity)
        if self._placed and port.shared and op.kind == Kind.GATHER and part.size:
            own, theirs = self._memory.typed(region, part), port.window(region, part)
            yield partial(np.copyto, theirs, own)
        yield partial(port.post, region, part)

    def _is_placed(self, source: Term, into: int, part: Range) -> bool:
        """Whether the member at the other end, or the port, has put this here."""
        if source.member == SELF or source.region != into:
            return False
        if self._endpoint.ports[source.member].shared:
            return self._placed
        return (source.member, into, part) in self._finals

    def _view(self, term: Term, part: Range, parity: int) -> Array:
        region = physical(term.region, parity)
        if term.member == SELF:
            return self._memory.typed(region, part)
        return self._endpoint.ports[term.member].window(region, part)

    def _receiver(self, op: Receive) -> Callable[[], None]:
        endpoint, received = self._endpoint, self._meter.received
        take, clock = endpoint.take, endpoint.clock
        port, stamp = endpoint.ports[op.source], endpoint.stamp
        size, kind, source = op.range.size, int(op.kind), op.source

        def receive() -> None:
            posted, usable, _, _ = take(port, size)
            if size:
                now = clock()
                end = now if now > usable else usable
                received(source, kind, stamp.epoch, stamp.step, size, posted, end)

        return receive

    def _adder(self, views: list[Array], out: Array) -> list[Call]:
        if not out.size:
            return []
        first, *rest = views
        if not rest:
            return [(Phase.RECEIVE, partial(np.copyto, out, first))]
        # In place, unless our own summand would be overwritten before its turn.
        early = any(np.shares_memory(view, out) for view in rest[1:])
        target = np.empty_like(out) if early else out
        calls: list[Callable[[], object]] = [partial(np.add, first, rest[0], target)]
        calls += [partial(np.add, target, view, target) for view in rest[1:]]
        if early:
            calls.append(partial(np.copyto, out, target))
        return [(Phase.RECEIVE, call) for call in calls]

    def _applier(self, op: Apply, parity: int) -> Callable[[], None]:
        update, stamp = self._update, self._endpoint.stamp
        if update is None:
            raise ValueError("this plan updates parameters: give `update`.")
        now, out = (
            self._memory.typed(physical(region, parity), op.range)
            for region in (NOW, NEXT)
        )
        total = self._memory.typed(GRAD, op.range)
        slots = [
            self._memory.typed(SLOT + number, op.range)
            for number in range(self._n_slots)
        ]

        def apply() -> None:
            update(now, total, slots, out, stamp.step)

        return apply
