"""The traffic account: what was measured, beside what the formulas say.

Pure. The formulas are those of the topologies; the measured bytes are the meters' exact
totals. In a sound training both are equal, to the byte.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import TypedDict

import numpy as np

from kit.errors import FailedPreconditionError
from kit.exchange import state_transfer
from kit.exchange.plan import Owned
from kit.exchange.topologies.topology import by_name, per_member
from kit.trace.trace import STEP_KINDS, Trace
from kit.trace.traffic import TransferKind
from kit.training.core.epoch import moves
from kit.training.core.job import Job
from kit.training.core.log import Epoch


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
    worker moves there depends on how many updates it made. Where an elastic training
    lost a task the measured bytes differ from the formula by the step under way, and
    by what the task had not reported.
    """
    entries = []
    for row, after in zip_longest(trace.epochs, trace.epochs[1:]):
        schedule = job.schedule_of(not row.is_asynchronous)
        if not schedule.in_step:
            continue
        number = row.number
        steps = (last_step if after is None else after.first_step) - row.first_step
        if after is not None and after.generation != row.generation:
            steps = max(n_steps.get((worker, number), 0) for worker in job.workers)
        # One gradient a step, if all must send theirs.
        times = dict.fromkeys(job.workers, steps)
        if schedule.is_served:
            times = {worker: n_steps.get((worker, number), 0) for worker in job.workers}
        formula = job.traffic(by_name(row.topology))
        moved = {
            (source, target, kind): size * times.get(source, times.get(target, 0))
            for (source, target, kind), size in formula.items()
        }
        for member, task in enumerate(job.tasks):
            measured = trace.sent(member, number), trace.received(member, number)
            what = (number, row.topology, task.short, steps, *measured)
            entries.append(Entry(*what, *per_member(moved, member)))
    return entries


def once_only(job: Job, trace: Trace) -> list[tuple[int, int, int]]:
    """Return (epoch, measured, formula) of the bytes that move once, at its start."""
    rows_once = []
    owned: tuple[Owned, ...] = ()
    before, generation = job.start, 0
    for row in trace.epochs:
        if row.generation != generation:  # it begins as a training does
            before, owned, generation = job.start, (), row.generation
        names = row.joined.split(",")
        joined = [n for n, task in enumerate(job.tasks) if task.short in names]
        epoch = Epoch(
            before.number + 1,  # of its generation; a trace counts on
            row.plain_topology,
            synchronous=not row.is_asynchronous,
            first_step=row.first_step,
        )
        owners = job.payload.owners(by_name(row.plain_topology))
        moved = moves(job, before, owned, epoch, owners, resumes=row.resumes)
        if epoch.number > 1:  # recorded before members came back by generations
            moved = (*state_transfer.refresh(owners, joined), *moved)
        totals = trace.totals[trace.totals["epoch"] == row.number]
        once = totals[~np.isin(totals["kind"], STEP_KINDS)]
        measured = int(once["bytes"].sum())
        rows_once.append(
            (row.number, measured, sum(state_transfer.traffic(moved).values()))
        )
        before, owned = epoch, owners
    return rows_once


# --------------------------------------------------------------------------------------
# The metrics of a training: of each step, made from all members' rows.


class StepMetrics(TypedDict):
    """One step of the training, over all workers whose gradients count.

    `link` is the speed of the links, "" for full speed; `loss` the mean over the
    batch's examples. `period` is the time from the first worker's start of the step
    before to that of this one, so its inverse is the steps a second; NaN if the step
    before is not known. `seconds` is the time from the first worker's start to the last
    one's end: longer, where a worker begins the next step before all have ended this
    one. `compute` and `wait` are means over the workers, in seconds; `staleness` is the
    largest. `contributors` are the workers; `dropped` is how many more gradients of
    this step came, too late to count.
    """

    step: int
    epoch: int
    topology: str
    link: str
    loss: float
    examples: int
    period: float
    seconds: float
    compute: float
    wait: float
    staleness: int
    contributors: tuple[str, ...]
    dropped: int


