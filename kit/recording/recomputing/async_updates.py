"""Asynchronous updates, in the order in which the servers took the pushes.

A worker computes with what it pulled last, and pulls from each server right after its
own push was taken there. So only the order of the pushes at each server decides, and it
is recorded. With one server each update is one step. Several servers may have taken the
pushes in different orders, so they have no common state until all have taken all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from kit.errors import FailedPreconditionError, UnimplementedError
from kit.exchange.layout import Range
from kit.exchange.plan import GRAD, NOW, SLOT
from kit.exchange.stepping.members import SteppedMember
from kit.recording.recomputing.stretches import Stretch
from kit.trace.log import Rows
from kit.training.elastic.generation import Change
from kit.training.job import Job
from kit.training.optimizers.rule import MeanUpdate
from kit.training.worker.worker import TrainingWorker

#: By asynchronous epoch and server, the workers whose pushes it took, in order.
Orders = Mapping[tuple[int, int], Sequence[int]]
Told = Callable[[int, int, float], None]


class AsyncUpdates:
    """The updates of one stretch, on members whose parameters lie in region NOW."""

    def __init__(
        self,
        job: Job,
        members: Sequence[SteppedMember],
        places: Mapping[int, TrainingWorker],
        orders: Orders,
        stretch: Stretch,
        told: Told,
    ) -> None:
        """Look up the orders; `FailedPreconditionError` if one is not complete."""
        self._members, self._places, self._told = members, places, told
        self._stretch, self._slots = stretch, len(job.slots)
        self._update = MeanUpdate(job.optimizer, 1)
        shards = dict(zip(job.ps, job.group.shards, strict=True))
        self._shards = {
            server: [part for part in shards[server] if part.size]
            for server in serving(job)
        }
        self._orders: dict[int, Sequence[int]] = {}
        for server in self._shards:
            order = orders.get((stretch.row.number, server), ())
            if len(order) < stretch.end - stretch.begin:
                raise FailedPreconditionError(
                    f"{job.tasks[server].short} took {stretch.end - stretch.begin} "
                    f"pushes in the asynchronous steps {stretch.begin} to "
                    f"{stretch.end}, and the order of {len(order)} of them is in the "
                    f"recording. Record a training from its start, with the setting "
                    f"trace on."
                )
            self._orders[server] = order
        self._first, self._losses = job.ps[0], dict[int, float]()
        # By worker, the servers that have not taken its current push yet.
        self._waiting: dict[int, set[int]] = {}

    def run(self, step: int, until: int) -> None:
        """Make the updates from number `step` to `until`, without `until`."""
        stretch = self._stretch
        if len(self._shards) > 1 and (until < stretch.end or step > stretch.begin):
            raise FailedPreconditionError(
                f"steps {stretch.begin} to {stretch.end} were asynchronous, at "
                f"{len(self._shards)} servers that took the pushes in orders of their "
                f"own: there is no state after step {until} that all had at one time. "
                f"Give {stretch.begin} or {stretch.end}."
            )
        # A server's next push may not be computed before another server has taken one:
        # go round until no server can take any more.
        done = dict.fromkeys(self._shards, step)
        moves = True
        while moves:
            moves = False
            for server in self._shards:
                while done[server] < until and self._take(server, done[server]):
                    done[server] += 1
                    moves = True
        if any(step < until for step in done.values()):
            raise FailedPreconditionError(
                f"the recorded orders of pushes in the steps {stretch.begin} to "
                f"{stretch.end} contradict each other."
            )

    def _take(self, server: int, step: int) -> bool:
        """Let a server take its next push; False if that is not computed yet."""
        worker = self._orders[server][step - self._stretch.begin]
        waiting = self._waiting.setdefault(worker, set())
        if not waiting:
            self._losses[worker], _ = self._places[worker].compute_next(step)
            waiting.update(self._shards)
        if server not in waiting:
            return False
        waiting.discard(server)
        if server == self._first:  # which numbers the updates
            self._told(worker, step, self._losses[worker])
        for part in self._shards[server]:
            self._apply(server, worker, part, step)
        return True

    def _apply(self, server: int, worker: int, part: Range, step: int) -> None:
        ours, theirs = self._members[server].memory, self._members[worker].memory
        now, total = ours.typed(NOW, part), theirs.typed(GRAD, part).copy()
        slots = [ours.typed(SLOT + number, part) for number in range(self._slots)]
        after = np.empty_like(now)
        self._update(now, total, slots, after, step)
        now[:] = after
        theirs.typed(NOW, part)[:] = after


# --------------------------------------------------------------------------------------
# In which order a training was updated that lost tasks while it was asynchronous.
#
# A lost worker may have pushed without reporting it. With one server there is still one
# order: that of the steps that workers were told of, and, for a step that nobody was
# told of, that of the pushes that the server took. With several servers a push may have
# reached only some of them. Steps that were done again, in another order, are recorded
# twice.


def has_losses(stretches: Sequence[Stretch]) -> bool:
    """Whether a generation of the training ended while it was asynchronous."""
    return any(
        before.row.is_asynchronous and before.row.generation != after.row.generation
        for before, after in pairwise(stretches)
    )


def check_losses(
    job: Job, stretches: Sequence[Stretch], changes: Sequence[Change]
) -> None:
    """Raise `UnimplementedError` where the order of the updates is not recorded."""
    if not has_losses(stretches):
        return
    why = ""
    if any(change.repeated for change in changes):
        why = "steps were done again, and in which order they were first is not kept"
    elif len(serving(job)) > 1:
        why = "each of its servers may have taken another number of pushes"
    elif job.states:
        why = "what a lost worker kept from step to step is not recorded"
    if why:
        raise UnimplementedError(
            f"a training that lost tasks while it was asynchronous cannot be replayed "
            f"here: {why}. It can be loaded and compared all the same."
        )


def serving(job: Job) -> list[int]:
    """Return the servers that hold parameters."""
    pairs = zip(job.ps, job.group.shards, strict=True)
    return [server for server, shard in pairs if any(part.size for part in shard)]


def orders_with_losses(
    job: Job, stretches: Sequence[Stretch], steps: Rows, pushes: Rows
) -> Orders:
    """Return whose pushes the one server took, in order, in each asynchronous epoch.

    An order ends before the first step that is not recorded.
    """
    told = steps[steps["examples"] > 0]
    by_worker = dict(zip(told["step"].tolist(), told["task"].tolist(), strict=True))
    found: dict[tuple[int, int], list[int]] = {}
    for stretch in stretches:
        if not stretch.row.is_asynchronous:
            continue
        mine = pushes[pushes["epoch"] == stretch.row.number]
        taken = dict(zip(mine["step"].tolist(), mine["worker"].tolist(), strict=True))
        order: list[int] = []
        for step in range(stretch.begin, stretch.end):
            worker = by_worker.get(step, taken.get(step))
            if worker is None:
                break
            order.append(worker)
        for server in serving(job):
            found[stretch.row.number, server] = order
    return found
