"""The members of an exchange in one thread, each stopped at its next message.

They carry out what a training does: each member's plan, by
`kit.exchange.execution.program`, over flat buffers, counted by a meter. Only the links
are special (`kit.exchange.stepping.held_links`), and each operation is a program of its
own, so that a member can stop after any of them. Members take turns, always in the same
order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, count

import numpy as np

from kit.errors import FailedPreconditionError
from kit.exchange.execution.bound_operations import Update
from kit.exchange.execution.program import Program
from kit.exchange.layout import Layout
from kit.exchange.plan import Op, Plan, Receive
from kit.exchange.ports.endpoint import Endpoint
from kit.exchange.ports.memory import Memory
from kit.exchange.ports.port import Stamp
from kit.exchange.stepping.held_links import HeldMessages, HeldPort
from kit.trace.traffic import Meter

_ROWS = 64  # of a meter's log, of which only the totals are read here
_DEADLINE_S = 1.0  # never used: a message is only taken once it is there


class SteppedMember:
    """One member: its memory, links, meter, and its place in its plan."""

    def __init__(self, number: int, names: Sequence[str], layout: Layout) -> None:
        """Begin without a plan, which means with nothing to do."""
        self.number, self.name = number, names[number]
        self.memory = Memory(layout)
        self.meter = Meter(number, limit=_ROWS, trace=False)
        self.endpoint = Endpoint(
            names, number, Stamp(), deadline_s=_DEADLINE_S, clock=count().__next__
        )
        self._ops: tuple[Op, ...] = ()
        self._programs: list[Program] = []
        self._at = self._end = 0
        self._ends: list[int] = []  # of each bucket

    def link(self, hold: HeldMessages) -> None:
        """Open the links to all others."""
        for peer in range(len(self.endpoint.names)):
            if peer != self.number:
                ends = self.number, peer
                port = HeldPort(hold, *ends, self.memory, self.endpoint.stamp)
                self.endpoint.add(port)

    def take(
        self,
        plan: Plan | None,
        update: Update,
        n_slots: int = 0,
        combine: np.ufunc = np.add,
    ) -> None:
        """Take the plan of the next steps; `update` makes new values of a sum.

        `combine` is what is done instead of adding.
        """
        self._ops = plan.ops if plan else ()
        self._ends = [*accumulate(map(len, plan.reduce))] if plan else []
        self._programs = [
            Program(
                Plan(((op,),), ()),
                self.endpoint,
                self.memory,
                self.meter,
                update=update,
                n_slots=n_slots,
                expects=False,
                combine=combine,
            )
            for op in self._ops
        ]
        self.begin()

    def begin(self, bucket: int | None = None) -> None:
        """Start the plan again: the next step, or one `bucket` of it alone."""
        self._at, self._end = 0, len(self._ops)
        if bucket is not None and self._ends:
            self._at, self._end = [0, *self._ends][bucket : bucket + 2]

    def run(self) -> Iterator[Op]:
        """Carry out and yield operations in order, until a message is missing."""
        left = slice(self._at, self._end)
        for op, program in zip(self._ops[left], self._programs[left], strict=True):
            if isinstance(op, Receive) and not self._has(op.source):
                return
            program.reduce(0)
            self._at += 1
            yield op

    def _has(self, source: int) -> bool:
        return self.endpoint.ports[source].has_arrived()

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do."""
        return self._at == self._end


@contextmanager
def linked_members(
    layout: Layout, names: Sequence[str]
) -> Iterator[tuple[list[SteppedMember], HeldMessages]]:
    """Yield members without plans, linked to each other, and what holds messages."""
    hold, members = HeldMessages(), list[SteppedMember]()
    try:
        for number in range(len(names)):
            members.append(SteppedMember(number, names, layout))
            members[number].link(hold)
        yield members, hold
    finally:
        for member in members:
            member.endpoint.close()


def carry_out(
    members: Sequence[SteppedMember], hold: HeldMessages, bucket: int | None = None
) -> None:
    """Carry out all plans, or one `bucket` of each; every message arrives at once.

    Raises as `check_done`.
    """
    busy = members
    for member in busy:
        member.begin(bucket)
    while busy:
        for member in busy:
            for _ in member.run():
                pass
        busy = [members[number] for number in sorted(hold.let_all_go())]
    check_done(members)


def check_done(members: Sequence[SteppedMember]) -> None:
    """Raise `FailedPreconditionError` if a member waits for what nobody sends."""
    waiting = [member.name for member in members if not member.is_done]
    if waiting:
        raise FailedPreconditionError(
            f"{', '.join(waiting)} would wait without end: the plans of this topology "
            f"do not fit together. Each receive needs a send of the same range by its "
            f"source; `kit.exchange.topologies.mesh` is a short example."
        )
