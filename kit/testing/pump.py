"""Carries packets between two descriptors, late, seldom, twice or never, as told.

It knows no network: a packet is what one `read` returns. `kit.testing.netlab` puts two
TUN devices at its ends.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from kit.testing.line import Line

#: Told of every packet at its begin: from which end ("a" or "b"), and its bytes.
Tap = Callable[[str, bytes], None]

_BURST: Final = 64  # packets read from one end before the other gets its turn
_LARGEST: Final = 65_536
_LOOK_S: Final = 0.05  # how long a stop may go unseen


class Pump(Line):
    """A `Line` with a thread that carries; the faults may be changed at any time."""

    def __init__(self, seed: int | None = None) -> None:
        """Prepare a perfect line; `tap` may be set to listen to it."""
        super().__init__(seed)
        self.tap: Tap | None = None
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
            if self.tap is not None:
                self.tap(end, packet)
            self.put(end, packet, now)

    def _deliver(self, fd: int, packet: bytes) -> None:
        try:
            os.write(fd, packet)
        except OSError:  # the device's own queue is full: a loss like any other
            self.dropped += 1
