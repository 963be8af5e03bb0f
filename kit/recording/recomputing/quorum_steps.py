"""Steps with backup workers: made of the R gradients that the servers took, of N.

A worker with a late push had computed the gradient of that step too, with the same
parameters, and its step function may have kept something from it. So it is computed
again, but does not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kit.errors import FailedPreconditionError
from kit.exchange.plan import GRAD, NOW, SLOT
from kit.exchange.stepping.members import SteppedMember
from kit.training.backup_workers.policy import QuorumUpdate, Sums, held, pieces
from kit.training.job import Job


class Pushed(NamedTuple):
    """The workers that pushed a gradient of a step: those that counted, and late."""

    counted: frozenset[int]
    late: frozenset[int]


class QuorumSteps:
    """The sums and updates of all servers, on members with parameters in NOW."""

    def __init__(
        self,
        job: Job,
        members: Sequence[SteppedMember],
        pushed: Mapping[int, Pushed],
    ) -> None:
        self._job, self._members, self._pushed = job, members, pushed
        self._update = QuorumUpdate(job.optimizer, job.batch, len(job.workers))
        workers = [members[worker].memory for worker in job.workers]
        self._sums = {
            server: Sums(
                len(workers),
                [
                    (
                        number,
                        members[server].memory.typed(GRAD, piece),
                        {n: one.typed(GRAD, piece) for n, one in enumerate(workers)},
                    )
                    for number, piece in pieces(job, server)
                ],
            )
            for server in job.ps
        }

    def pushed(self, step: int) -> Pushed:
        """Return who computed a step; `FailedPreconditionError` if that is unknown."""
        found = self._pushed.get(step, Pushed(frozenset(), frozenset()))
        if len(found.counted) != self._job.quorum:
            raise FailedPreconditionError(
                f"step {step} was made of {self._job.quorum} gradients, and whose is "
                f"in the recording for {len(found.counted)} of them. Record a training "
                f"from its start, with the setting trace on."
            )
        return found

    def complete(self, step: int) -> None:
        """Add up what counts, update, and give all workers the new parameters."""
        job = self._job
        ranks = {job.workers.index(worker) for worker in self.pushed(step).counted}
        self._update.weigh(ranks)
        for server in job.ps:
            self._sums[server].add(ranks)
            memory = self._members[server].memory
            for part in held(job, server):
                if not part.size:
                    continue
                now = memory.typed(NOW, part)
                slots = [memory.typed(SLOT + n, part) for n in range(len(job.slots))]
                after = np.empty_like(now)
                self._update(now, memory.typed(GRAD, part), slots, after, step)
                for member in (server, *job.workers):
                    self._members[member].memory.typed(NOW, part)[:] = after
