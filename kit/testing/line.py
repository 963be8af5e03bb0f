"""Which packets arrive when, on a line that is slow, lossy or cut.

Packets and times are given, nothing is moved and no clock is read.
`kit.testing.pump` carries real packets by it.
"""

from __future__ import annotations

import heapq
import random
from typing import Final

MAX_QUEUE_S: Final = 0.25  # with a rate set, what would wait longer is dropped
OTHER: Final = {"a": "b", "b": "a"}


class Line:
    """Two directions, from "a" to "b" and back. All faults are plain attributes.

    `delay_s` is added each way and up to `jitter_s` more by chance, which reorders;
    `loss` and `dup` are the shares of packets dropped and sent twice; `rate` is bit/s
    each way, 0 for no limit; `cut_ab` and `cut_ba` drop all, one way only. `carried`
    counts the packets put in, `dropped` those of them that go no further.

    >>> line = Line()
    >>> line.delay_s = 0.5
    >>> line.put("a", b"hello", now=1.0)
    >>> line.arrivals(now=1.4), line.next_due, line.arrivals(now=1.5)
    ([], 1.5, [('b', b'hello')])
    """

    def __init__(self, seed: int | None = None) -> None:
        """Start with a perfect line; `seed` makes chance repeatable."""
        self.delay_s = self.jitter_s = self.loss = self.dup = self.rate = 0.0
        self.cut_ab = self.cut_ba = False
        self.carried = self.dropped = 0
        self._random = random.Random(seed)
        self._queue: list[tuple[float, int, str, bytes]] = []  # due, order, to, packet
        self._order = 0
        self._free_at = dict.fromkeys(OTHER, 0.0)  # when all that was given is sent

    def put(self, end: str, packet: bytes, now: float) -> None:
        """Take a packet that leaves `end` now, in seconds."""
        self.carried += 1
        is_cut = self.cut_ab if end == "a" else self.cut_ba
        due = self._due(end, len(packet), now)
        if is_cut or due is None or self._random.random() < self.loss:
            self.dropped += 1
            return
        for _ in range(2 if self._random.random() < self.dup else 1):
            heapq.heappush(self._queue, (due, self._order, OTHER[end], packet))
            self._order += 1

    @property
    def next_due(self) -> float | None:
        """When the next packet arrives, None when none is under way."""
        return self._queue[0][0] if self._queue else None

    def arrivals(self, now: float) -> list[tuple[str, bytes]]:
        """Return the packets that have arrived since, each with the end it came to."""
        found = []
        while self._queue and self._queue[0][0] <= now:
            _, _, end, packet = heapq.heappop(self._queue)
            found.append((end, packet))
        return found

    def _due(self, end: str, n_bytes: int, now: float) -> float | None:
        """When a packet arrives, None if the line's queue is full."""
        sent = now
        if self.rate:
            sent = max(self._free_at[end], now) + n_bytes * 8 / self.rate
            if sent - now > MAX_QUEUE_S:
                return None
            self._free_at[end] = sent
        return sent + self.delay_s + self._random.random() * self.jitter_s