def step_metrics(trace: Trace) -> list[StepMetrics]:
    """Return those of all steps that every worker's rows are known of."""
    # Rows without examples are those of servers, and of gradients that came too late.
    counts = trace.steps["examples"] > 0
    table = trace.steps[counts]
    table = table[np.lexsort((table["task"], table["step"]))]
    late = Counter(trace.steps[~counts & (trace.steps["staleness"] > 0)]["step"])
    pushed = _pushed(trace)
    epochs = {row.number: row for row in trace.epochs}
    steps, first = np.unique(table["step"], return_index=True)
    rows_of_steps: list[StepMetrics] = []
    if not len(table):
        return rows_of_steps
    began: dict[int, int] = {}  # step, nanoseconds
    for step, rows in zip(steps, np.split(table, first[1:]), strict=True):
        examples = int(rows["examples"].sum())
        epoch = int(rows["epoch"][0])
        held = epochs.get(epoch)
        began[int(step)] = start = int(rows["start"].min())
        before = began.get(int(step) - 1)
        who = {*rows["task"].tolist(), *pushed.get(int(step), ())}
        rows_of_steps.append(
            StepMetrics(
                step=int(step),
                epoch=epoch,
                topology=held.topology if held else "",
                link=held.link if held else "",
                loss=float((rows["loss"] * rows["examples"]).sum() / examples),
                examples=examples,
                # One NaN for all, so that those of two runs can be compared.
                period=math.nan if before is None else (start - before) * 1e-9,
                seconds=float(rows["end"].max() - start) * 1e-9,
                compute=float(rows["compute"].mean()) * 1e-9,
                wait=float(rows["wait"].mean()) * 1e-9,
                staleness=int(rows["staleness"].max()),
                contributors=tuple(trace.names[task] for task in sorted(who)),
                dropped=late[step],
            )
        )
    return rows_of_steps


_N_MEASURED = 20  # of the newest steps of each worker
_FEWEST_MEASURED = 3


def measured_shares(job: Job, trace: Trace) -> dict[str, float]:
    """Return by process how fast it computes, relative to the slowest.

    The median of each worker's newest steps in the current generation counts.
    Raises `FailedPreconditionError` when there are too few of them.
    """
    generation = job.generation
    if not job.is_elastic:
        raise FailedPreconditionError(
            "only an elastic training can be spread anew; begin it with "
            "kit.train(..., elastic=True)."
        )
    newest = max((row.generation for row in trace.epochs), default=0)
    epochs = [row.number for row in trace.epochs if row.generation == newest]
    table = trace.steps[np.isin(trace.steps["epoch"], epochs)]
    nanoseconds: dict[str, list[float]] = {}
    for worker in job.workers:
        recent = table["compute"][table["task"] == worker][-_N_MEASURED:]
        if len(recent) < _FEWEST_MEASURED:
            raise FailedPreconditionError(
                f"{job.tasks[worker].short} has done {len(recent)} steps since the "
                f"tasks changed, which says too little of its speed; wait for "
                f"{_FEWEST_MEASURED}, or give shares."
            )
        took = max(1.0, float(np.median(recent)))
        nanoseconds.setdefault(generation.places[worker], []).append(took)
    means = {name: float(np.mean(values)) for name, values in nanoseconds.items()}
    longest = max(means.values())
    return {name: round(min(longest / mean, 100.0), 2) for name, mean in means.items()}


def _pushed(trace: Trace) -> dict[int, set[int]]:
    """Return whose gradients the servers took in each step, as far as that is kept.

    A worker that is killed once its gradient has arrived leaves no row itself.
    """
    if not (trace.totals["kind"] == TransferKind.LATE).any():
        return {}
    table = trace.transfers[trace.transfers["kind"] == TransferKind.PUSH]
    pushed_by: dict[int, set[int]] = {}
    for step, source in np.unique(table[["step", "source"]]).tolist():
        pushed_by.setdefault(step, set()).add(source)
    return pushed_by
