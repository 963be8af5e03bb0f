"""What a run did: which op ran where and when, and which tensors moved.

Pure. Times are seconds of each task's monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from kit.session.step import Records


class NodeRecord(NamedTuple):
    """One op's execution: its name, its device, begin and end in seconds."""

    node: str
    device: str
    begin: float
    end: float


class TransferRecord(NamedTuple):
    """One tensor's way: name, source and destination task, bytes, begin and end."""

    tensor: str
    source: str
    destination: str
    n_bytes: int
    begin: float
    end: float


@dataclass
class RunMetadata:
    """Filled by `session.run(..., metadata=...)`."""

    nodes: list[NodeRecord] = field(default_factory=list)
    transfers: list[TransferRecord] = field(default_factory=list)

    def fill(self, records: Records) -> None:
        """Take what the tasks noted in place of what was here."""
        self.nodes = [NodeRecord(*one) for one in records.nodes]
        self.transfers = [TransferRecord(*one) for one in records.transfers]
