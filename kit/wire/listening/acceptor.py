"""Accepts a task's connections, checks each one, and hands over links.

Theory of operation. One thread accepts, and polls every new connection for its first
byte. A connection that has sent something gets a short thread for its handshake, with a
deadline. Who may wait, whose handshake is next and who must go is decided in
`admission.py`, for each listener separately. Refusals are counted, and logged at a
limited rate.

The poll and the silent connections belong to the accepting thread alone. Admissions and
streams are shared with the threads of handshakes, under one lock. A stream in a
handshake is closed by that handshake's thread alone; to end it early, the others only
shut it down, which wakes that thread. If they closed it, its descriptor might be
another connection's by the time that the thread looks at it again.
"""

from __future__ import annotations

import logging
import math
import select
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from kit.errors import KitError, PermissionDeniedError
from kit.system import Bell, ring
from kit.task import Task
from kit.wire.handshake.credentials import Credentials
from kit.wire.handshake.opening import welcome
from kit.wire.link import MAX_BODY, Link
from kit.wire.listening.admission import Admission, LinkStage, PendingConnection
from kit.wire.listening.listener import Listener
from kit.wire.sockets import SocketStream
from kit.wire.stream import AES_GCM, Clock

# --------------------------------------------------------------------------------------
# A line in the log for each refused connection, but not for each of thousands:
# strangers decide how many connections are refused, but not how much of the disk that
# takes.


_log = logging.getLogger(__name__)

MOST_LINES: Final = 10
PERIOD_S: Final = 10.0


class RefusalLog:
    """Counts refusals; logs at most `MOST_LINES` lines in `PERIOD_S`, then a sum."""

    def __init__(self, task: str, clock: Callable[[], float]) -> None:
        self.count = 0
        self._task, self._clock = task, clock
        self._guard = threading.Lock()
        self._period_ends, self._in_period = 0.0, 0

    def note(self, reason: object, origin: str = "") -> None:
        """Count a refusal, and log it unless there were too many of late."""
        with self._guard:
            if self._clock() >= self._period_ends:
                self._sum_up()
                self._period_ends = self._clock() + PERIOD_S
            self._in_period += 1
            if self._in_period <= MOST_LINES:
                whose = f" of {origin}" if origin else ""
                # As text: a handler may keep what it is given, and an error its frames.
                text = f"{self._task} refused a connection{whose}: {reason}"
                _log.warning("%s", text)
            self.count += 1

    def close(self) -> None:
        """Log how many refusals of this period were not logged."""
        with self._guard:
            self._sum_up()

    def _sum_up(self) -> None:
        if self._in_period > MOST_LINES:
            more = self._in_period - MOST_LINES
            _log.warning("%s refused %d more connections", self._task, more)
        self._in_period = 0


# With no descriptors left accept() fails while the listener stays ready: without a
# pause this thread would take a whole core.
_PAUSE_MS: Final = 100


@dataclass(frozen=True)
class _Pending:
    """A listener, and those of its connections that are not links yet."""

    listener: Listener
    admission: Admission
    streams: dict[PendingConnection, SocketStream]


