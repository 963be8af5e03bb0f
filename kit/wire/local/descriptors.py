"""File descriptors handed to a neighbour on the same host, over a unix stream.

This is how a task gives its arena to another one. A transfer is one byte, the number of
descriptors, with the descriptors beside it. It comes between two frames: the receiver
knows from the frame before that it follows, and how many descriptors it brings.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Sequence
from typing import Final

from kit.errors import InvalidArgumentError, ProtocolError
from kit.wire.sockets import SocketStream
from kit.wire.stream import Clock, Stream, wait_ready

MOST_DESCRIPTORS: Final = 64  # the kernel's own limit is 253 (unix(7))


def send_fds(
    stream: Stream,
    fds: Sequence[int],
    deadline: float,
    clock: Clock = time.monotonic,
) -> None:
    """Send 1 to 64 descriptors; they stay open here, the receiver gets its own.

    Raises `InvalidArgumentError` for another number or a stream that cannot carry them,
    `LinkLost` or `DeadlineExceededError`.
    """
    unix = _over_unix(stream, len(fds))
    while not unix.send_rights(bytes([len(fds)]), fds):
        wait_ready(stream, select.POLLOUT, deadline, clock)


def recv_fds(
    stream: Stream, n_fds: int, deadline: float, clock: Clock = time.monotonic
) -> list[int]:
    """Receive exactly `n_fds` descriptors, close-on-exec; the caller must close them.

    Raises `ProtocolError` for any other number, after closing everything that came.
    """
    unix = _over_unix(stream, n_fds)
    # Room for one more than expected, so that a surplus is noticed. What does not fit
    # even there, the kernel closes: no descriptor is left open here unseen.
    while (came := unix.recv_rights(1, n_fds + 1)) is None:
        wait_ready(stream, select.POLLIN, deadline, clock)
    note, fds = came
    if note == bytes([n_fds]) and len(fds) == n_fds:
        return fds
    for fd in fds:
        os.close(fd)
    raise ProtocolError(
        f"{stream.peer} sent {len(fds)} descriptors beside the bytes {note!r}, where "
        f"{n_fds} were expected. Drop this connection."
    )


def _over_unix(stream: Stream, n_fds: int) -> SocketStream:
    if (
        isinstance(stream, SocketStream)
        and stream.kind == "unix"
        and 1 <= n_fds <= MOST_DESCRIPTORS
    ):
        return stream
    raise InvalidArgumentError(
        f"{n_fds} descriptors cannot travel over the {stream.kind} stream to "
        f"{stream.peer}: 1 to {MOST_DESCRIPTORS} can, over a unix stream."
    )
