"""One process of the round trip comparison: `python -m benchmarks.roundtrip_rank`.

Arguments: rank, number of ranks (2), system. Rank 0 asks and takes the times, rank 1
answers. What is asked is answered with as much, up to `_SMALL` bytes; of more, the
answer is one number out of it, so that the time is that of one way.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from benchmarks.rank_group import obey
from kit.session.transport import serialization
from kit.task import Task
from kit.wire import Bounds, FrameKind, Link, Role
from kit.wire.handshake.tls import make_stream
from kit.wire.local.loan import open_loans

Bytes = npt.NDArray[np.uint8]

_SMALL: Final = 4096
_DEADLINE_S: Final = 60.0
_MOST: Final = 2**30


class Socket:
    """The limit: a plain blocking socket, into one buffer that is used again."""

    def __init__(self, rank: int, sock: socket.socket) -> None:
        self._socket, self._room = sock, bytearray()

    def put(self, data: Bytes) -> None:
        self._socket.sendall(data.data)

    def get(self, n_bytes: int) -> Bytes:
        if len(self._room) != n_bytes:
            self._room = bytearray(n_bytes)
        view, done = memoryview(self._room), 0
        while done < n_bytes:
            done += self._socket.recv_into(view[done:])
        return np.frombuffer(self._room, np.uint8)

    def close(self) -> None:
        self._socket.close()


class OfLink:
    """What the systems over a link share."""

    def __init__(self, rank: int, sock: socket.socket) -> None:
        tasks = Task("client", 0), Task("worker", 0)
        self._link = Link(
            make_stream(sock, "unix", f"rank {1 - rank}"),
            local=tasks[rank],
            peer=tasks[1 - rank],
            role=Role.CONTROL,
            bounds=Bounds(cluster=7, max_length=_MOST),
        )

    def close(self) -> None:
        self._link.close()


class Frames(OfLink):
    """Bytes in a frame."""

    def put(self, data: Bytes) -> None:
        self._link.send(data.data, deadline_s=_DEADLINE_S, kind=FrameKind.DATA)

    def get(self, n_bytes: int) -> Bytes:
        return np.frombuffer(self._link.recv(deadline_s=_DEADLINE_S)[1], np.uint8)


class Messages(OfLink):
    """A small dict as JSON, with the bytes behind it."""

    def put(self, data: Bytes) -> None:
        self._link.send_message({"op": "x"}, data.data, deadline_s=_DEADLINE_S)

    def get(self, n_bytes: int) -> Bytes:
        _, blob = self._link.recv_message(deadline_s=_DEADLINE_S)
        return np.frombuffer(blob, np.uint8)


class Arrays(OfLink):
    """An array in a session message, without plain data beside it."""

    lend: serialization.Lend | None = None
    borrow: serialization.Borrow | None = None

    def put(self, data: Bytes) -> None:
        parts = serialization.pack({}, [data], self.lend)
        self._link.send(*parts, deadline_s=_DEADLINE_S, kind=FrameKind.DATA)

    def get(self, n_bytes: int) -> Bytes:
        _, body = self._link.recv(deadline_s=_DEADLINE_S)
        return serialization.unpack(body, self.borrow)[1][0]


class Loans(Arrays):
    """The same, with large arrays in lent memory."""

    def __init__(self, rank: int, sock: socket.socket) -> None:
        super().__init__(rank, sock)
        deadline = time.monotonic() + _DEADLINE_S
        lender, borrower = open_loans(self._link.stream, deadline)
        self.lend, self.borrow = lender.lend, borrower.borrow


SYSTEMS: dict[str, type[Socket | Frames | Messages | Arrays]] = {
    "socket": Socket,
    "frames": Frames,
    "messages": Messages,
    "arrays": Arrays,
    "loans": Loans,
}


class Rank:
    """One side of one system."""

    def __init__(self, rank: int, system: str) -> None:
        fds = [int(fd) for fd in os.environ["BENCH_PEERS"].split(",")]
        self._rank = rank
        self._system = SYSTEMS[system](rank, socket.socket(fileno=fds[1 - rank]))

    def close(self) -> None:
        """Close the connection."""
        self._system.close()

    def measure(self, n_bytes: int, repeats: int) -> list[float]:
        """Return the microseconds of each round trip, at the side that asks."""
        if self._rank == 1:
            for _ in range(repeats):
                came = self._system.get(n_bytes)
                self._system.put(came if n_bytes <= _SMALL else came[-8:])
            return []
        data = np.zeros(n_bytes, np.uint8)
        answer_size = n_bytes if n_bytes <= _SMALL else 8
        took = []
        for repeat in range(repeats):
            data[-8:] = repeat % 251
            began = time.perf_counter_ns()
            self._system.put(data)
            answer = self._system.get(answer_size)
            took.append((time.perf_counter_ns() - began) / 1000)
            if not np.array_equal(answer, data[-answer_size:]):
                raise ValueError(f"{n_bytes} bytes came back as {answer}")
        return took

    def copy(self, n_bytes: int, repeats: int) -> list[float]:
        """Return the microseconds of copying so much within a process."""
        source, target = np.ones(n_bytes, np.uint8), np.empty(n_bytes, np.uint8)
        took = []
        for _ in range(repeats * (1 - self._rank)):
            began = time.perf_counter_ns()
            np.copyto(target, source)
            took.append((time.perf_counter_ns() - began) / 1000)
        return took


def main() -> None:
    rank, _, system = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    first = Rank(rank, system)
    handlers: dict[str, Callable[..., Any]] = {
        "measure": first.measure,
        "copy": first.copy,
    }
    obey(rank, handlers)


if __name__ == "__main__":
    main()
