"""The door of a task: accepts connections, checks each one, hands over links.

One thread accepts and waits for the first byte of each connection; then the handshake
gets a short thread of its own, with a deadline. Who may wait, whose handshake is next
and who must go is decided in `admission.py`, for each listener by itself. Refusals are
counted, and written to the log at a limited rate.
"""

from __future__ import annotations

import logging
import math
import os
import select
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from kit.errors import KitError, PermissionDeniedError
from kit.task import Task
from kit.wire.handshake.credentials import Credentials
from kit.wire.handshake.opening import welcome
from kit.wire.link import MAX_BODY, Link
from kit.wire.listening.admission import Admission, LinkStage, PendingConnection
from kit.wire.listening.listener import Listener
from kit.wire.sockets import SocketStream
from kit.wire.stream import AES_GCM, Clock

# --------------------------------------------------------------------------------------
# A line in the log for each refused connection, but not for each of thousands. A
# stranger decides how often he comes; he does not decide how much is written about it.


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
        """Count a refusal, and write it down unless there were too many of late."""
        with self._guard:
            if self._clock() >= self._period_ends:
                self._sum_up()
                self._period_ends = self._clock() + PERIOD_S
            self._in_period += 1
            if self._in_period <= MOST_LINES:
                whose = f" of {origin}" if origin else ""
                _log.warning("%s refused a connection%s: %s", self._task, whose, reason)
            self.count += 1

    def close(self) -> None:
        """Write what was not written yet."""
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
class _Entrance:
    """A listener with those of its connections that are not links yet."""

    listener: Listener
    admission: Admission
    streams: dict[PendingConnection, SocketStream]


