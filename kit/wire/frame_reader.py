"""Whole frames out of a stream, with as few system calls and sleeps as possible.

It reads ahead: header, small payload and whatever else has come are one read. It must
not do so where what follows a frame may be meant for another reader (a data path, or
descriptors): there it reads header and payload separately.

Waking a sleeping thread takes the kernel longer (30 to 60 us) than the peer takes to
answer. So a reader whose last wait was short polls for a while before it sleeps, and
after each try yields to other threads that want this core. With more tasks than cores
that costs nothing: measured with 4 processes in a chain on 2 cores, a round trip
through all takes 36 us, against 90 asleep and 320 without yielding.
"""

from __future__ import annotations

import os
from time import perf_counter_ns
from typing import Final

from kit.errors import LinkLost, ProtocolError
from kit.wire.frame import SIZE, Bounds, Header, unpack, verify
from kit.wire.stream import (
    PATIENCE_S,
    Clock,
    PatientStream,
    Stream,
    read_some,
)

_AHEAD: Final = 16_384

# Polling for as long as a wake-up takes costs at most twice the best choice, whenever
# the answer comes: either it comes meanwhile, or the wake-up costs as much again.
_LOOKING_NS: Final = 50_000
# After a longer wait the next one will be long as well, and polling only burns the
# core.
_SHORT_NS: Final = 200_000


class FrameReader:
    """The receiving half of a link, for one thread at a time; owns nothing.

    `received` counts the frames; the next one must have this number.
    """

    def __init__(
        self, stream: Stream, bounds: Bounds, clock: Clock, *, ahead: bool
    ) -> None:
        self.received = 0
        self._stream, self._bounds, self._clock = stream, bounds, clock
        self._waiting = stream if isinstance(stream, PatientStream) else None
        self._room = bytearray(_AHEAD if ahead else SIZE)
        self._view = memoryview(self._room)
        # What has been read and not handed out yet: `_room` from `_at` to `_end`.
        self._at = self._end = 0
        self._last_wait_ns = _SHORT_NS

    @property
    def has_begun(self) -> bool:
        """Whether some bytes of the next frame are here."""
        return self._at < self._end

    def begin(self, deadline: float) -> bool:
        """Wait for the first bytes of a frame; False if the stream has ended.

        A `DeadlineExceededError` from here means that nothing was consumed.
        """
        self._at, self._end = 0, self._read(self._view, deadline)
        return self._end > 0

    def take(self, deadline: float) -> tuple[Header, bytearray]:
        """Return the frame that has begun.

        Raises `ProtocolError` for one that cannot be right, before memory is taken for
        its payload, and `LinkLost` or `DeadlineExceededError` if it stops half-way; the
        stream cannot be used any more then.
        """
        # The head first moves to the front of the room, so that it always fits, however
        # often the reader has come close to the end of the room.
        if self._end - self._at < SIZE:
            rest = self._room[self._at : self._end]
            self._room[: len(rest)] = rest
            self._at, n_bytes = 0, len(rest)
            self._end = self._fill(self._view, n_bytes, SIZE, deadline)
        begin = self._at + SIZE
        head = self._view[self._at : begin]
        header = unpack(head, bounds=self._bounds)
        if header.sequence != self.received:
            raise ProtocolError(
                f"frame {header.sequence} came where {self.received} was due: one is "
                f"missing or sent again."
            )
        end = begin + header.length
        if end <= self._end:
            body = self._room[begin:end]
        else:
            # Large: what is missing is read straight into the payload's own memory, and
            # not a byte more, so nothing of the next frame is here afterwards.
            body = bytearray(header.length)
            n_here = self._end - begin
            body[:n_here] = self._view[begin : self._end]
            self._fill(memoryview(body), n_here, header.length, deadline)
            end = self._end
        verify(head, header, body)
        # Only now: a frame that was refused is not counted, nor is it ever read again.
        self._at = end
        self.received += 1
        return header, body

    def _fill(self, view: memoryview, begin: int, least: int, deadline: float) -> int:
        """Read into `view` from `begin` on, until it holds `least`; return how many."""
        while begin < least:
            came = self._read(view[begin:], deadline)
            if came == 0:
                raise LinkLost(
                    f"{self._stream.peer} closed the connection after {begin} of "
                    f"{least} bytes; look at its log for the reason."
                )
            begin += came
        return begin

    def _read(self, view: memoryview, deadline: float) -> int:
        """Do as `read_some` does: poll for a while, if that pays, and then sleep."""
        # The kernel's own wait cannot be cut short: near its end `poll` keeps the
        # deadline.
        if deadline - self._clock() <= PATIENCE_S:
            return read_some(self._stream, view, deadline, self._clock)
        began = perf_counter_ns()
        n_bytes = None
        if self._last_wait_ns < _SHORT_NS:
            n_bytes = self._look(view, began + _LOOKING_NS)
        if n_bytes is None and self._waiting is not None:
            n_bytes = self._waiting.read_waiting(view)
        if n_bytes is None:
            n_bytes = read_some(self._stream, view, deadline, self._clock)
        self._last_wait_ns = perf_counter_ns() - began
        return n_bytes

    def _look(self, view: memoryview, until: int) -> int | None:
        read = self._stream.read_into
        while (n_bytes := read(view)) is None and perf_counter_ns() < until:
            os.sched_yield()
        return n_bytes
