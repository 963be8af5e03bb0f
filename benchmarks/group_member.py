"""A rank of a comparison that is a task of a group: `kit.group().all_reduce` on TCP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import kit
from kit import machine
from kit.settings import Settings
from kit.wire.handshake.credentials import Credentials

_JOB = "bench"
_MANY = 1 << 10  # cores


class GroupDoor:
    """A server, and the group of those of all ranks."""

    def __init__(
        self,
        rank: int,
        credentials: Mapping[str, object],
        *,
        checksum: bool,
        encryption: str,
        pumps: bool,
        streams: int,
    ) -> None:
        """Listen on a free port of the loopback interface; `address` tells which."""
        machine.cores = lambda groups=None: _MANY if pumps else 1
        own = Credentials.from_plain(credentials)
        self.server = kit.Server(
            {_JOB: {rank: "127.0.0.1:0"}},
            credentials=own,
            settings=Settings(
                transport="tcp",
                checksum=checksum,
                encryption=encryption,
                streams=streams,
                insecure=not own.has_certificate,
            ),
        )
        self.address = str(self.server.address)

    def meet(self, addresses: Sequence[str]) -> None:
        """Learn where all ranks listen, and make the group."""
        self.server.connect({_JOB: list(addresses)})
        self.group = kit.group(cluster=self.server)

    def close(self) -> None:
        """Close the group, and stop the server."""
        self.group.close()
        self.server.stop()


class OfGroup:
    """Sums an array in place, by calls of a group."""

    def __init__(self, n_ranks: int, n_bytes: int, door: GroupDoor) -> None:
        """Make the array."""
        self._group, self._n = door.group, n_ranks
        self.array: Any = np.zeros(n_bytes // 4, np.float32)

    def call(self) -> None:
        """Exchange it."""
        self._group.all_reduce(self.array, out=self.array)

    def values(self) -> Any:
        """Return the mean."""
        return self.array / np.float32(self._n)

    def close(self) -> None:
        """Leave the group for the next size."""
