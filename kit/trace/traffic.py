"""What a task did and what it received, counted where it happens.

A `Meter` belongs to one task of one training, or of one group. It keeps

* transfers: each payload once, at the task that received it: source, destination,
  kind, epoch, step, bytes, when it was handed over and when it had arrived;
* spans: what the task was doing (load, compute, queue, send, receive, wait, apply);
* steps: loss, examples and times of each step;
* measures: what else a step function gives, such as its accuracy;
* receipts: of a group of tasks, each message that was asked for, from `start` to `end`,
  in a line of a program; `bytes` is -1 for one that did not come;
* totals: bytes and messages per source, kind and epoch, exact for the whole training.

Who takes a payload from its port counts it, and who sends one counts nothing. Four
take payloads: each `Take` of a plan in Python (`PythonExecutor`), the compiled loop for
all of them at once (`NativeExecutor`), a server of first gradients, which knows only
then whether one came too late (`QuorumServer.take`), and a group of tasks for messages
between two of them (`kit.groups.messages`).

The logs are bounded: their oldest rows are dropped first. Totals are never dropped, so
they are what is compared with the formulas.

All times are nanoseconds of the machine's monotonic clock. Tasks are numbers: positions
in the member list of the training. Nothing here reads a clock or does I/O.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from kit.trace.log import LONGEST_NAME, Log, Rows, rows


class TransferKind(IntEnum):
    """Why a payload moves."""

    PUSH = 1  # gradient, worker to parameter server
    PULL = 2  # parameters, parameter server to worker
    REDUCE = 3  # partial sum, round the ring or to its owner
    GATHER = 4  # finished parameters, from their owner to the others
    BROADCAST = 5  # initial parameters, from the coordinator to all
    MOVE = 6  # optimizer slots and parameters that change their owner at a switch
    TENSOR = 7  # a value in a graph that an op on another task needs
    MESSAGE = 9  # a value that one task of a group sends to another
    LATE = 8  # gradient that came when its step was complete without it


class Phase(IntEnum):
    """What a task is doing."""

    COMPUTE = 1
    SEND = 2
    RECEIVE = 3
    WAIT = 4
    APPLY = 5
    LOAD = 6  # a mini-batch is taken from the data
    QUEUE = 7  # it could compute, but all cores are busy; drawn at the end of its time


class Transfer(NamedTuple):
    """One payload that arrived."""

    source: int
    destination: int
    kind: int
    epoch: int
    step: int
    bytes: int
    start: int
    end: int


class Span(NamedTuple):
    """One stretch of time that a task spent in a phase."""

    task: int
    phase: int
    step: int
    start: int
    end: int


class StepRow(NamedTuple):
    """One task's share of one step; `staleness` is 0 in synchronous training."""

    task: int
    step: int
    epoch: int
    loss: float
    examples: int
    start: int
    end: int
    compute: int
    wait: int
    staleness: int


class MeasureRow(NamedTuple):
    """One number besides the loss, of one task's share of one step."""

    task: int
    step: int
    name: bytes
    value: float
    examples: int
    end: int


TRANSFER = np.dtype(
    [("source", "u2"), ("destination", "u2"), ("kind", "u1"), ("epoch", "u4")]
    + [(name, "i8") for name in ("step", "bytes", "start", "end")]
)
SPAN = np.dtype(
    [("task", "u2"), ("phase", "u1")] + [(n, "i8") for n in ("step", "start", "end")]
)
STEP = np.dtype(
    [("task", "u2"), ("step", "i8"), ("epoch", "u4"), ("loss", "f8")]
    + [(n, "i8") for n in ("examples", "start", "end", "compute", "wait", "staleness")]
)
MEASURE = np.dtype(
    [
        ("task", "u2"),
        ("step", "i8"),
        ("name", f"S{LONGEST_NAME}"),
        ("value", "f8"),
        ("examples", "i8"),
        ("end", "i8"),
    ]
)
RECEIPT = np.dtype(
    [("source", "u2"), ("destination", "u2"), ("epoch", "u4"), ("line", "u4")]
    + [(n, "i8") for n in ("tag", "bytes", "sent", "arrived", "start", "end")]
)
TOTAL = np.dtype(
    [
        ("source", "u2"),
        ("destination", "u2"),
        ("kind", "u1"),
        ("epoch", "u4"),
        ("bytes", "i8"),
        ("messages", "i8"),
    ]
)


ANYONE = 65_535  # the source of a message that did not come, if any would have done
MOST_NAMES = 1_000  # of the measures of one task


class Meter:
    """The account of one task in one training. One thread writes, any may read."""

    def __init__(self, task: int, *, limit: int = 200_000, trace: bool = True) -> None:
        self.task = task
        self.trace = trace
        self.transfers = Log(TRANSFER, limit)
        self.spans = Log(SPAN, limit)
        self.steps = Log(STEP, limit)
        self.measures: Log | None = None  # made with the first measure: most have none
        self.n_steps: dict[int, int] = {}  # of each epoch, exact like the totals
        self._limit, self._names = limit, set[bytes]()
        self._totals: dict[tuple[int, int, int], list[int]] = {}

    def total(self, source: int, kind: int, epoch: int) -> list[int]:
        """Return bytes and messages that arrived from task `source`, to add to them."""
        total = self._totals.get((source, kind, epoch))
        if total is None:
            total = self._totals[source, kind, epoch] = [0, 0]
        return total

    def received(
        self,
        source: int,
        kind: int,
        epoch: int,
        step: int,
        n_bytes: int,
        start: int,
        end: int,
    ) -> None:
        """Count one payload that arrived here from task number `source`."""
        total = self.total(source, kind, epoch)
        total[0] += n_bytes
        total[1] += 1
        if self.trace:
            row = (source, self.task, kind, epoch, step, n_bytes, start, end)
            self.transfers.add(row)

    def span(self, phase: int, step: int, start: int, end: int) -> None:
        """Note that the task spent the time from `start` to `end` in `phase`."""
        if self.trace:
            self.spans.add((self.task, phase, step, start, end))

    def stepped(self, row: StepRow) -> None:
        """Note the task's share of a step."""
        self.n_steps[row.epoch] = self.n_steps.get(row.epoch, 0) + 1
        self.steps.add(row)

    def measured(self, row: MeasureRow) -> bool:
        """Note a number besides the loss; False if there are too many names already.

        What is made of the numbers has a column, or a curve, for each name.
        """
        if self.measures is None:
            self.measures = Log(MEASURE, self._limit)
        if row.name not in self._names:
            if len(self._names) == MOST_NAMES:
                return False
            self._names.add(row.name)
        self.measures.add(row)
        return True

    def totals(self) -> Rows:
        """Return the exact totals of everything received so far."""
        return rows(
            TOTAL,
            [
                (source, self.task, kind, epoch, n_bytes, messages)
                for (source, kind, epoch), (n_bytes, messages) in sorted(
                    self._totals.copy().items()
                )
            ],
        )
