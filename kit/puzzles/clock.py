"""When everything happens on a puzzle's clock: the order of a run, with stated times.

Pure. The order is that of the processes. How long a piece of work and a byte take, the
puzzle says, so a busy machine does not change a figure. A task goes on working while it
sends. It sends one message at a time, and receives one at a time, in the order in which
its program asks for them:

    worker:0  work |--- a ---|--- b ---|            sends are queued
    link                     |a a a|b b b|
    worker:1  waits ................|work           and receives are, too

This is the one-port model of van de Geijn and others: Chan et al., "Collective
communication: theory, practice, and experience", CCPE 19 (2007), section 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kit.puzzles.events import (
    Event,
    MemoryFreed,
    MemoryKept,
    Received,
    Sent,
    WaitBegan,
    Worked,
)

Key = tuple[int, int, int]  # of a message: source, destination, number on the link
#: What something waited for: a message, and whether for its arrival or its departure.
Cause = tuple[Key, bool]


class MessageSpan(NamedTuple):
    """A message: it leaves at `begin` and has arrived at `end`.

    It takes `ms`; if `end` is later, the receiver was busy with others in between.
    `before` is what made it wait.
    """

    source: int
    to: int
    name: str
    n_bytes: int
    begin: float
    end: float
    ms: float
    before: Cause | None


class WorkSpan(NamedTuple):
    """A piece of work on a task."""

    task: int
    label: str
    begin: float
    end: float


class HeldSpan(NamedTuple):
    """An array in a task's memory; `end` is infinite if it is never freed."""

    task: int
    name: str
    n_bytes: int
    begin: float
    end: float


class WaitSpan(NamedTuple):
    """A task waits for a message; `open` if it never came."""

    task: int
    source: int
    name: str
    begin: float
    end: float
    open: bool


@dataclass
class ClockedRun:
    """A run on the clock, in ms: what was sent, and `flights`, what was received."""

    n: int
    sent: dict[Key, MessageSpan] = field(default_factory=dict)
    flights: dict[Key, MessageSpan] = field(default_factory=dict)
    work: list[WorkSpan] = field(default_factory=list)
    held: list[HeldSpan] = field(default_factory=list)
    waits: list[WaitSpan] = field(default_factory=list)
    end: float = 0.0

    @property
    def unread(self) -> list[MessageSpan]:
        """The messages that were never received."""
        return [
            message for key, message in self.sent.items() if key not in self.flights
        ]


MessageCost = Callable[[int], float]


def timeline(logs: Sequence[Sequence[Event]], cost: MessageCost) -> ClockedRun:
    """Put the events of all tasks on one clock; `cost` maps bytes to ms.

    Of a run that was ended during a wait, what happened until then is there.

    >>> hello = [[Sent(1, "x", 8, 0)], [Received(0, "x", 8, 0)]]
    >>> timeline(hello, lambda n_bytes: n_bytes / 4).end
    2.0
    """
    return _Clock(logs, cost).run()


def in_a_row(logs: Sequence[Sequence[Event]]) -> tuple[MessageSpan, ...]:
    """Return the longest chain of messages in which each waits for the one before.

    A message waits for what its sender received or sent before it, and for what its
    receiver received before it. So this is the critical path of a clock on which each
    message takes one ms and work takes no time.

    >>> relay = [[Sent(1, "x", 8, 0)], [Received(0, "x", 8, 0), Sent(2, "x", 8, 0)],
    ...          [Received(1, "x", 8, 0)]]
    >>> [(flight.source, flight.to) for flight in in_a_row(relay)]
    [(0, 1), (1, 2)]
    """
    free = [[e for e in log if not isinstance(e, Worked)] for log in logs]
    line = timeline(free, lambda _: 1.0)
    last = max(line.flights.values(), key=lambda flight: flight.end, default=None)
    chain = []
    while last is not None:
        chain.append(last)
        key, is_there = last.before or (None, True)
        last = (line.flights if is_there else line.sent).get(key) if key else None
    return tuple(reversed(chain))


