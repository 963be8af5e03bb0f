"""A real exchange of a small gradient, recorded message by message.

`record` carries out the exchange once, in this thread, and stops it after each message;
what all members' buffers contain then is a `SteppedState`. Going forward and back in a
recording computes nothing again.

Messages arrive round by round: first all that could be sent at the beginning, then all
that these made possible. A message without bytes, which only keeps members in step,
makes no state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from kit.exchange.compression.stages import hand_out
from kit.exchange.layout import ITEMSIZE, Layout, Range, itemsize_of
from kit.exchange.plan import GRAD, NEXT, SELF, Group, Plan, Send
from kit.exchange.ports.memory import Array
from kit.exchange.stepping.contributions import BufferPlace, Contributions, Who
from kit.exchange.stepping.held_links import HeldMessage, HeldMessages
from kit.exchange.stepping.members import (
    SteppedMember,
    check_done,
    linked_members,
)
from kit.exchange.topologies.topology import Topology
from kit.trace.traffic import TransferKind

Values = tuple[float, ...]
Traffic = dict[tuple[int, int], tuple[int, int]]  # source, destination: messages, bytes


class Column(NamedTuple):
    """A part of the gradient that always travels as a whole: its elements."""

    chunk: int
    lo: int
    hi: int


class Holding(NamedTuple):
    """Numbers in a buffer, and the workers whose sum they are, in order of adding."""

    who: Who
    values: Values


class ColumnCell(NamedTuple):
    """What one member holds of one column.

    `held` is the newest: the result, or else the sum so far (None: nothing). `kept` has
    arrived and is not added yet. `is_sent`: another member has a copy of `held`.
    """

    held: Holding | None
    is_result: bool
    is_sent: bool
    kept: tuple[Holding, ...]


class SteppedMessage(NamedTuple):
    """A message with a payload; `columns` are numbers of columns."""

    round: int
    source: int
    destination: int
    kind: TransferKind
    columns: tuple[int, ...]
    who: tuple[Who, ...]
    n_bytes: int


class SteppedState(NamedTuple):
    """All members after a message (None: at the beginning, or after silent work).

    `rows` has a cell for each member and column; `held` are the messages on their way;
    `traffic` is what has arrived over each link: messages and bytes.
    """

    message: SteppedMessage | None
    rows: tuple[tuple[ColumnCell, ...], ...]
    held: tuple[SteppedMessage, ...]
    traffic: Traffic


@dataclass(frozen=True)
class SteppedExchange:
    """The states of an exchange, the first one before anything has moved.

    `metered` is what the members' own meters have counted in the end. They count what
    is taken, in the order of the plan; `SteppedState.traffic` counts what has arrived.
    `payloads` are the bytes of the messages, `ranges` their places. `agrees`: whether
    all workers end with the same sum. `call` is set for one of a group of tasks.
    """

    topology: str
    title: str
    names: tuple[str, ...]
    workers: tuple[int, ...]
    columns: tuple[Column, ...]
    itemsize: int
    states: tuple[SteppedState, ...]
    metered: Traffic
    payloads: tuple[bytes, ...] = ()
    ranges: tuple[Range, ...] = ()
    agrees: bool = True
    call: str = ""

    @property
    def messages(self) -> tuple[SteppedMessage, ...]:
        """All messages in the order in which they arrived."""
        return tuple(s.message for s in self.states if s.message is not None)

    @property
    def n_rounds(self) -> int:
        """How many rounds of messages there were."""
        return max((message.round for message in self.messages), default=0)


def record(
    topology: Topology,
    layout: Layout,
    group: Group,
    names: Sequence[str],
    values: Sequence[Array],
    most: int | None = None,
) -> SteppedExchange:
    """Carry out an exchange of the workers' flat `values`; return all its states.

    `values` are arrays of the layout's one parameter, or the bytes of all. Of a column,
    the first `most` numbers are recorded, by default all. Raises
    `FailedPreconditionError` if the plans of a topology do not fit together.
    """
    ranges = _cut(topology, layout, group)
    n_chunks, whole = layout.n_chunks, Range(0, layout.n_bytes)
    own = dict(zip(group.workers, values, strict=True))
    parts = [
        SteppedPart(
            topology.plan(layout, group, number),
            [(GRAD, whole, own[number])] if number in own else [],
        )
        for number in range(len(names))
    ]
    columns = tuple(_column(layout, chunk % n_chunks, part) for chunk, part in ranges)
    result = record_parts(
        parts, layout, names, [part for _, part in ranges], columns, group.workers, most
    )
    return replace(
        result, topology=topology.name, title=topology.title, agrees=topology.agrees
    )


class SteppedPart(NamedTuple):
    """What a member does, and the numbers that it begins with, with their places."""

    plan: Plan | None
    begin: Sequence[tuple[int, Range, Array]]


def record_parts(
    parts: Sequence[SteppedPart],
    layout: Layout,
    names: Sequence[str],
    ranges: Sequence[Range],
    columns: Sequence[Column],
    workers: Sequence[int],
    most: int | None = None,
    combine: np.ufunc = np.add,
) -> SteppedExchange:
    """Carry out plans of all members, as `record` does; `ranges` travel as a whole."""
    rank = {number: position for position, number in enumerate(workers)}
    with linked_members(layout, names) as (members, hold):
        notes = []
        for member, (plan, begin) in zip(members, parts, strict=True):
            member.take(plan, hand_out, combine=combine)
            for region, part, value in begin:
                member.memory.raw(region, part)[:] = value.view(np.uint8).data
            own = (rank[member.number],) if member.number in rank else ()
            places = [(region, part) for region, part, _ in begin]
            notes.append(Contributions(ranges, own, places))
        recorder = _Recorder(members, hold, ranges, notes, most)
        states = recorder.play()
        check_done(members)
        metered = _metered(members)
    return SteppedExchange(
        "",
        "",
        tuple(names),
        tuple(workers),
        tuple(columns),
        itemsize_of(layout.buckets[0].dtype),
        tuple(states),
        metered,
        tuple(held.payload for held in recorder.arrived),
        tuple(held.range for held in recorder.arrived),
    )


def _column(layout: Layout, chunk: int, part: Range) -> Column:
    size = ITEMSIZE[layout.dtype_at(part.lo)]
    return Column(chunk, part.lo // size, part.hi // size)


def _cut(topology: Topology, layout: Layout, group: Group) -> list[tuple[int, Range]]:
    """Return the ranges that travel as a whole, each with the number of its chunk."""
    plans = [topology.plan(layout, group, member) for member in group.members]
    edges = {e for plan in plans if plan for op in plan.ops for e in op.range}
    chunks = [chunk for bucket in layout.buckets for chunk in bucket.chunks]
    return [
        (number, Range(lo, hi))
        for number, chunk in enumerate(chunks)
        for lo, hi in pairwise(
            [chunk.lo, *sorted(e for e in edges if chunk.lo < e < chunk.hi), chunk.hi]
        )
    ]


def _metered(members: Sequence[SteppedMember]) -> Traffic:
    result: Traffic = {}
    for member in members:
        for row in member.meter.totals():
            link = int(row["source"]), member.number
            _add(result, link, int(row["messages"]), int(row["bytes"]))
    return result


def _add(traffic: Traffic, link: tuple[int, int], messages: int, n_bytes: int) -> None:
    before = traffic.get(link, (0, 0))
    traffic[link] = before[0] + messages, before[1] + n_bytes


class _Recorder:
    """Lets one message after the other arrive, and records the buffers after each."""

    def __init__(
        self,
        members: Sequence[SteppedMember],
        hold: HeldMessages,
        ranges: Sequence[Range],
        contributions: Sequence[Contributions],
        most: int | None,
    ) -> None:
        self._members, self._hold, self._most = members, hold, most
        self.arrived: list[HeldMessage] = []
        self._ranges, self._contributions = ranges, contributions
        self._rows = [self._row(member) for member in members]
        self._traffic: Traffic = {}
        self._waves: list[list[tuple[HeldMessage, SteppedMessage]]] = [[]]

    def play(self) -> list[SteppedState]:
        """Return the states from the first to the last."""
        rows = tuple(self._rows)
        self._run(self._members)
        states = [SteppedState(None, rows, self._on_the_way(), {})]
        while self._waves[-1]:
            wave = self._waves[-1]
            # By source and destination: the order of posting is that in which members
            # take turns here, which means nothing. The sort is stable, so messages of
            # one link arrive in the order in which they were sent.
            wave.sort(key=lambda sent: sent[1][1:3])
            self._waves.append([])
            while wave:
                held, message = wave.pop(0)
                self._arrive(held, message)
                if message.n_bytes:
                    self.arrived.append(held)
                    _add(self._traffic, message[1:3], 1, message.n_bytes)
                    states.append(self._state(message))
        if states[-1].rows != tuple(self._rows):
            states.append(self._state(None))
        # If nothing was sent, there are no steps from a beginning to an end to be
        # shown.
        return states if any(state.message for state in states) else states[-1:]

    def _arrive(self, held: HeldMessage, message: SteppedMessage) -> None:
        self._hold.let_go(held)
        source, destination, region, part, *_ = held
        self._contributions[source].mark_sent(region, part)
        self._contributions[destination].arrive(source, region, part, message.who)
        self._run([self._members[destination]])
        self._rows[source] = self._row(self._members[source])

    def _run(self, members: Sequence[SteppedMember]) -> None:
        for member in members:
            notes = self._contributions[member.number]
            for op in member.run():
                notes.carry_out(op)
                if isinstance(op, Send):
                    who = tuple(notes.send(op.region, op.range))
                    columns = notes.columns_of(op.range)
                    message = SteppedMessage(
                        len(self._waves), member.number, op.to, op.kind, columns, who,
                        op.range.size,
                    )  # fmt: skip
                    self._waves[-1].append((self._hold.messages[-1], message))
            self._rows[member.number] = self._row(member)

    def _state(self, message: SteppedMessage | None) -> SteppedState:
        rows, traffic = tuple(self._rows), dict(self._traffic)
        return SteppedState(message, rows, self._on_the_way(), traffic)

    def _on_the_way(self) -> tuple[SteppedMessage, ...]:
        sent = [message for wave in self._waves[-2:] for _, message in wave]
        return tuple(message for message in sent if message.n_bytes)

    def _row(self, member: SteppedMember) -> tuple[ColumnCell, ...]:
        columns = range(len(self._ranges))
        return tuple(self._cell(member, column) for column in columns)

    def _cell(self, member: SteppedMember, column: int) -> ColumnCell:
        notes = self._contributions[member.number]
        buffer = notes.held(column)
        if buffer is None:
            held, is_sent = None, False
        else:
            held = self._holding(member, buffer, column)
            is_sent = notes.was_sent(buffer, column)
        kept = tuple(self._holding(member, p, column) for p in notes.kept(column))
        return ColumnCell(held, buffer == BufferPlace(NEXT), is_sent, kept)

    def _holding(
        self, member: SteppedMember, buffer: BufferPlace, column: int
    ) -> Holding:
        part = self._ranges[column]
        if buffer.peer == SELF:
            array = member.memory.typed(buffer.region, part)
        else:
            port = member.endpoint.ports[buffer.peer]
            array = port.window(buffer.region, part, separate=True)
        who = self._contributions[member.number].who(buffer, column)
        return Holding(who, tuple(array[: self._most].tolist()))
