"""The links of an exchange over TCP, opened as a training on several hosts opens them.

Every rank listens on the loopback interface, dials the ranks below it and waits for
those above it: through the directory, the acceptor, the handshake and the streams that
tasks use, with TLS 1.3 and what follows it where the credentials hold a certificate.
"""

from __future__ import annotations

import select
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Condition
from typing import Any

import numpy as np

from benchmarks.rank_group import START_S, RankGroup
from kit.errors import DeadlineExceededError
from kit.server.directory import Directory
from kit.settings import Settings
from kit.task import Task
from kit.wire.frame import cluster_number
from kit.wire.handshake.credentials import Credentials
from kit.wire.handshake.messages import Role
from kit.wire.link import Link
from kit.wire.listening.acceptor import Acceptor
from kit.wire.listening.address import TcpAddress
from kit.wire.listening.listener import listen
from kit.wire.stream import AES_GCM, ENCRYPTED, Stream

_JOB = "bench"
_SETTINGS = Settings(transport="tcp")  # never the unix socket beside a port
_PIECE = 512 * 1024  # offered to a stream at once
_LOOK_MS = 20
_NO_FOLDER = Path("/nonexistent")  # where that socket would be


def introduce(
    ranks: RankGroup,
    transport: str,
    *,
    checksum: bool = True,
    pumps: bool | None = None,
    **more: Any,
) -> None:
    """Let the ranks of a rank group listen, and tell each one where the others are.

    `checksum`: whether the frames of an exchange carry one. `pumps`: whether its links
    have threads of their own; None: as a task decides it. `more` is for what listens.
    """
    secrets = Credentials.new(certificate=transport in ENCRYPTED).to_plain()
    encryption = "tls" if transport == "tls" else AES_GCM
    addresses = ranks.order(
        do="listen",
        credentials=secrets,
        checksum=checksum,
        encryption=encryption,
        pumps=pumps,
        **more,
    )
    ranks.order(do="meet", addresses=addresses)


class Door:
    """Where one rank listens, and how it reaches the others."""

    def __init__(
        self,
        rank: int,
        credentials: Mapping[str, object],
        *,
        checksum: bool = True,
        encryption: str = AES_GCM,
        pumps: bool | None = None,
    ) -> None:
        """Listen on a free port of the loopback interface; `address` tells which."""
        self.checksum, self.pumps = checksum, pumps
        self._credentials = Credentials.from_plain(credentials)
        self._me = Task(_JOB, rank)
        self._settings = _SETTINGS.replace(encryption=encryption)
        self._addresses: dict[Task, str] = {}
        self._run = 0
        self._arrived: dict[tuple[bytes, Task], Link] = {}
        self._changed = Condition()
        listener = listen(TcpAddress("127.0.0.1", 0), credentials=self._credentials)
        self.address = str(listener.address)
        self._acceptor = Acceptor(
            *([listener], self._credentials, self._me, self._take),
            encryption=encryption,
        )

    @property
    def cluster(self) -> int:
        """What frames carry to tell clusters apart."""
        return cluster_number(self._credentials.cluster_id)

    def meet(self, addresses: Sequence[str]) -> None:
        """Learn where all ranks listen."""
        self._addresses = {Task(_JOB, n): item for n, item in enumerate(addresses)}

    def open(self) -> dict[int, Stream]:
        """Return a new stream to every other rank; all ranks call this together.

        Raises `DeadlineExceededError` naming a rank that does not come.
        """
        self._run += 1
        deadline = time.monotonic() + START_S
        return {
            task.index: self._link(task, deadline).stream
            for task in self._addresses
            if task != self._me
        }

    def close(self) -> None:
        """Stop listening."""
        self._acceptor.close()

    def _link(self, task: Task, deadline: float) -> Link:
        run = f"{self._run:032x}"
        if task.index > self._me.index:
            return self._await(bytes.fromhex(run), task, deadline)
        directory = Directory(
            self._addresses, self._credentials, _NO_FOLDER, self._settings
        )
        return directory.reach(
            task, self._me, Role.DATA, run, deadline=deadline, check=lambda: None
        )

    def _await(self, run: bytes, task: Task, deadline: float) -> Link:
        with self._changed:
            if not self._changed.wait_for(
                lambda: (run, task) in self._arrived, deadline - time.monotonic()
            ):
                raise DeadlineExceededError(
                    f"{task} did not open its link to {self._me} within {START_S:g} s; "
                    f"see what its process said.",
                    task=str(task),
                )
            return self._arrived.pop((run, task))

    def _take(self, link: Link) -> None:
        with self._changed:
            self._arrived[link.run_id, link.peer] = link
            self._changed.notify_all()


class Flow:
    """The limit: the bytes of a ring go through the same streams, nothing is summed.

    A rank sends as many bytes to the next one as a ring all-reduce does, and takes as
    many from the one before: 2(n-1)/n of its array. Nothing is framed or checked.
    """

    def __init__(self, rank: int, n_ranks: int, n_bytes: int, door: Door) -> None:
        """Join the others through the `door`."""
        self._streams = door.open()
        self._after = self._streams[(rank + 1) % n_ranks]
        self._before = self._streams[(rank - 1) % n_ranks]
        self._n_bytes = 2 * (n_ranks - 1) * n_bytes // n_ranks
        self.array: Any = np.zeros(n_bytes // 4, np.float32)
        self._taken = np.zeros_like(self.array)

    def call(self) -> None:
        """Send and take all bytes, each array from its beginning again at its end."""
        source, target = memoryview(self.array).cast("B"), self._taken.data.cast("B")
        sent = taken = 0
        while sent < self._n_bytes or taken < self._n_bytes:
            wrote = read = None
            if sent < self._n_bytes:
                wrote = self._after.write([_piece(source, sent, self._n_bytes)])
            if taken < self._n_bytes:
                read = self._before.read_into(_piece(target, taken, self._n_bytes))
            sent, taken = sent + (wrote or 0), taken + (read or 0)
            if wrote is None and read is None:
                self._wait(sent < self._n_bytes, taken < self._n_bytes)

    def values(self) -> Any:
        """Return what came from the rank before."""
        return self._taken

    def close(self) -> None:
        """Close the streams."""
        for stream in self._streams.values():
            stream.close()

    def _wait(self, sends: bool, takes: bool) -> None:
        events: dict[int, int] = {}
        if sends:
            events[self._after.fileno()] = select.POLLOUT
        if takes:
            fd = self._before.fileno()
            events[fd] = events.get(fd, 0) | select.POLLIN
        poll = select.poll()
        for fd, wanted in events.items():
            poll.register(fd, wanted)
        poll.poll(_LOOK_MS)


def _piece(whole: memoryview, at: int, end: int) -> memoryview:
    begin = at % len(whole)
    return whole[begin : min(begin + _PIECE, begin + end - at)]
