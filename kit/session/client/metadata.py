"""What a run did: which op ran where and when, and which tensors moved.

Pure. Times are seconds of each task's monotonic clock, which is the same for all tasks
of one machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kit.session.worker.step import Records
from kit.task import Task
from kit.trace.log import rows
from kit.trace.named_rows import EpochRow
from kit.trace.trace import Trace
from kit.trace.traffic import SPAN, TOTAL, TRANSFER, Phase, TransferKind

_NS = 1_000_000_000


class NodeRecord(NamedTuple):
    """One op's execution: its name, its device, begin and end in seconds."""

    node: str
    device: str
    begin: float
    end: float


class TransferRecord(NamedTuple):
    """One tensor's way: name, source and destination task, bytes, begin and end.

    It is noted once, by the task that received it. A control edge's name begins with
    `^`, and it has no bytes.
    """

    tensor: str
    source: str
    destination: str
    n_bytes: int
    begin: float
    end: float


@dataclass
class RunMetadata:
    """What a run did, filled by `session.run(..., metadata=...)`.

    Attributes
    ----------
    nodes : list of NodeRecord
        One for each op that ran: its name, its device, begin and end in seconds.
    transfers : list of TransferRecord
        One for each tensor that moved from task to task, as noted by its receiver.

    Examples
    --------
    >>> import kit
    >>> metadata = kit.RunMetadata()
    >>> with kit.Graph().as_default(), kit.Session() as session:
    ...     _ = session.run(kit.constant(1.0, name="one") + 2.0, metadata=metadata)
    >>> "one" in {record.node for record in metadata.nodes}
    True
    """

    nodes: list[NodeRecord] = field(default_factory=list)
    transfers: list[TransferRecord] = field(default_factory=list)

    def fill(self, records: Records) -> None:
        """Take what the tasks noted in place of what was here."""
        self.nodes = [NodeRecord(*node) for node in records.nodes]
        self.transfers = [TransferRecord(*transfer) for transfer in records.transfers]

    def trace(self) -> Trace:
        """Return the run as a trace of one step, like the trace of a training.

        Each op is a span of computing on its task, and each tensor that went from task
        to task a transfer. So the same tools show a run:
        `metadata.trace().save("run.json")`.

        Returns
        -------
        Trace
            One step; its tasks are those that the run used.

        Examples
        --------
        >>> node = NodeRecord("add", "/job:ps/replica:0/task:0/device:CPU:0", 1.0, 1.5)
        >>> RunMetadata([node]).trace().names
        ('ps:0',)
        """
        spots = [_task(node.device) for node in self.nodes]
        ends = [Task.parse(t) for transfer in self.transfers for t in transfer[1:3]]
        tasks = sorted({*spots, *ends})
        number = {task: i for i, task in enumerate(tasks)}
        spans = [
            (number[task], Phase.COMPUTE, 0, int(node.begin * _NS), int(node.end * _NS))
            for task, node in zip(spots, self.nodes, strict=True)
        ]
        moves = [
            (
                number[Task.parse(transfer.source)],
                number[Task.parse(transfer.destination)],
                TransferKind.TENSOR,
                0,
                0,
                transfer.n_bytes,
                int(transfer.begin * _NS),
                int(transfer.end * _NS),
            )
            for transfer in self.transfers
        ]
        first = min([*(row[3] for row in spans), *(row[6] for row in moves)], default=0)
        return Trace(
            tuple(str(task) for task in tasks),
            epochs=(EpochRow(0, "graph", 0, first, ""),),
            transfers=rows(TRANSFER, moves),
            spans=rows(SPAN, spans),
            totals=rows(TOTAL, _totals(moves)),
        )


def _task(device: str) -> Task:
    """Return the task of a device's full name."""
    job, replica, task, _ = device.removeprefix("/").split("/")
    assert replica.startswith("replica:"), f"{device!r} is not a full name of a device"
    return Task(job.removeprefix("job:"), int(task.removeprefix("task:")))


def _totals(moves: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    sums: dict[tuple[int, ...], list[int]] = {}
    for move in moves:
        total = sums.setdefault(move[:4], [0, 0])
        total[0] += move[5]
        total[1] += 1
    return [(*key, *total) for key, total in sorted(sums.items())]
