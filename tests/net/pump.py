"""Carries packets between two descriptors, and delays or drops them.

It knows no network: a packet is what one `read` returns. `tests.net.netlab` puts two
TUN devices at its ends.
"""

from __future__ import annotations

import heapq
import os
import random
import select
import threading
import time
from collections.abc import Mapping
from typing import Final

# --------------------------------------------------------------------------------------
# Which packets arrive when, on a line that is slow, lossy or cut.
#
# Packets and times are passed in: nothing is moved and no clock is read. `Pump` carries
# real packets by it.


OTHER: Final = {"a": "b", "b": "a"}


class FaultyLine:
    """Two directions, from "a" to "b" and back; faults are attributes, set at any time.

    Parameters
    ----------
    seed : int, optional
        Makes loss and jitter repeatable. The line starts perfect.

    Attributes
    ----------
    delay_s : float
        Seconds that are added each way.
    jitter_s : float
        Up to this many seconds more, at random, which reorders packets.
    loss : float
        The share of packets that are dropped, from 0 to 1.
    cut_ab, cut_ba : bool
        Drop everything, one way only.
    carried, dropped : int
        Packets put in, and those of them that go no further.

    Examples
    --------
    >>> line = FaultyLine()
    >>> line.delay_s = 0.5
    >>> line.put("a", b"hello", now=1.0)
    >>> line.arrivals(now=1.4), line.next_due, line.arrivals(now=1.5)
    ([], 1.5, [('b', b'hello')])
    """

    def __init__(self, seed: int | None = None) -> None:
        """Start with a perfect line; `seed` makes chance repeatable."""
        self.delay_s = self.jitter_s = self.loss = 0.0
        self.cut_ab = self.cut_ba = False
        self.carried = self.dropped = 0
        self._random = random.Random(seed)
        self._queue: list[tuple[float, int, str, bytes]] = []  # due, order, to, packet
        self._order = 0

    def put(self, end: str, packet: bytes, now: float) -> None:
        """Take a packet.

        Parameters
        ----------
        end : {"a", "b"}
            The end that it leaves.
        packet : bytes
            What it holds.
        now : float
            The time in seconds.
        """
        self.carried += 1
        is_cut = self.cut_ab if end == "a" else self.cut_ba
        if is_cut or self._random.random() < self.loss:
            self.dropped += 1
            return
        due = now + self.delay_s + self._random.random() * self.jitter_s
        heapq.heappush(self._queue, (due, self._order, OTHER[end], packet))
        self._order += 1

    @property
    def next_due(self) -> float | None:
        """When the next packet arrives, None when none is under way."""
        return self._queue[0][0] if self._queue else None

    def arrivals(self, now: float) -> list[tuple[str, bytes]]:
        """Return the packets that have arrived since, each with the end it came to."""
        result = []
        while self._queue and self._queue[0][0] <= now:
            _, _, end, packet = heapq.heappop(self._queue)
            result.append((end, packet))
        return result


_BURST: Final = 64  # packets read from one end before the other gets its turn
_LARGEST: Final = 65_536
_LOOK_S: Final = 0.05  # how long a stop may go unseen


class Pump(FaultyLine):
    """A `FaultyLine` with a thread that carries; faults may be changed at any time."""

    def __init__(self, seed: int | None = None) -> None:
        """Prepare a perfect line."""
        super().__init__(seed)
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def carry(self, ends: Mapping[str, int]) -> None:
        """Begin to carry between the non-blocking descriptors of the two ends."""
        self._thread = threading.Thread(
            target=self._carry, args=(dict(ends),), name="netlab-pump", daemon=True
        )
        self._thread.start()

    def stop_carrying(self) -> None:
        """Stop; what is under way is lost. May be called twice."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _carry(self, ends: dict[str, int]) -> None:
        names = {fd: end for end, fd in ends.items()}
        while not self._stopping.is_set():
            due = self.next_due
            wait = _LOOK_S if due is None else min(_LOOK_S, due - time.monotonic())
            readable, _, _ = select.select(list(names), [], [], max(0.0, wait))
            for fd in readable:
                self._take(fd, names[fd])
            for end, packet in self.arrivals(time.monotonic()):
                self._deliver(ends[end], packet)

    def _take(self, fd: int, end: str) -> None:
        now = time.monotonic()
        for _ in range(_BURST):
            try:
                packet = os.read(fd, _LARGEST)
            except BlockingIOError:
                return
            self.put(end, packet, now)

    def _deliver(self, fd: int, packet: bytes) -> None:
        try:
            os.write(fd, packet)
        except OSError:  # the device's own queue is full: a loss like any other
            self.dropped += 1
