"""A stream of bytes between two tasks, and how to wait on one with a deadline.

`Stream` is the seam: shared-memory control, unix, TCP, TLS and the in-memory streams of
the tests all look like this. Nothing here opens one, and nothing here knows frames.

Deadlines are points in time on the given clock, in seconds, so that one deadline covers
several waits. A stream may hold bytes that `poll` does not see (TLS decrypts a whole
record at a time), so each function here tries first, and polls only if it must.
"""

from __future__ import annotations

import math
import select
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol, runtime_checkable

from kit.errors import DeadlineExceededError
from kit.wire.frame import Buffer

Clock = Callable[[], float]

AES_GCM: Final = "aes-gcm"
MPI: Final = "mpi"
ENCRYPTED: Final = ("tls", AES_GCM)
OVER_TCP: Final = ("tcp", *ENCRYPTED)  # kinds of streams

# How long a `PatientStream` waits by itself. A nearer deadline cannot be left to it;
# and a thread that waits for longer than this can afford the calls of a poll.
PATIENCE_S: Final = 0.02

# One poll never waits longer; poll() takes milliseconds in 32 bits.
_LONGEST_POLL_S = 3600.0


class Stream(Protocol):
    """Bytes both ways, never blocking.

    Every method raises `LinkLost` when the connection is broken. One thread may read
    while another writes.
    """

    @property
    def kind(self) -> str:
        """One of `unix`, `tcp`, `tls`, `aes-gcm`, `mpi`, `memory`."""

    @property
    def peer(self) -> str:
        """The other end's address, for messages."""

    def fileno(self) -> int:
        """Return the descriptor to poll, -1 once closed."""

    def read_into(self, view: memoryview) -> int | None:
        """Fill the front of a non-empty `view`.

        Returns how many bytes came, 0 at the end of the stream, None if there are none
        yet.
        """

    def write(self, buffers: Sequence[Buffer]) -> int | None:
        """Take some of the bytes of `buffers`; return how many, None for none now.

        After None the next call must offer the same bytes again: TLS has sealed them.
        """

    def shutdown(self) -> None:
        """Wake threads that wait at either end; the descriptor stays until `close`."""

    def close(self) -> None:
        """Give the descriptor back. May be called twice."""


class ParallelStreams:
    """Several streams between two tasks as one, for a port that uses each of them.

    As a stream it is the first of them; it ends when all do.
    """

    def __init__(self, streams: Sequence[Stream]) -> None:
        """Own the streams; at the other end they have the same order."""
        self.streams = tuple(streams)
        self.kind, self.peer = streams[0].kind, streams[0].peer
        self.fileno, self.write = streams[0].fileno, streams[0].write
        self.read_into = streams[0].read_into

    def shutdown(self) -> None:
        """See `Stream`."""
        for stream in self.streams:
            stream.shutdown()

    def close(self) -> None:
        """See `Stream`."""
        for stream in self.streams:
            stream.close()


def parallel(stream: Stream) -> tuple[Stream, ...]:
    """Return the streams of one that has several, or itself."""
    return stream.streams if isinstance(stream, ParallelStreams) else (stream,)


@runtime_checkable
class PatientStream(Stream, Protocol):
    """A stream that can also wait by itself: one system call, not three."""

    def read_waiting(self, view: memoryview) -> int | None:
        """Read as `read_into` does, after a wait of up to `PATIENCE_S`."""

    def write_waiting(self, buffers: Sequence[Buffer]) -> int | None:
        """Write as `write` does, after some waits of up to `PATIENCE_S`."""


def wait_ready(
    stream: Stream, events: int, deadline: float, clock: Clock = time.monotonic
) -> None:
    """Block until one of the poll `events`, or an error, which the next try will meet.

    Raises `DeadlineExceededError` naming the stream and what was awaited.
    """
    poll = select.poll()
    fd = stream.fileno()
    if fd < 0:
        return  # closed: the next read or write says so
    poll.register(fd, events)
    while True:
        remaining = deadline - clock()
        if remaining <= 0:
            verb = "send" if events == select.POLLIN else "read"
            raise DeadlineExceededError(
                f"{stream.peer} did not {verb} in time on this {stream.kind} stream. "
                f"If the peer is only slow, allow a longer deadline."
            )
        if poll.poll(math.ceil(min(remaining, _LONGEST_POLL_S) * 1000)):
            return


def read_some(
    stream: Stream, view: memoryview, deadline: float, clock: Clock = time.monotonic
) -> int:
    """Wait for bytes and return how many are now in the front of `view`, 0 at the end.

    A `DeadlineExceededError` from here means that nothing was consumed.
    """
    while (n_bytes := stream.read_into(view)) is None:
        wait_ready(stream, select.POLLIN, deadline, clock)
    return n_bytes


def write_all(
    stream: Stream,
    buffers: Sequence[Buffer],
    deadline: float,
    clock: Clock = time.monotonic,
) -> None:
    """Write all of `buffers`, one after the other, without joining them.

    Raises `LinkLost` or `DeadlineExceededError`; some bytes may have gone out by
    then, so the stream cannot be used any more.
    """
    rest = [memoryview(buffer).cast("B") for buffer in buffers if len(buffer)]
    write = stream.write
    while rest:
        n_bytes = write(rest)
        if n_bytes is None:
            wait_ready(stream, select.POLLOUT, deadline, clock)
        else:
            rest = _without(rest, n_bytes)
        # Only after the first try: mostly everything fits into the kernel's buffer, and
        # the cheaper call without a wait does it. Then the kernel does the waiting.
        if rest and isinstance(stream, PatientStream):
            is_far = deadline - clock() > PATIENCE_S
            write = stream.write_waiting if is_far else stream.write


def write_joined(
    stream: Stream,
    buffers: Sequence[Buffer],
    deadline: float,
    clock: Clock = time.monotonic,
) -> None:
    """Write small `buffers` in one piece; the rest, if any, as `write_all` does."""
    whole = b"".join(buffers)
    n_bytes = stream.write((whole,))
    if n_bytes != len(whole):
        write_all(stream, (memoryview(whole)[n_bytes or 0 :],), deadline, clock)


def _without(views: list[memoryview], n_bytes: int) -> list[memoryview]:
    """Return `views` less their first `n_bytes` bytes."""
    for number, view in enumerate(views):
        if n_bytes < len(view):
            return [view[n_bytes:], *views[number + 1 :]]
        n_bytes -= len(view)
    return []


def front(buffers: Sequence[Buffer], n_bytes: int) -> bytes:
    """Return the first `n_bytes` bytes of `buffers`, or all when there are less.

    >>> front([b"abc", b"", b"defg"], 5)
    b'abcde'
    """
    taken = bytearray()
    for buffer in buffers:
        if len(taken) == n_bytes:
            break
        taken += memoryview(buffer)[: n_bytes - len(taken)]
    return bytes(taken)
