"""The recorded events of a training: who sent what to whom when.

A `Trace` is plain columns. Figures, tables and files are made from it and from nothing
else, so a finished or saved run shows the same picture as a live one.

Pure: no clock, no I/O (`save` and `load` hand over to `kit.trace.file`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from os import PathLike
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from kit.errors import InvalidArgumentError
from kit.settings import INSECURE
from kit.task import Task
from kit.trace import file
from kit.trace.bottleneck import Bottleneck, bottleneck
from kit.trace.log import Rows, rows
from kit.trace.named_rows import CallRow, EpochRow, Kept, SaveRow, Switch
from kit.trace.time_bins import Bins, spread
from kit.trace.traffic import (
    MEASURE,
    RECEIPT,
    SPAN,
    STEP,
    TOTAL,
    TRANSFER,
    Phase,
    TransferKind,
)

T = TypeVar("T")

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

#: The kinds that move in every step; the others belong to the start and to switches.
STEP_KINDS = (
    TransferKind.PUSH,
    TransferKind.PULL,
    TransferKind.REDUCE,
    TransferKind.GATHER,
    TransferKind.LATE,
)
_MOST_CELLS = 20_000_000  # of links times bins: 160 MB


class LinkBytes(NamedTuple):
    """Bytes of each link in each bin: `bytes[i, k]` went over `links[i]` in bin k.

    `links` holds (source, destination) pairs of task numbers, in ascending order.
    """

    links: tuple[tuple[int, int], ...]
    bins: Bins
    bytes: Floats


@dataclass(frozen=True)
class Trace:
    """Columns of everything that was recorded; `kit.trace.traffic` explains them.

    Parameters
    ----------
    tasks : tuple of str
        The names of the tasks. A task's number in the columns is its place here.
    epochs : tuple of EpochRow
        The configurations of the training, each with its first step.
    transfers, spans, steps : numpy.ndarray
        Who sent what to whom, who did what, and the steps, with start and end. Of a
        long training the older steps are thinned out and the older transfers and spans
        dropped, as `kept` says.
    totals : numpy.ndarray
        Bytes and messages of each link, kind and epoch; always exact.
    saves : tuple of SaveRow
        The newest attempts to write a checkpoint.
    measures : numpy.ndarray
        What the step function gave besides the loss; thinned out as `steps`.
    kept : Kept
        Which rows are left.
    predicted : bool, default False
        Whether it comes from `kit.rehearse`: its bytes are exact, its times are
        predictions, and it has no loss.
    insecure : bool, default False
        Whether the links of the training were without encryption.
    calls : tuple of CallRow, optional
        Of a group of tasks, its newest calls, which have the place of steps; None if it
        is of a training.
    receipts : numpy.ndarray
        Of a group, the messages that tasks asked for, and how long they waited.

    Examples
    --------
    >>> Trace(("ps:0", "worker:0"), (EpochRow(1, "ps", 0, 0, ""),))
    <Trace of ps:0, worker:0: up to step 0, ps, 0 bytes>
    """

    tasks: tuple[str, ...]
    epochs: tuple[EpochRow, ...] = ()
    transfers: Rows = field(default_factory=lambda: rows(TRANSFER))
    spans: Rows = field(default_factory=lambda: rows(SPAN))
    steps: Rows = field(default_factory=lambda: rows(STEP))
    totals: Rows = field(default_factory=lambda: rows(TOTAL))
    saves: tuple[SaveRow, ...] = ()
    measures: Rows = field(default_factory=lambda: rows(MEASURE))
    kept: Kept = field(default_factory=Kept)
    predicted: bool = False
    insecure: bool = False
    calls: tuple[CallRow, ...] | None = None
    receipts: Rows = field(default_factory=lambda: rows(RECEIPT))

    def __repr__(self) -> str:
        """Return it in one line; the columns themselves are far too long.

        >>> Trace(("ps:0", "worker:0"), (EpochRow(1, "ps", 0, 0, ""),))
        <Trace of ps:0, worker:0: up to step 0, ps, 0 bytes>
        >>> Trace((), kept=Kept(details=7))
        <Trace of : up to step 0, no epoch, 0 bytes; transfers and spans from step 7 on>
        """
        last = int(self.steps["step"].max()) + 1 if len(self.steps) else 0
        what = f"up to step {last:,}"
        if self.calls is not None:
            what = f"up to call {max(0, last - 1):,}"
        ways = ", ".join(row.topology for row in sorted(self.epochs)) or "no epoch"
        n_bytes = int(self.totals["bytes"].sum())
        whose = ", ".join(self.names)
        lacks = f"; {self.kept}" if str(self.kept) else ""
        lacks += f"; {INSECURE}" if self.insecure else ""
        said = f"{what}, {ways}, {n_bytes:,} bytes{lacks}"
        return (
            f"<{'Predicted trace' if self.predicted else 'Trace'} of {whose}: {said}>"
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The short names of the tasks, for tables and figures: `worker:1`.

        >>> Trace(("/job:ps/task:0", "worker:0")).names
        ('ps:0', 'worker:0')
        """
        return _short(self.tasks)

    def number(self, task: str | int) -> int:
        """Return the number of a task.

        Parameters
        ----------
        task : str or int
            Its name, long or short, or its number.

        Raises
        ------
        InvalidArgumentError
            The trace has no such task.

        Examples
        --------
        >>> Trace(("ps:0", "worker:0")).number("/job:worker/task:0")
        1
        """
        if isinstance(task, int) and 0 <= task < len(self.tasks):
            return task
        if isinstance(task, str) and (short := Task.parse(task).short) in self.names:
            return self.names.index(short)
        raise InvalidArgumentError(
            f"the trace has no task {task!r}; it has {', '.join(self.names) or 'none'}."
        )

    def bounds(self) -> tuple[int, int]:
        """Return the times of the first and the last event; (0, 0) when it is empty."""
        kept = [t for t in (self.transfers, self.spans, self.steps) if len(t)]
        first = [int(table["start"].min()) for table in kept]
        last = [int(table["end"].max()) for table in kept]
        moments = [row.at for row in self.epochs]
        moments += [at for row in self.saves for at in (row.begin, row.end)]
        return (
            min(first + last + moments, default=0),
            max(last + moments, default=0),
        )

    def switches(self) -> tuple[Switch, ...]:
        """Return the changes of configuration, in order.

        Returns
        -------
        tuple of Switch
            The epochs before and after each change; empty if there was one epoch only.
        """
        ordered = sorted(self.epochs)
        return tuple(map(Switch, ordered, ordered[1:]))

    def losses(self) -> tuple[Ints, Floats]:
        """Return the steps and the loss of each, as the mean over all examples.

        The workers' shares are weighted by their number of examples; rows without
        examples (a parameter server's) do not count.

        >>> rest = (0, 1, 1, 0, 0)  # times and staleness
        >>> two = rows(STEP, [(0, 7, 0, 1.0, 30, *rest), (1, 7, 0, 3.0, 10, *rest)])
        >>> steps, loss = Trace(("worker:0", "worker:1"), steps=two).losses()
        >>> steps.tolist(), loss.tolist()
        ([7], [1.5])
        """
        counts = (self.steps["examples"] > 0) & (not self.predicted)
        return _means(self.steps[counts], "loss")

    def measured(self, name: str) -> tuple[Ints, Floats]:
        """Return the steps and a measure's value in each, the mean over all examples.

        Parameters
        ----------
        name : str
            What the step function called it, such as "accuracy".

        Returns
        -------
        numpy.ndarray, numpy.ndarray
            Steps and values; both empty if there is no such measure.
        """
        return _means(self.measures[self.measures["name"] == name.encode()], "value")

    def bytes_per_link(self, bin_ns: int) -> LinkBytes:
        """Return the bytes of each link in bins of equal length.

        The bins start at the first kept transfer and reach to the last; a transfer
        counts evenly between its start and its end.

        Parameters
        ----------
        bin_ns : int
            The length of a bin in nanoseconds.

        Returns
        -------
        LinkBytes
            The links, the bins, and the bytes of link i in bin k.

        Raises
        ------
        InvalidArgumentError
            `bin_ns` is not positive, or so small that the result would not fit into
            memory.
        """
        table = self.transfers
        if bin_ns <= 0:
            raise InvalidArgumentError(f"bin_ns must be positive, got {bin_ns}.")
        if not len(table):
            return LinkBytes((), Bins(self.bounds()[0], bin_ns, 0), np.zeros((0, 0)))
        first = int(np.minimum(table["start"], table["end"]).min())
        count = max(1, -(-(int(table["end"].max()) - first) // bin_ns))
        links, group = _links(table)
        if len(links) * count > _MOST_CELLS:
            raise InvalidArgumentError(
                f"bins of {bin_ns} ns make {count} bins for each of {len(links)} "
                f"links; take wider ones."
            )
        bins = Bins(first, bin_ns, count)
        start, end, amount = table["start"], table["end"], table["bytes"]
        n_groups = len(links)
        per = spread(start, end, amount, group=group, n_groups=n_groups, bins=bins)
        return LinkBytes(links, bins, per)

    def bytes_between(self, edges: Ints) -> tuple[tuple[tuple[int, int], ...], Floats]:
        """Return the bytes that arrived on each link between given times.

        Parameters
        ----------
        edges : numpy.ndarray of int
            Ascending times in nanoseconds. A transfer counts as a whole, at its end.

        Returns
        -------
        tuple of (int, int), numpy.ndarray
            The links as (source, destination), and their bytes, of the shape
            (links, len(edges) - 1).
        """
        table, n_bins = self.transfers, max(0, len(edges) - 1)
        if not len(table):
            return (), np.zeros((0, n_bins))
        links, group = _links(table)
        index = np.searchsorted(edges, table["end"], side="right") - 1
        inside = (index >= 0) & (index < n_bins)
        flat = (group * n_bins + index)[inside]
        amount: Floats = np.bincount(
            flat, table["bytes"][inside].astype(np.float64), len(links) * n_bins
        ).astype(np.float64)
        return links, amount.reshape(len(links), n_bins)

    def sent(
        self,
        task: str | int,
        epoch: int | None = None,
        kinds: Collection[int] = STEP_KINDS,
    ) -> int:
        """Return the bytes that a task sent; exact.

        Parameters
        ----------
        task : str or int
            Its name or number.
        epoch : int, optional
            Only this epoch; by default the whole run.
        kinds : collection of TransferKind
            Only what moved for these reasons; by default what moves in every step.

        Returns
        -------
        int
            Bytes of payload.

        Raises
        ------
        InvalidArgumentError
            The trace has no such task.
        """
        return self._total("source", task, epoch, kinds)

    def received(
        self,
        task: str | int,
        epoch: int | None = None,
        kinds: Collection[int] = STEP_KINDS,
    ) -> int:
        """Return the bytes that a task received; exact.

        Parameters
        ----------
        task, epoch, kinds
            As for `sent`.

        Raises
        ------
        InvalidArgumentError
            The trace has no such task.
        """
        return self._total("destination", task, epoch, kinds)

    def _total(
        self, side: str, task: str | int, epoch: int | None, kinds: Collection[int]
    ) -> int:
        mine = self.totals[side] == self.number(task)
        mine &= np.isin(self.totals["kind"], list(kinds))
        if epoch is not None:
            mine &= self.totals["epoch"] == epoch
        return int(self.totals["bytes"][mine].sum())

    def n_steps(self, epoch: int) -> int:
        """Return how many steps an epoch lasted, so far if it is the last one.

        Counted from the first steps of the epochs, because the rows of old steps may
        have been dropped.

        Parameters
        ----------
        epoch : int
            Its number; one that the trace does not know has 0 steps.
        """
        following = {s.before.number: s.after.first_step for s in self.switches()}
        for row in self.epochs:
            if row.number == epoch:
                newest = int(self.steps["step"].max()) + 1 if len(self.steps) else 0
                return max(0, following.get(epoch, newest) - row.first_step)
        return 0

    def step_rate(self, epoch: int | None = None) -> float:
        """Return the steps per second; 0.0 if no step is recorded.

        Parameters
        ----------
        epoch : int, optional
            Only this epoch; by default all.
        """
        table = self.steps
        if epoch is not None:
            table = table[table["epoch"] == epoch]
        if not len(table):
            return 0.0
        elapsed = int(table["end"].max()) - int(table["start"].min())
        # The steps between two kept ones have been done too.
        n_steps = int(table["step"].max()) - int(table["step"].min()) + 1
        return n_steps * 1e9 / elapsed if elapsed > 0 else 0.0

    def phase_time(self, first: int | None = None, last: int | None = None) -> Ints:
        """Return the nanoseconds that each task spent in each phase.

        Parameters
        ----------
        first, last : int, optional
            The range of steps, both included; by default all.

        Returns
        -------
        numpy.ndarray
            Its shape is (tasks, 1 + number of phases); column `Phase.WAIT` is waiting.
        """
        table = self.spans
        if first is not None:
            table = table[table["step"] >= first]
        if last is not None:
            table = table[table["step"] <= last]
        shape = (len(self.tasks), 1 + max(Phase))
        spent = np.zeros(shape, np.int64)
        np.add.at(spent, (table["task"], table["phase"]), table["end"] - table["start"])
        return spent

    @property
    def bottleneck(self) -> Bottleneck:
        """What makes the newest steps as long as they are (`kit.trace.bottleneck`)."""
        return bottleneck(self)

    def save(self, path: str | PathLike[str], *, max_rows: int = 100_000) -> None:
        """Write all of it as a file that ui.perfetto.dev opens.

        Parameters
        ----------
        path : str or PathLike
            The file to write. It appears whole or not at all.
        max_rows : int, default 100,000
            How many of the newest transfers and spans viewers show. All rows are
            written.

        Raises
        ------
        InvalidArgumentError
            `max_rows` is negative.
        OSError
            The file cannot be written.
        """
        file.save(self, path, max_rows=max_rows)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Trace:
        """Read a trace that `save` wrote: the same names, epochs and columns.

        Parameters
        ----------
        path : str or PathLike
            The file, at most 512 MiB.

        Raises
        ------
        InvalidArgumentError
            It is another program's file, not a regular file, or too large.
        VersionMismatch
            A newer version wrote it.
        DataLossError
            It is damaged.
        OSError
            It cannot be read.
        """
        return cls(**file.columns_of(path))


@lru_cache(64)
def _short(tasks: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(Task.parse(name).short for name in tasks)


def _means(table: Rows, name: str) -> tuple[Ints, Floats]:
    """Return the steps, and for each the mean of a column over all examples."""
    # In the order of the tasks, not in that in which their rows came: so two observers
    # of a training, and a replay, get the same bits.
    table = table[np.lexsort((table["task"], table["step"]))]
    steps, index = np.unique(table["step"], return_inverse=True)
    weight = table["examples"].astype(np.float64)
    total = np.bincount(index, table[name] * weight, len(steps))
    return steps, total / np.bincount(index, weight, len(steps))


def _links(table: Rows) -> tuple[tuple[tuple[int, int], ...], Ints]:
    """Return the links that occur, and for each row the place of its link."""
    n = 1 + int(max(table["source"].max(), table["destination"].max()))
    code = table["source"].astype(np.int64) * n + table["destination"]
    present = np.bincount(code, minlength=n * n) > 0
    index = np.cumsum(present) - 1
    pairs = [divmod(int(c), n) for c in np.flatnonzero(present)]
    return tuple(pairs), index[code]


def distinct(names: Iterable[str]) -> list[str]:
    """Return the names, with a number where one would be there twice.

    >>> distinct(["ring", "ps", "ring", "ring (2)"])
    ['ring', 'ps', 'ring (2)', 'ring (2) (2)']
    """
    names_used: list[str] = []
    for name in names:
        new, number = name, 1
        while new in names_used:
            number += 1
            new = f"{name} ({number})"
        names_used.append(new)
    return names_used


def beside(taken: Iterable[str], columns: Mapping[str, T]) -> dict[str, T]:
    """Return more columns of a table, under other names where those are taken.

    A step function may call what it measures as the table calls what it knows itself.

    >>> beside(["step", "loss"], {"accuracy": 0.9, "loss": 0.1})
    {'accuracy': 0.9, 'loss (2)': 0.1}
    """
    names_before = [*taken]
    names = distinct([*names_before, *columns])[len(names_before) :]
    return dict(zip(names, columns.values(), strict=True))
