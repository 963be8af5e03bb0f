"""What a task did and what it received, counted where it happens.

A `Meter` belongs to one task of one training. It keeps

* transfers: each payload once, at the task that received it: source, destination,
  kind, epoch, step, bytes, when it was handed over and when it had arrived;
* spans: what the task was doing (compute, send, receive, wait, apply);
* steps: loss, examples and times of each step;
* measures: what else a step function gives, such as its accuracy;
* totals: bytes and messages per source, kind and epoch, exact for the whole training.

The logs are bounded: their oldest rows are dropped first and their number is kept.
Totals are never dropped, so they are what is compared with the formulas.

All times are nanoseconds of the machine's monotonic clock. Tasks are numbers: positions
in the member list of the training. Nothing here reads a clock or does I/O.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from itertools import chain
from struct import Struct
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[Any]


class Kind(IntEnum):
    """Why a payload moves."""

    PUSH = 1  # gradient, worker to parameter server
    PULL = 2  # parameters, parameter server to worker
    REDUCE = 3  # partial sum, round the ring or to its owner
    GATHER = 4  # finished parameters, from their owner to the others
    BROADCAST = 5  # initial parameters, from the coordinator to all
    MOVE = 6  # optimizer slots and parameters that change their owner at a switch
    TENSOR = 7  # a value in a graph that an op on another task needs
    LATE = 8  # gradient that came when its step was complete without it


class Phase(IntEnum):
    """What a task is doing."""

    COMPUTE = 1
    SEND = 2
    RECEIVE = 3
    WAIT = 4
    APPLY = 5


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
    """One number beside the loss, of one task's share of one step."""

    task: int
    step: int
    name: bytes
    value: float
    examples: int
    end: int


LONGEST_NAME = 32  # bytes of a measure's name
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
        *(("task", "u2"), ("step", "i8"), ("name", f"S{LONGEST_NAME}")),
        *(("value", "f8"), ("examples", "i8"), ("end", "i8")),
    ]
)
TOTAL = np.dtype(
    [
        *(("source", "u2"), ("destination", "u2"), ("kind", "u1"), ("epoch", "u4")),
        *(("bytes", "i8"), ("messages", "i8")),
    ]
)
# How numpy calls a column, and how struct does.
_CODES = {"u1": "B", "u2": "H", "u4": "I", "i8": "q", "f8": "d"} | {
    f"S{LONGEST_NAME}": f"{LONGEST_NAME}s"
}
_BATCH = 64  # rows packed together
_WINDOW = 8_192  # rows that are kept whether they were read or not


def rows(dtype: np.dtype[Any], tuples: Iterable[tuple[Any, ...]] = ()) -> Rows:
    """Return tuples as one structured array of `dtype`.

    >>> rows(SPAN, [Span(0, 1, 7, 10, 20)])["end"].tolist()
    [20]
    """
    return np.array([tuple(row) for row in tuples], dtype=dtype)


class Log:
    """A bounded list of rows with a cursor, so that a reader can ask for the news.

    Beyond the newest `window` rows, those that somebody has read make room first, so a
    log that is read in time stays as small as that; at most `limit` rows are kept.

    The rows lie packed in one block of memory, the window of which is taken at once,
    the rest as it is first used; the garbage collector has nothing to visit. New ones
    are packed many at a time, so that adding one costs a quarter of a microsecond.

    >>> log = Log(SPAN, limit=2)
    >>> for step in range(3):
    ...     log.add((0, 1, step, 0, 1))
    >>> news, cursor = log.since(0)
    >>> news["step"].tolist(), cursor
    ([1, 2], 3)
    """

    def __init__(self, dtype: np.dtype[Any], limit: int, window: int = _WINDOW) -> None:
        self.dtype = dtype
        self._limit, self._size = limit, dtype.itemsize
        self._window = min(window, limit)
        self._read = 0  # all rows before this number were given to somebody
        self._block = np.zeros(limit * self._size, np.uint8).data
        self._rows: Rows = np.frombuffer(self._block, dtype)
        self._rows[: self._window] = 0  # taken now, so that it does not grow later
        codes = "".join(_CODES[dtype[name].str[1:]] for name in dtype.names or ())
        self._one, self._many = Struct("=" + codes), Struct("=" + codes * _BATCH)
        self._new: list[tuple[Any, ...]] = []
        self._packed = 0
        self._lock = Lock()  # computing and exchanging may be two threads

    def add(self, row: tuple[Any, ...]) -> None:
        """Append one row; a full log loses its oldest one."""
        self.extend((row,))

    def extend(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Append some rows, in their order."""
        self._new.extend(rows)
        if len(self._new) >= _BATCH:
            with self._lock:
                self._settle()

    @property
    def added(self) -> int:
        """How many rows were ever added."""
        with self._lock:
            return self._packed + len(self._new)

    def since(self, cursor: int, most: int | None = None) -> tuple[Rows, int]:
        """Return kept rows from number `cursor` on, and the cursor after them."""
        with self._lock:
            self._settle()
            begin = max(cursor, self._packed - self._window, 0)
            left = max(0, self._packed - begin)
            count = left if most is None else min(left, most)
            self._read = max(self._read, begin + count)
            return self._rows[self._places(begin, begin + count)], begin + count

    def _settle(self) -> None:
        """Pack what is new. Others may append meanwhile: nothing of that is touched."""
        new, size = self._new, self._size
        self._make_room(len(new))
        while len(new) >= _BATCH:
            place = self._packed % self._window
            if place + _BATCH > self._window:
                break
            self._many.pack_into(
                self._block, place * size, *chain.from_iterable(new[:_BATCH])
            )
            del new[:_BATCH]
            self._packed += _BATCH
        count = len(new)
        for row in new[:count]:
            place = self._packed % self._window
            self._one.pack_into(self._block, place * size, *row)
            self._packed += 1
        del new[:count]

    def _make_room(self, count: int) -> None:
        """Widen the window if `count` rows would fall on some that nobody has read."""
        unread = self._packed + count - self._read
        if unread <= self._window or self._window == self._limit:
            return
        first = max(0, self._packed - self._window)
        kept = self._rows[self._places(first, self._packed)]
        while self._window < unread:
            self._window = self._window * 2
        self._window = min(self._window, self._limit)
        self._rows[self._places(first, self._packed)] = kept

    def _places(self, begin: int, end: int) -> npt.NDArray[np.intp]:
        return np.arange(begin, end) % self._window


class Meter:
    """The account of one task in one training. One thread writes, any may read."""

    def __init__(self, task: int, *, limit: int = 200_000, trace: bool = True) -> None:
        self.task = task
        self.trace = trace
        self.transfers = Log(TRANSFER, limit)
        self.spans = Log(SPAN, limit)
        self.steps = Log(STEP, limit)
        self.measures: Log | None = None  # who measures nothing needs no memory
        self._limit = limit
        self._totals: dict[tuple[int, int, int], list[int]] = {}

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
        total = self._totals.get((source, kind, epoch))
        if total is None:
            total = self._totals[source, kind, epoch] = [0, 0]
        total[0] += n_bytes
        total[1] += 1
        if self.trace:
            row = (source, self.task, kind, epoch, step, n_bytes, start, end)
            self.transfers.add(row)

    def span(self, phase: int, step: int, start: int, end: int) -> None:
        """Note that the task spent the time from `start` to `end` in `phase`."""
        if self.trace:
            self.spans.add((self.task, phase, step, start, end))

    def measured(self, row: MeasureRow) -> None:
        """Note a number beside the loss."""
        if self.measures is None:
            self.measures = Log(MEASURE, self._limit)
        self.measures.add(row)

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