class _Clock:
    """How far each task is in its log, and at what time. Call `run` once."""

    def __init__(self, logs: Sequence[Sequence[Event]], cost: MessageCost) -> None:
        self._logs, self._cost, n = logs, cost, len(logs)
        self._found = ClockedRun(n)
        self._next = [0] * n
        self._now = [0.0] * n
        self._why: list[Cause | None] = [None] * n  # what made the task so late
        self._out_until = [0.0] * n
        self._last_out: list[Cause | None] = [None] * n
        self._taking_in: list[list[tuple[float, float, Key]]] = [[] for _ in logs]
        self._holds: list[dict[int, tuple[MemoryKept, float]]] = [{} for _ in logs]

    def run(self) -> ClockedRun:
        """Advance the tasks in turn until none can go on."""
        # A task stops at a message that is not on the clock yet, until its sender has
        # got so far. After a round in which none moved, none ever will.
        while any([self._advance(task) for task in range(self._found.n)]):
            pass
        clocked = self._found
        ends = [f.end for f in (*clocked.sent.values(), *clocked.flights.values())]
        clocked.end = max([*self._now, *ends], default=0.0)
        for task, log in enumerate(self._logs):
            for key in list(self._holds[task]):
                self._drop(task, key, math.inf)
            if log and isinstance(log[-1], WaitBegan):
                last, now = log[-1], self._now[task]
                clocked.waits.append(
                    WaitSpan(task, last.source, last.name, now, clocked.end, True)
                )
        return clocked

    def _advance(self, task: int) -> bool:
        log, first = self._logs[task], self._next[task]
        while self._next[task] < len(log):
            event = log[self._next[task]]
            if isinstance(event, Received) and not self._receive(task, event):
                break
            if isinstance(event, Sent):
                self._send(task, event)
            elif isinstance(event, Worked):
                begin = self._now[task]
                self._now[task] += event.ms
                span = WorkSpan(task, event.label, begin, self._now[task])
                self._found.work.append(span)
            elif isinstance(event, MemoryKept):
                self._hold(task, event)
            elif isinstance(event, MemoryFreed):
                self._drop(task, event.key, self._now[task])
            self._next[task] += 1
        return self._next[task] > first

    def _send(self, task: int, event: Sent) -> None:
        key = task, event.to, event.number
        # It leaves when the program gets there, or when the port is free: what is later
        # decides, and is the link to follow back on the critical path.
        begin, before = self._now[task], self._why[task]
        if self._out_until[task] > begin:
            begin, before = self._out_until[task], self._last_out[task]
        ms = self._cost(event.n_bytes)
        end = begin + ms
        self._found.sent[key] = MessageSpan(
            task, event.to, event.name, event.n_bytes, begin, end, ms, before
        )
        self._out_until[task], self._last_out[task] = end, (key, False)

    def _receive(self, task: int, event: Received) -> bool:
        """Take a message if it has been sent; return whether it has."""
        key = event.source, task, event.number
        sent = self._found.sent.get(key)
        if sent is None:
            return False
        sent = self._taken_in(task, key, sent)
        self._found.flights[key] = sent
        begin = self._now[task]
        if sent.end > begin:
            self._found.waits.append(
                WaitSpan(task, event.source, event.name, begin, sent.end, False)
            )
            self._now[task], self._why[task] = sent.end, (key, True)
        return True

    def _taken_in(self, task: int, key: Key, sent: MessageSpan) -> MessageSpan:
        """Put a message into the first gap of the receiver that is long enough."""
        # A program may ask for a late message first. An early one that it asks for next
        # came in before that, so gaps between others count.
        begin, others = sent.begin, self._taking_in[task]
        for first, last, other in others:
            if first >= begin + sent.ms:
                break
            if last > begin:
                begin, sent = last, sent._replace(before=(other, True))
        others.append((begin, begin + sent.ms, key))
        others.sort()
        return sent._replace(end=begin + sent.ms)

    def _hold(self, task: int, event: MemoryKept) -> None:
        # Memory that is kept again under its old name goes on as one block.
        held = self._holds[task].get(event.key)
        if held is None or held[0] != event:
            self._drop(task, event.key, self._now[task])
            self._holds[task][event.key] = event, self._now[task]

    def _drop(self, task: int, key: int, now: float) -> None:
        if key in self._holds[task]:
            event, begin = self._holds[task].pop(key)
            self._found.held.append(
                HeldSpan(task, event.name, event.n_bytes, begin, now)
            )
