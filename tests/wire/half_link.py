"""A link of which one end is bytes: what it reads, a test has laid out."""

from __future__ import annotations

import time
from typing import Any

from kit.task import Task
from kit.testing.streams import StreamAround, memory_pair
from kit.wire import Bounds, FrameKind, Header, Link, Role
from kit.wire.frame import CHECKSUM, pack
from kit.wire.stream import write_all

WORKER, PS = Task("worker", 1), Task("ps", 0)
BOUNDS = Bounds(cluster=7, max_length=100_000)


class Counted(StreamAround):
    """A stream that counts its reads and can wait, though it never does."""

    calls: list[str]

    def read_into(self, view: memoryview) -> int | None:
        self.calls.append("look")
        return super().read_into(view)

    def read_waiting(self, view: memoryview) -> int | None:
        self.calls.append("wait")
        return super().read_into(view)

    write_waiting = StreamAround.write


def frame(sequence: int, payload: bytes = b"") -> bytes:
    header = Header(
        FrameKind.CONTROL, CHECKSUM, 7, sequence=sequence, length=len(payload)
    )
    return pack(header, payload) + payload


class HalfLink:
    """One end of a connection as bytes, the other as the link of a server."""

    def __init__(self, role: Role = Role.CONTROL, **options: Any) -> None:
        self.near, far = memory_pair(("worker", "ps"))
        self.stream = Counted(far)
        self.stream.calls = []
        self.link = Link(
            self.stream, local=PS, peer=WORKER, role=role, bounds=BOUNDS, **options
        )

    def put(self, *data: bytes) -> None:
        write_all(self.near, data, time.monotonic() + 5)

    def close(self) -> None:
        self.link.close()
        self.near.close()
