"""The trace of a rehearsal: what was played, as a training would have recorded it.

Pure. The columns are those of any trace, so figures, reports and files are made from it
as from a measured one; `Trace.predicted` tells the two apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from kit.rehearsal.clock import Played
from kit.rehearsal.schedule import ADD, APPLY, RECEIVE, CommunicationSchedule
from kit.trace.log import Rows
from kit.trace.named_rows import EpochRow, Kept
from kit.trace.trace import Trace
from kit.trace.traffic import SPAN, STEP, TRANSFER, Phase

EPOCH = 1  # the first one of any training


@dataclass
class RowCollector:
    """Collects the rows of steps; transfers and spans only as long as they fit.

    Those of the newest step are always kept, for the first members that fit into
    `most_rows`.
    """

    schedule: CommunicationSchedule
    workers: Sequence[int]
    most_rows: int
    _steps: list[Rows] = field(default_factory=list)
    _spans: list[Rows] = field(default_factory=list)
    _transfers: list[Rows] = field(default_factory=list)
    _details: int = 0

    def record(self, played: Played) -> None:
        """Take note of the next step."""
        number = len(self._steps)
        self._steps.append(self._step(played, number))
        spans = self._of_spans(played, number)
        is_part = self._n_rows < len(self.schedule.message)
        if is_part or sum(map(len, self._spans)) + len(spans) > self.most_rows:
            self._spans, self._transfers, self._details = [], [], number
        self._spans.append(spans)
        self._transfers.append(self._of_transfers(played, number))

    def trace(self, tasks: Sequence[str], topology: str, link: str) -> Trace:
        """Return all of it as the trace of a training."""
        n_steps = len(self._steps)
        totals = self.schedule.totals()
        totals["epoch"] = EPOCH
        totals["bytes"] *= n_steps
        totals["messages"] *= n_steps
        return Trace(
            tuple(tasks),
            (EpochRow(EPOCH, topology, 0, 0, link),),
            np.concatenate(self._transfers),
            np.concatenate(self._spans),
            np.concatenate(self._steps),
            totals,
            kept=Kept(details=self._details),
            predicted=True,
        )

    @cached_property
    def _n_rows(self) -> int:
        """How many rows of the schedule are kept: those of the first members."""
        first = self.schedule.first[1:]
        fits = first[first <= self.most_rows // 2]  # taking one makes two spans
        return int(fits[-1] if len(fits) else first[0])

    def _step(self, played: Played, number: int) -> Rows:
        schedule = self.schedule
        takes = np.flatnonzero(schedule.rows.code == RECEIVE)
        # A take begins when the row before it is done. There is one, of the same
        # member: the first row of each is READY.
        begun, arrived = played.done[takes - 1], played.arrived[takes]
        waited = np.bincount(
            schedule.owner[takes],
            np.maximum(arrived - begun, 0.0),
            minlength=len(schedule.members),
        )
        rows = np.zeros(len(schedule.members), STEP)
        rows["task"], rows["step"], rows["epoch"] = schedule.number, number, EPOCH
        rows["loss"] = np.nan
        rows["examples"] = np.isin(schedule.number, self.workers)
        rows["start"], rows["end"] = np.rint(played.begin), np.rint(played.end)
        rows["compute"], rows["wait"] = np.rint(played.compute), np.rint(waited)
        return rows

    def _of_spans(self, played: Played, number: int) -> Rows:
        schedule, n = self.schedule, self._n_rows
        code, owner = schedule.rows.code[:n], schedule.owner[:n]
        done, arrived = played.done[:n], played.arrived[:n]
        begun = np.concatenate(([0.0], done[:-1]))
        takes = code == RECEIVE
        usable = np.where(takes, np.maximum(begun, arrived), begun)
        phase = np.full(n, Phase.RECEIVE)
        phase[code == APPLY] = Phase.APPLY
        works = takes | (code == ADD) | (code == APPLY)
        who = np.arange(int(owner[-1]) + 1)
        parts = (
            (who, Phase.COMPUTE, (played.computed - played.compute)[who]),
            (owner[takes], Phase.WAIT, begun[takes]),
            (owner[works], phase[works], usable[works]),
        )
        ends = played.computed[who], usable[takes], done[works]
        tables = []
        for (task, what, start), end in zip(parts, ends, strict=True):
            table = np.zeros(len(task), SPAN)
            table["task"], table["phase"] = schedule.number[task], what
            table["step"], table["start"] = number, np.rint(start)
            table["end"] = np.rint(end)
            tables.append(table[table["end"] > table["start"]])
        spans = np.concatenate(tables)
        return spans[np.argsort(spans["end"], kind="stable")]

    def _of_transfers(self, played: Played, number: int) -> Rows:
        schedule = self.schedule
        taken = schedule.taken[schedule.taken < self._n_rows]
        transfers = np.zeros(len(taken), TRANSFER)
        transfers["source"] = schedule.rows.peer[taken]
        transfers["destination"] = schedule.number[schedule.owner[taken]]
        transfers["kind"], transfers["epoch"] = schedule.rows.kind[taken], EPOCH
        transfers["step"], transfers["bytes"] = number, schedule.rows.amount[taken]
        transfers["start"] = np.rint(played.posted[schedule.message[taken]])
        usable = np.maximum(played.done[taken - 1], played.arrived[taken])
        transfers["end"] = np.rint(usable)
        return transfers[np.argsort(transfers["end"], kind="stable")]
