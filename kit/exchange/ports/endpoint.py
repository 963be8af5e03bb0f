"""One member's end of all its data links, and how it waits on them.

Theory of operation. How a member waits decides how long small messages take. A wait
first checks a few times (the answer is often a microsecond away), then yields to the
other processes of the machine, and after some tens of microseconds sleeps in `poll`
until its doorbell rings, a socket has news, or a slice of 20 ms is over. Every wait has
a deadline, and ends at once when the training is aborted.

A sleeping member says so in shared memory (`asleep`), sets that word *before* it checks
once more, and a sender looks at the word *after* it has posted. So one of the two
sees the other: either the sleeper finds the message, or the sender rings. Without a
fence between the two a ring may be lost, and the slice bounds the harm.

Whose end a wait reports. When a member dies, its neighbours find their links closed,
fail in turn and close theirs, so a closed link may be an effect and not the cause. A
wait that finds its peer gone therefore goes on for a moment: a report of who was lost
first, which aborts it, explains more. Members in `lost` are known to be gone;
those in `spared` may go without ending our part.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from kit.errors import DeadlineExceededError, KitError, PeerLost, ProtocolError
from kit.exchange.layout import Range
from kit.exchange.ports.port import Arrival, Expected, Port, Stamp, Taken, named
from kit.memory_order import fence
from kit.system import Bell, ring
from kit.wire.shaping import LineIn

_SLICE_MS = 20  # the most that a lost ring of the doorbell costs
_MOST_NAP_S = 1e-3  # where no descriptor shows what comes
_YIELD_NS = 60_000  # about the price of a wake-up: yield that long before sleeping
_DEAR_NS, _DEAR_WAITS = 200_000, 300  # as in hops.c
GRACE_S = 1.5  # a report of why a peer is lost explains more than its closed link


class Wait(NamedTuple):
    """Which members are waited for, and since when (ns)."""

    members: tuple[int, ...]
    since: int


class Endpoint:
    """All ports of one member. One thread uses it; `abort` may come from any."""

    def __init__(
        self,
        names: Sequence[str],
        me: int,
        stamp: Stamp,
        *,
        deadline_s: float,
        spins: int = 0,
        asleep: memoryview | None = None,
        native: bool = True,
        clock: Callable[[], int] = time.monotonic_ns,
        on_loss: Callable[[], None] = lambda: None,
    ) -> None:
        """`names` are the members' task names; `asleep` is our word in our arena.

        `native`: the compiled loop may be used, where it was built. `on_loss` is called
        when a wait sees a link end, even one it does not wait for.
        """
        self.native, self.on_loss = native, on_loss
        self.names, self.me, self.stamp = tuple(names), me, stamp
        self.deadline_s, self.spins = deadline_s, spins
        self.clock = clock
        self.ports: dict[int, Port] = {}
        self._carriers: list[Port] = []  # the ports that have bytes to move
        self._naps = False  # instead of sleeping until a descriptor has news
        self.line_in: LineIn | None = None
        self.doorbell = Bell()
        self.asleep = asleep if asleep is not None else memoryview(bytearray(8))
        self._dear = 0  # rests for which to sleep is cheaper than to yield
        self.error: KitError | None = None  # what the training was aborted with
        # Who is waited for now, and since when; stays what it was after a wait has
        # failed. Noted only for a wait that has lasted long enough to sleep: short ones
        # are the hot path.
        self.waits_for: Wait | None = None
        self.lost: frozenset[int] = frozenset()  # members that are not waited for
        # Members, lost or not, whose end must not end our part.
        self.spared: frozenset[int] = frozenset()
        self._news, self._bell = threading.Lock(), threading.Lock()
        self._is_closed = False
        self._poll = select.poll()
        self._poll.register(self.doorbell.fd, select.POLLIN)
        self._by_fd: dict[int, Port] = {}
        self._watched: list[int] | None = None  # members; some may have ended since

    def add(self, port: Port) -> None:
        """Take a port in, also in place of another one to the same member."""
        if (before := self.ports.get(port.peer)) in self._carriers:
            self._carriers.remove(before)
        self.ports[port.peer] = port
        self._watched = None
        if not port.shared:
            self._carriers.append(port)
        self._naps = self._naps or port.silent

    def expect(
        self, scripts: Mapping[int, Sequence[Sequence[Expected]]], first: int
    ) -> None:
        """Give each port its expected messages, and watch those that have any.

        A link without messages is not watched: its peer may rightly be gone.
        """
        for peer, pair in scripts.items():
            self.ports[peer].expect(pair, first)
        watched = [peer for peer, pair in scripts.items() if any(pair)]
        if watched == self._watched:
            return  # as in each call of a group
        self._watched = watched
        for fd in self._by_fd:
            self._poll.unregister(fd)
        self._by_fd = {}
        for port in map(self.ports.__getitem__, watched):
            fd = port.fileno()  # none of a port that holds its messages
            if not port.lost and fd >= 0:
                self._by_fd[fd] = port
                self._poll.register(fd, select.POLLIN)

    def abort(self, error: KitError) -> None:
        """End every wait of this endpoint, now and later, with `error`."""
        if self.error is None:
            self.error = error
            self.wake()

    def wake(self) -> None:
        """Make a sleeping wait check again."""
        with self._bell:  # once it is closed, its number may be another file's
            if not self._is_closed:
                ring(self.doorbell.handle)

    def receive(self, port: Port, due: Expected) -> Arrival:
        """Wait for a port's next message as `take` does; the result has field names."""
        return Arrival(*self.take(port, due))

    def take(self, port: Port, due: Expected) -> Taken:
        """Wait for a port's next message and until it may be used.

        Returns what an `Arrival` holds. Raises `PeerLost` when the other side is gone,
        `DeadlineExceededError` naming it after `deadline_s`, `ProtocolError` if it has
        sent another range than is `due`, or what the training was aborted with.
        """
        if not port.has_arrived():
            self._wait(port.has_arrived, port)
        posted, usable, step, halt, region, lo, hi = arrival = port.take()
        due_region, part, _ = due
        if region != due_region or (lo, hi) != part:
            raise self.refusal(port, arrival, due)
        if halt < self.stamp.halt:
            self.stamp.halt = halt
        # On several hosts only the links between them are shaped.
        if self.line_in is None or port.line_out is None:
            return arrival
        usable = self.line_in.arrives_at(usable, hi - lo)
        while (rest := usable - self.clock()) > 0:
            self.check()
            self._pump()
            time.sleep(min(rest * 1e-9, _SLICE_MS * 1e-3))
        return posted, usable, step, halt, region, lo, hi

    def until_arrived(self, port: Port) -> None:
        """Sleep until a port has a message; raises as `take` does.

        The compiled loop calls it, which has looked and yielded for long enough.
        """
        if not port.has_arrived():
            self._wait(port.has_arrived, port, sleeps=True)

    def refusal(self, port: Port, arrival: Taken, due: Expected) -> ProtocolError:
        """Return the error for a message that is not the one that is due."""
        _, _, step, _, region, lo, hi = arrival
        return ProtocolError(
            f"{self.names[port.peer]} sent {named(region, Range(lo, hi))} to "
            f"{self.names[self.me]} in step {step}, where {named(*due[:2])} were due. "
            f"Nothing of it was used or counted. The two do not run the same plan: "
            f"start all tasks with the same release and the same program.",
            task=self.names[port.peer],
            step=step,
        )

    def any_of(self, ports: Sequence[Port]) -> Port:
        """Return the first port that has a message, or else one with its member gone.

        Waits until there is one; raises as `until` does. A message comes first: what a
        member has sent before its end still counts.
        """

        def first() -> Port | None:
            arrived = (port for port in ports if port.has_arrived())
            return next(arrived, None) or next(filter(self.is_gone, ports), None)

        while (port := first()) is None:
            self._wait(lambda: first() is not None, None)
        return port

    def is_gone(self, port: Port) -> bool:
        """Whether a port's member is lost, or its link is closed."""
        return port.lost or port.peer in self.lost

    def until(self, ready: Callable[[], bool]) -> None:
        """Wait until `ready()`, which is called whenever something may have happened.

        Raises `DeadlineExceededError`, or what the training was aborted with.
        """
        if not ready():
            self._wait(ready, None)

    def lose(self, members: Iterable[int]) -> None:
        """Note that the training goes on without some members; from any thread."""
        if not self.lost.issuperset(members):
            self.lost |= set(members)
            self.wake()

    def forget(self, member: int) -> None:
        """Go on without a member: messages that it has not taken are dropped."""
        self.lost |= {member}
        self._watched = None
        port = self.ports.pop(member)
        if port in self._carriers:
            self._carriers.remove(port)
        for fd in [fd for fd, other in self._by_fd.items() if other is port]:
            self._poll.unregister(fd)
            del self._by_fd[fd]
        port.close()

    def flush(self) -> None:
        """Wait until everything posted has left this process."""
        for port in self._carriers:
            if port.is_idle():
                continue
            if port.peer in self.spared:  # once it is gone, what it lacks is dropped
                self._wait(partial(_is_done_with, port), None)
            else:
                self._wait(port.is_idle, port)

    def check(self) -> None:
        """Raise what the training was aborted with, if it was."""
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        """Close all ports and the doorbell."""
        for port in self.ports.values():
            port.close()
        self.ports.clear()
        self._carriers.clear()
        self._by_fd.clear()
        with self._bell:
            was_closed, self._is_closed = self._is_closed, True
        if not was_closed:
            self.doorbell.close()

    def _wait(
        self, ready: Callable[[], bool], port: Port | None, *, sleeps: bool = False
    ) -> None:
        # Checking again pays for shared memory, which a peer changes by itself. On a
        # socket nothing changes unless we pump.
        is_near = not sleeps and (port is None or port.shared)
        for _ in range(self.spins if is_near else 0):
            if ready():
                return
        if self.error is None:  # else it stays what it was when the training failed
            self.waits_for = None
        start = self.clock()
        give_up = start + round(self.deadline_s * 1e9)
        lost_at = 0
        while not ready():
            self.check()
            moved = self._pump()
            now = self.clock()
            # `ready` is called again after `is_gone`: a peer's last message may have
            # come just before its end.
            if port is not None and self.is_gone(port) and not ready():
                lost_at = lost_at or now
                # No further report comes about a member that is known to be lost.
                if port.peer in self.lost or now - lost_at > GRACE_S * 1e9:
                    raise self._gone(port)
            # A process that was stopped for long finds both its deadline past and the
            # others gone; that they are gone explains more.
            if now > give_up and not lost_at:
                raise self._late(port)
            if not moved:
                yields = now - start < _YIELD_NS and not sleeps
                if self.waits_for is None and not yields:
                    self.waits_for = Wait(self._peers(port), start)
                self._rest(ready, now - start, yields=yields)
        self.waits_for = None

    def _peers(self, port: Port | None) -> tuple[int, ...]:
        """Return who is waited for: without a port, all that have sent nothing yet."""
        if port is not None:
            return (port.peer,)
        watched = self._by_fd.values()
        return tuple(item.peer for item in watched if not item.has_arrived())

    def _pump(self) -> bool:
        moved = False
        for port in self._carriers:
            if port.pump():
                moved = True
        return moved

    def _rest(self, ready: Callable[[], bool], waited_ns: int, *, yields: bool) -> None:
        if yields and not self._dear:
            before = self.clock()
            os.sched_yield()
            # It has given the core to work of others; so will the next ones.
            if self.clock() - before > _DEAR_NS:
                self._dear = _DEAR_WAITS
            return
        self._dear = max(0, self._dear - 1)
        # Wait for a socket to take bytes only while there are some: an idle socket can
        # always be written to, and every poll would return at once.
        for fd, port in self._by_fd.items():
            if not port.shared:
                writing = 0 if port.is_idle() else select.POLLOUT
                self._poll.modify(fd, select.POLLIN | writing)
        self.asleep[0] = 1
        fence()
        try:
            # Check again, after the word is set: a message may have come before its
            # sender could see us asleep, and then nobody rings.
            if not ready():
                self._answer(self._poll.poll(0 if self._naps else _SLICE_MS))
                if self._naps:  # so that no wait becomes longer by more than an eighth
                    time.sleep(min(waited_ns / 8e9, _MOST_NAP_S))
        finally:
            self.asleep[0] = 0

    def _answer(self, events: list[tuple[int, int]]) -> None:
        for fd, _ in events:
            if fd == self.doorbell.fd:
                self.doorbell.answer()
                continue
            port = self._by_fd[fd]
            port.pump()
            if port.lost:  # watched on, its end would make every poll return at once
                self._poll.unregister(fd)
                del self._by_fd[fd]
                self.on_loss()

    def _gone(self, port: Port) -> PeerLost:
        name = self.names[port.peer]
        return PeerLost(
            f"{name} closed its link to {self.names[self.me]} in step "
            f"{self.stamp.step}; its process has ended or was killed. Look at its log, "
            f"then start the training again.",
            task=name,
            step=self.stamp.step,
        )

    def _late(self, port: Port | None) -> DeadlineExceededError:
        name = self.names[port.peer] if port else "any worker"
        return DeadlineExceededError(
            f"{self.names[self.me]} waited {self.deadline_s:g} s in step "
            f"{self.stamp.step} for {name}, which sent nothing. It is stopped, stuck "
            f"or slower than that: allow more with settings(step_deadline_s=...).",
            task=name if port else None,
            step=self.stamp.step,
        )


def _is_done_with(port: Port) -> bool:
    return port.lost or port.is_idle()