class Acceptor:
    """Accepts on `listeners`, which it owns, from its creation until `close`.

    Each listener has `at_most` places for handshakes, and `room` for connections that
    wait for one or have sent nothing yet. `on_link` gets each proven link and owns it
    from then on; it is called in the handshake's thread and must return soon.
    """

    def __init__(
        self,
        listeners: Sequence[Listener],
        credentials: Credentials,
        local: Task,
        on_link: Callable[[Link], None],
        *,
        handshake_s: float = 5.0,
        at_most: int = 32,
        room: int = 128,
        max_body: int = MAX_BODY,
        checksum: bool = True,
        encryption: str = AES_GCM,
        clock: Clock = time.monotonic,
    ) -> None:
        self._pending = {
            listener.fileno(): _Pending(listener, Admission(at_most, room), {})
            for listener in listeners
        }
        self._on_link, self._local = on_link, local
        self._credentials, self._handshake_s = credentials, handshake_s
        self._max_body, self._checksum, self._clock = max_body, checksum, clock
        self._encryption = encryption
        self._refusals = RefusalLog(local.short, clock)
        self._state = threading.Lock()  # also of what is in `_pending`
        self._threads: set[threading.Thread] = set()
        # By descriptor; the accepting thread's alone.
        self._silent: dict[int, tuple[_Pending, PendingConnection]] = {}
        self._is_closing = False
        self._wake = Bell()
        self._poll = select.poll()
        self._thread = threading.Thread(
            target=self._accept_all, name="kit-acceptor", daemon=True
        )
        self._thread.start()

    @property
    def refused(self) -> int:
        """How many connections have not become links."""
        return self._refusals.count

    @property
    def n_new(self) -> int:
        """How many connections are open that are not links yet."""
        with self._state:
            return sum(len(pending.streams) for pending in self._pending.values())

    def close(self, deadline_s: float = 5.0) -> None:
        """Stop accepting, end handshakes under way, and wait for all threads.

        May be called twice, but not from `on_link`, whose thread it waits for. Links
        that were handed over stay open.
        """
        with self._state:
            if self._is_closing:
                return
            self._is_closing = True
            ring(self._wake.handle)
            threads = list(self._threads)
            for pending in self._pending.values():
                for stream in pending.streams.values():
                    stream.shutdown()
        deadline = self._clock() + deadline_s
        for thread in (self._thread, *threads):
            thread.join(max(0.0, deadline - self._clock()))
        for pending in self._pending.values():
            pending.listener.close()
        self._wake.close()
        self._refusals.close()

    # -- in the accepting thread -------------------------------------------------------

    def _accept_all(self) -> None:
        self._poll.register(self._wake.fd, select.POLLIN)
        for fd in self._pending:
            self._poll.register(fd, select.POLLIN)
        wait_ms: float | None = None
        while not self._is_closing:
            # Connections that have sent something come before new ones: else a crowd of
            # new ones could displace them although their turn has come.
            events = [fd for fd, _ in self._poll.poll(wait_ms)]
            for fd in sorted(events, key=self._pending.__contains__):
                if fd in self._pending:
                    self._accept(self._pending[fd])
                elif fd in self._silent:
                    self._has_spoken(fd)
                else:
                    self._wake.answer()
            wait_ms = self._decide()
        # Those in a handshake were shut down by `close`, and are closed by their
        # threads.
        with self._state:
            for pending in self._pending.values():
                for arrival, stream in list(pending.streams.items()):
                    if arrival.stage < LinkStage.SHAKING:
                        del pending.streams[arrival]
                        stream.close()

    def _accept(self, pending: _Pending) -> None:
        try:
            stream = pending.listener.accept()
        except PermissionDeniedError as exc:
            self._refusals.note(exc)
        except OSError as exc:
            where = pending.listener.address
            self._refusals.note(f"it cannot be accepted at {where}: {exc}")
            pause = select.poll()
            pause.register(self._wake.fd, select.POLLIN)
            pause.poll(_PAUSE_MS)
        else:
            if stream is not None:
                self._enter(pending, stream)

    def _enter(self, pending: _Pending, stream: SocketStream) -> None:
        now = self._clock()
        arrival = PendingConnection(stream.origin(), now + self._handshake_s, now)
        with self._state:
            pending.streams[arrival] = stream
            displaced = pending.admission.enter(arrival)
        self._silent[stream.fileno()] = pending, arrival
        self._poll.register(stream.fileno(), select.POLLIN)
        if displaced is not None:
            self._refuse(pending, displaced, "there are too many new connections")

    def _has_spoken(self, fd: int) -> None:
        _, arrival = self._silent.pop(fd)
        self._poll.unregister(fd)
        with self._state:
            arrival.reach(LinkStage.READY, self._clock())

    def _decide(self) -> float | None:
        """Carry out what is due; return how many ms may pass until the next time."""
        now, waits_ms = self._clock(), list[float]()
        for pending in self._pending.values():
            with self._state:
                decision = pending.admission.decide(now)
            for arrival in decision.begin:
                self._start_handshake(pending, arrival)
            for arrival, why in decision.end:
                if arrival.stage is LinkStage.SHAKING:
                    # Its thread fails then, and makes its place free.
                    with self._state:
                        stream = pending.streams.get(arrival)
                        if stream is not None:  # else it has become a link just now
                            stream.shutdown()
                else:
                    self._refuse(pending, arrival, why)
            if decision.again_at is not None:
                waits_ms.append(math.ceil(1000 * max(0.0, decision.again_at - now)))
        return min(waits_ms, default=None)

    def _start_handshake(self, pending: _Pending, arrival: PendingConnection) -> None:
        thread = threading.Thread(
            target=self._shake_hands,
            args=(pending, arrival, pending.streams[arrival]),
            name="kit-handshake",
            daemon=True,
        )
        try:
            # Under the lock, so that `close` sees either no thread or a started one:
            # only a started one can be waited for.
            with self._state:
                if self._is_closing:
                    # Not begun after all: so `_accept_all` closes its stream.
                    arrival.stage = LinkStage.READY
                    return
                thread.start()
                self._threads.add(thread)
        except RuntimeError as exc:  # the system has no more threads for us
            self._refuse(pending, arrival, exc)

    def _refuse(
        self, pending: _Pending, arrival: PendingConnection, why: object
    ) -> None:
        stream = self._forget(pending, arrival)
        if self._silent.pop(stream.fileno(), None) is not None:
            self._poll.unregister(stream.fileno())
        stream.close()
        self._refusals.note(why, arrival.origin)

    def _forget(self, pending: _Pending, arrival: PendingConnection) -> SocketStream:
        with self._state:
            pending.admission.leave(arrival)
            return pending.streams.pop(arrival)

    # -- in a handshake's thread -------------------------------------------------------

    def _shake_hands(
        self, pending: _Pending, arrival: PendingConnection, stream: SocketStream
    ) -> None:
        try:
            link = self._welcome(pending, arrival, stream)
        except KitError as exc:
            self._refusals.note(exc, arrival.origin)
        else:
            try:
                self._on_link(link)
            except Exception:
                who = self._local, link.peer
                _log.exception("%s could not take the link of %s", *who)
                link.close()
        finally:
            with self._state:
                self._threads.discard(threading.current_thread())

    def _welcome(
        self, pending: _Pending, arrival: PendingConnection, stream: SocketStream
    ) -> Link:
        """Return the link. Its place is free before the link is handed over."""
        try:
            return welcome(
                stream,
                self._local,
                self._credentials,
                deadline_s=arrival.until - self._clock(),
                max_body=self._max_body,
                checksum=self._checksum,
                encryption=self._encryption,
                clock=self._clock,
            )
        finally:
            self._forget(pending, arrival)
            # Others may wait for the place, and the accepting thread decides who gets
            # it.
            with self._state:
                if not self._is_closing:  # else there is nobody to wake
                    ring(self._wake.handle)
