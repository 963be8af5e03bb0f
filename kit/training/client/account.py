"""The traffic account: what was measured, beside what the formulas say.

Pure. The formulas are those of the topologies; the measured bytes are the meters' exact
totals. In a sound training both are equal, to the byte.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kit.exchange import moves
from kit.exchange.topologies.topology import Traffic, by_name, per_member
from kit.trace.log import Rows
from kit.trace.trace import STEP_KINDS, EpochRow, Trace
from kit.trace.traffic import Kind
from kit.training.job import Job


@dataclass(frozen=True)
class Entry:
    """One task's bytes in one epoch, over all its steps."""

    epoch: int
    topology: str
    task: str
    steps: int
    sent: int
    received: int
    formula_sent: int
    formula_received: int

    @property
    def agrees(self) -> bool:
        """Whether measured and computed bytes are the same."""
        return (self.sent, self.received) == (self.formula_sent, self.formula_received)

    def __str__(self) -> str:
        formula = f"by formula {self.formula_sent:,} and {self.formula_received:,}"
        return (
            f"{self.topology:<5} {self.task:<9} {self.steps:>5} steps"
            f" {self.sent:>14,} bytes sent {self.received:>14,} received, "
            f"{'as by formula' if self.agrees else formula}"
        )


def account(
    job: Job, trace: Trace, last_step: int, n_steps: Mapping[tuple[int, int], int]
) -> list[Entry]:
    """Return one entry for each epoch and member, of what steps move.

    `last_step` is the number of steps done, `n_steps` those of a member in an epoch:
    with backup workers not all do the same. Asynchronous epochs are left out: what a
    worker moves there depends on how many updates it made.
    """
    ends = [row.first_step for row in trace.epochs[1:]] + [last_step]
    ends = ends[: len(trace.epochs)]  # none if it failed before its first step
    entries = []
    for row, end in zip(trace.epochs, ends, strict=True):
        if row.is_asynchronous:
            continue
        steps = end - row.first_step
        # One gradient a step, if all must send theirs.
        times = dict.fromkeys(job.workers, steps)
        if job.has_backups:
            times = {one: n_steps.get((one, row.number), 0) for one in job.workers}
        moved = _moved(job, row, times)
        members = range(len(job.tasks))
        entries += [_entry(job, trace, row, steps, one, moved) for one in members]
    return entries


def _moved(job: Job, row: EpochRow, times: Mapping[int, int]) -> Traffic:
    """Return the bytes by formula; each worker sends a gradient so many `times`."""
    formula = by_name(row.topology).traffic(job.layout, job.group)
    return {
        (source, target, kind): size * times.get(source, times.get(target, 0))
        for (source, target, kind), size in formula.items()
    }


def _entry(
    job: Job,
    trace: Trace,
    row: EpochRow,
    steps: int,
    member: int,
    moved: Traffic,
) -> Entry:
    sent, received = per_member(moved, member)
    return Entry(
        row.number,
        row.topology,
        job.tasks[member].short,
        steps,
        _total(trace, row.number, "source", member, STEP_KINDS),
        _total(trace, row.number, "destination", member, STEP_KINDS),
        sent,
        received,
    )


def once_only(job: Job, trace: Trace) -> list[tuple[int, int, int]]:
    """Return (epoch, measured, formula) of the bytes that move once, at its begin."""
    found = []
    before, was_asynchronous = None, False
    for row in trace.epochs:
        after = by_name(row.plain_topology).owners(job.layout, job.group)
        n_slots = len(job.optimizer.slots)
        if before is None and row.first_step:
            leader = job.coordinator
            moved = moves.restored(job.layout, job.group, leader, after, n_slots)
        elif before is None:
            moved = moves.broadcast(job.layout, job.group, job.coordinator)
        else:
            moved = moves.handover(before, after, n_slots, job.group)
            if was_asynchronous and not row.is_asynchronous:
                moved = (*moves.refresh(before, job.workers), *moved)
            joined = row.joined.split(",")
            fresh = [n for n, task in enumerate(job.tasks) if task.short in joined]
            moved = (*moves.refresh(after, fresh), *moved)
        totals = trace.totals[trace.totals["epoch"] == row.number]
        once = totals[~_is_in(totals["kind"], STEP_KINDS)]
        measured = int(once["bytes"].sum())
        found.append((row.number, measured, sum(moves.traffic(moved).values())))
        before, was_asynchronous = after, row.is_asynchronous
    return found


def _total(
    trace: Trace, epoch: int, side: str, member: int, kinds: Sequence[Kind]
) -> int:
    totals = trace.totals
    chosen = (totals["epoch"] == epoch) & (totals[side] == member)
    return int(totals[chosen & _is_in(totals["kind"], kinds)]["bytes"].sum())


def _is_in(column: Rows, kinds: Sequence[Kind]) -> Rows:
    return np.isin(column, [int(kind) for kind in kinds])