class Acceptor:
    """Accepts on `listeners`, which it owns, from its creation until `close`.

    Each listener has `at_most` places for handshakes and `room` for connections that
    wait for one or have said nothing yet. `on_link` gets each proven link, which is the
    callee's from then on; it is called in the handshake's thread and must return soon.
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
        self._entrances = {
            one.fileno(): _Entrance(one, Admission(at_most, room), {})
            for one in listeners
        }
        self._on_link, self._local = on_link, local
        self._credentials, self._handshake_s = credentials, handshake_s
        self._max_body, self._checksum, self._clock = max_body, checksum, clock
        self._encryption = encryption
        self._refusals = RefusalLog(local.short, clock)
        self._state = threading.Lock()  # of the entrances, too
        self._threads: set[threading.Thread] = set()
        # By descriptor.
        self._silent: dict[int, tuple[_Entrance, PendingConnection]] = {}
        self._is_closing = False
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
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
            return sum(len(one.streams) for one in self._entrances.values())

    def close(self, deadline_s: float = 5.0) -> None:
        """Stop accepting, break off handshakes under way, and wait for all threads.

        May be called twice, but not from `on_link`. Links handed over stay open.
        """
        with self._state:
            if self._is_closing:
                return
            self._is_closing = True
            os.eventfd_write(self._wake, 1)
            threads = list(self._threads)
            for entrance in self._entrances.values():
                for stream in entrance.streams.values():
                    stream.shutdown()
        deadline = self._clock() + deadline_s
        for thread in (self._thread, *threads):
            thread.join(max(0.0, deadline - self._clock()))
        for entrance in self._entrances.values():
            entrance.listener.close()
        os.close(self._wake)
        self._refusals.close()

    # -- in the accepting thread -------------------------------------------------------

    def _accept_all(self) -> None:
        self._poll.register(self._wake, select.POLLIN)
        for fd in self._entrances:
            self._poll.register(fd, select.POLLIN)
        wait_ms: float | None = None
        while not self._is_closing:
            # Who spoke comes before who arrives: else a crowd could push him out.
            events = [fd for fd, _ in self._poll.poll(wait_ms)]
            for fd in sorted(events, key=self._entrances.__contains__):
                if fd in self._entrances:
                    self._accept(self._entrances[fd])
                elif fd in self._silent:
                    self._has_spoken(fd)
                else:
                    with suppress(BlockingIOError):
                        os.eventfd_read(self._wake)
            wait_ms = self._decide()
        with self._state:
            for entrance in self._entrances.values():
                for arrival, stream in list(entrance.streams.items()):
                    if arrival.stage < LinkStage.SHAKING:
                        del entrance.streams[arrival]
                        stream.close()

    def _accept(self, entrance: _Entrance) -> None:
        try:
            stream = entrance.listener.accept()
        except PermissionDeniedError as exc:
            self._refusals.note(exc)
        except OSError as exc:
            where = entrance.listener.address
            self._refusals.note(f"it cannot be accepted at {where}: {exc}")
            pause = select.poll()
            pause.register(self._wake, select.POLLIN)
            pause.poll(_PAUSE_MS)
        else:
            if stream is not None:
                self._enter(entrance, stream)

    def _enter(self, entrance: _Entrance, stream: SocketStream) -> None:
        now = self._clock()
        arrival = PendingConnection(stream.origin(), now + self._handshake_s, now)
        with self._state:
            entrance.streams[arrival] = stream
            displaced = entrance.admission.enter(arrival)
        self._silent[stream.fileno()] = entrance, arrival
        self._poll.register(stream.fileno(), select.POLLIN)
        if displaced is not None:
            self._send_away(entrance, displaced, "there are too many new connections")

    def _has_spoken(self, fd: int) -> None:
        _, arrival = self._silent.pop(fd)
        self._poll.unregister(fd)
        with self._state:
            arrival.reach(LinkStage.READY, self._clock())

    def _decide(self) -> float | None:
        """Carry out what is due; return how many ms may pass until the next time."""
        now, waits_ms = self._clock(), list[float]()
        for entrance in self._entrances.values():
            with self._state:
                decision = entrance.admission.decide(now)
            for arrival in decision.begin:
                self._start_handshake(entrance, arrival)
            for arrival, why in decision.end:
                if arrival.stage is LinkStage.SHAKING:
                    with self._state:
                        stream = entrance.streams.get(arrival)
                        if stream is not None:  # else it has become a link just now
                            stream.shutdown()
                else:
                    self._send_away(entrance, arrival, why)
            if decision.again_at is not None:
                waits_ms.append(math.ceil(1000 * max(0.0, decision.again_at - now)))
        return min(waits_ms, default=None)

    def _start_handshake(self, entrance: _Entrance, arrival: PendingConnection) -> None:
        thread = threading.Thread(
            target=self._shake_hands,
            args=(entrance, arrival, entrance.streams[arrival]),
            name="kit-handshake",
            daemon=True,
        )
        try:
            # Under the lock: `close` waits for all threads, and can for started ones.
            with self._state:
                if self._is_closing:
                    arrival.stage = LinkStage.READY
                    return
                thread.start()
                self._threads.add(thread)
        except RuntimeError as exc:  # the system has no more threads for us
            self._send_away(entrance, arrival, exc)

    def _send_away(
        self, entrance: _Entrance, arrival: PendingConnection, why: object
    ) -> None:
        stream = self._forget(entrance, arrival)
        if self._silent.pop(stream.fileno(), None) is not None:
            self._poll.unregister(stream.fileno())
        stream.close()
        self._refusals.note(why, arrival.origin)

    def _forget(self, entrance: _Entrance, arrival: PendingConnection) -> SocketStream:
        with self._state:
            entrance.admission.leave(arrival)
            return entrance.streams.pop(arrival)

    # -- in a handshake's thread -------------------------------------------------------

    def _shake_hands(
        self, entrance: _Entrance, arrival: PendingConnection, stream: SocketStream
    ) -> None:
        try:
            link = self._welcome(entrance, arrival, stream)
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
        self, entrance: _Entrance, arrival: PendingConnection, stream: SocketStream
    ) -> Link:
        """Return the link; the place is free again when it is handed over."""
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
            self._forget(entrance, arrival)
            with self._state:
                if not self._is_closing:  # else there is nobody to wake
                    os.eventfd_write(self._wake, 1)
