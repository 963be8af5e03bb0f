"""Asynchronous updates, in the order in which the servers took the pushes.

A worker computes with what it has pulled last, and pulls from each server right after
its own push was taken there. So the order of the pushes at each server is all that
decides, and it is recorded. With one server each update is one step. Several servers
may have taken the pushes in different orders, so there is no common state between them
until all have taken all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from kit.errors import FailedPreconditionError
from kit.exchange.layout import Range
from kit.exchange.plan import GRAD, NOW, SLOT
from kit.exchange.stepping.members import SteppedMember
from kit.recording.recomputing.stretches import Stretch
from kit.training.job import Job
from kit.training.optimizers.rule import MeanUpdate
from kit.training.worker.worker import TrainingWorker

#: Of each asynchronous epoch and server, the workers whose pushes it took, in order.
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
        """Look the orders up; `FailedPreconditionError` if they are not all there."""
        self._members, self._places, self._told = members, places, told
        self._stretch, self._slots = stretch, len(job.slots)
        self._update = MeanUpdate(job.optimizer, 1)
        self._shards = {
            server: [part for part in shard if part.size]
            for server, shard in zip(job.ps, job.group.shards, strict=True)
            if any(part.size for part in shard)
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
        self._waiting: dict[int, set[int]] = {}  # worker: who has yet to take its push

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
