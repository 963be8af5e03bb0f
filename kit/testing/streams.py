"""Streams for tests: a pair in memory, and one that yields a byte at a time.

Both satisfy `kit.wire.Stream`, so code under test cannot tell them from sockets. They
never fill up: a write always succeeds. Tests of a peer that does not read need a
socket.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from kit.errors import LinkLost
from kit.system import Bell, ring
from kit.wire.frame import Buffer
from kit.wire.stream import Stream, front

# A single write takes no more than this, so that writers meet partial writes here too.
_MOST_AT_ONCE = 1_000_003


def memory_pair(names: tuple[str, str] = ("left", "right")) -> tuple[Stream, Stream]:
    """Return the two ends of a connection that lives in this process.

    Parameters
    ----------
    names : (str, str), default ("left", "right")
        What the ends are called; each has the other's as its `peer`.

    Examples
    --------
    >>> left, right = memory_pair()
    >>> left.write([b"hel", b"lo"])
    5
    >>> room = bytearray(9)
    >>> right.read_into(memoryview(room)), bytes(room[:5])
    (5, b'hello')
    >>> left.close(); right.read_into(memoryview(room)); right.close()
    0
    """
    ends = (_Inbox(), _Inbox())
    return (
        MemoryStream(*ends, peer=names[1]),
        MemoryStream(*reversed(ends), peer=names[0]),
    )


class _Inbox:
    """What one end was sent; its descriptor is readable while there is something."""

    def __init__(self) -> None:
        self.bytes = bytearray()
        self.is_ended = False
        self.lock = threading.Lock()
        self.bell = Bell()

    def put(self, data: bytes) -> bool:
        """Add data, or the end if there is none; False when the inbox has ended."""
        with self.lock:
            if self.is_ended:
                return False
            was_ready = bool(self.bytes)
            self.bytes += data
            self.is_ended = not data
            if not was_ready:
                ring(self.bell.handle)
            return True

    def take(self, view: memoryview) -> int | None:
        with self.lock:
            n_bytes = min(len(view), len(self.bytes))
            view[:n_bytes] = self.bytes[:n_bytes]
            del self.bytes[:n_bytes]
            if n_bytes and not self.bytes and not self.is_ended:
                self.bell.answer()
            return n_bytes if n_bytes or self.is_ended else None


class MemoryStream:
    """One end of a `memory_pair`."""

    kind = "memory"

    def __init__(self, inbox: _Inbox, outbox: _Inbox, *, peer: str) -> None:
        self.peer = peer
        self._inbox, self._outbox = inbox, outbox
        self._is_closed = False

    def fileno(self) -> int:
        """Return a descriptor that is readable when bytes or the end are there."""
        return -1 if self._is_closed else self._inbox.bell.fd

    def read_into(self, view: memoryview) -> int | None:
        """See `Stream.read_into`."""
        if self._is_closed:
            raise LinkLost(f"the stream to {self.peer} is closed on this side.")
        return self._inbox.take(view)

    def write(self, buffers: Sequence[Buffer]) -> int | None:
        """See `Stream.write`; never None."""
        data = front(buffers, _MOST_AT_ONCE)
        if self._is_closed or (data and not self._outbox.put(data)):
            raise LinkLost(f"the stream to {self.peer} has ended; nothing was sent.")
        return len(data)

    def shutdown(self) -> None:
        """See `Stream.shutdown`."""
        self._inbox.put(b"")
        self._outbox.put(b"")

    def close(self) -> None:
        """See `Stream.close`."""
        if not self._is_closed:
            self.shutdown()
            self._is_closed = True
            self._inbox.bell.close()


def sliced(stream: Stream, n_bytes: int = 1) -> Stream:
    """Return a stream that reads and writes a few bytes at a time; it owns `stream`.

    A reader that works on it does not rely on frames arriving whole.

    Parameters
    ----------
    stream : Stream
        One end of a connection, taken over.
    n_bytes : int, default 1
        How many bytes a read or write moves at most.
    """
    return _Sliced(stream, n_bytes)


class StreamAround:
    """A stream that passes all calls on to another one, which it owns."""

    def __init__(self, stream: Stream) -> None:
        """Take the stream over."""
        self._stream = stream
        self.kind, self.peer = stream.kind, stream.peer

    def fileno(self) -> int:
        """See `Stream`, as for all methods below."""
        return self._stream.fileno()

    def read_into(self, view: memoryview) -> int | None:
        """See `Stream.read_into`."""
        return self._stream.read_into(view)

    def write(self, buffers: Sequence[Buffer]) -> int | None:
        """See `Stream.write`."""
        return self._stream.write(buffers)

    def shutdown(self) -> None:
        """See `Stream.shutdown`."""
        self._stream.shutdown()

    def close(self) -> None:
        """See `Stream.close`."""
        self._stream.close()


class _Sliced(StreamAround):
    def __init__(self, stream: Stream, n_bytes: int) -> None:
        super().__init__(stream)
        self._n_bytes = n_bytes

    def read_into(self, view: memoryview) -> int | None:
        return self._stream.read_into(view[: self._n_bytes])

    def write(self, buffers: Sequence[Buffer]) -> int | None:
        return self._stream.write([front(buffers, self._n_bytes)])
