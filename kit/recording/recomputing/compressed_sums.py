"""The sums of compressed gradients, by the compressor and its stages, in one thread.

As in a training, each worker has its own compressor and what that keeps. Each stage has
its own memory here, in which the topology's plans sum up what that stage sends.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from copy import deepcopy
from typing import Any

import numpy as np

from kit.errors import FailedPreconditionError
from kit.exchange.compression.compressor import Arrays, Compressor, Turn
from kit.exchange.compression.feedback import Feedback, following, put
from kit.exchange.compression.stages import hand_out
from kit.exchange.layout import Range
from kit.exchange.plan import GRAD, NEXT
from kit.exchange.ports.memory import Array
from kit.exchange.stepping.members import carry_out, linked_members
from kit.exchange.stepping.stepped_exchange import SteppedExchange, record
from kit.exchange.topologies.topology import Topology
from kit.training.job import Job

Kept = Mapping[int, dict[str, Any]]  # by worker


class CompressedSums:
    """The compressors of all workers, and members for the stages."""

    def __init__(
        self, job: Job, compressor: Compressor | None, kept: Kept, stack: ExitStack
    ) -> None:
        """`kept` is changed in place by each step; the stack closes the members."""
        if compressor is None:
            raise FailedPreconditionError(
                f"the training had compress={job.compress}, which is not here; give "
                f"it to kit.replay(..., compress=...)."
            )
        self._job, self._compressor, self._kept = job, compressor, kept
        self._feedbacks = self._feedbacks_of(kept)
        self._names = [task.short for task in job.tasks]
        self._linked = [
            stack.enter_context(linked_members(stage.layout, self._names))
            for stage in job.stages
        ]

    def take(self, topology: Topology) -> None:
        """Use this topology for the sums from now on."""
        for stage, (members, _) in zip(self._job.stages, self._linked, strict=True):
            for member in members:
                plan = topology.plan(stage.layout, stage.group, member.number)
                member.take(plan, hand_out)

    def exchange(self, step: int, gradients: Mapping[int, Arrays]) -> Mapping[int, Any]:
        """Return the mean gradient by worker; what is kept changes."""
        return self._exchange(step, gradients, self._feedbacks, [])

    def record(
        self,
        step: int,
        gradients: Mapping[int, Arrays],
        topology: Topology,
        most: int,
    ) -> list[SteppedExchange]:
        """Return the exchange of each stage, message by message; nothing changes."""
        found: list[list[Array]] = []
        feedbacks = self._feedbacks_of(deepcopy(self._kept))
        self._exchange(step, gradients, feedbacks, found)
        return [
            record(topology, stage.layout, stage.group, self._names, values, most)
            for stage, values in zip(self._job.stages, found, strict=True)
        ]

    def _feedbacks_of(self, kept: Kept) -> dict[int, Feedback]:
        job = self._job
        return {
            worker: Feedback(
                *(deepcopy(self._compressor), job.specs, job.stage_specs),
                *(kept[worker], str(job.tasks[worker])),
            )
            for worker in job.workers
        }

    def _exchange(
        self,
        step: int,
        gradients: Mapping[int, Arrays],
        feedbacks: Mapping[int, Feedback],
        told: list[list[Array]],
    ) -> Mapping[int, Any]:
        """Go through all stages; `told` collects what each worker sends in each."""
        workers = self._job.workers
        stages = {
            worker: feedbacks[worker].exchange(
                gradients[worker], Turn(step, rank, len(workers))
            )
            for rank, worker in enumerate(workers)
        }
        given: dict[int, Any] = {worker: next(stages[worker]) for worker in workers}
        for number, stage in enumerate(self._job.stages):
            members, hold = self._linked[number]
            for worker in workers:
                put(given[worker], members[worker].memory.leaves(GRAD))
            whole = Range(0, stage.layout.n_bytes)
            raws = [bytes(members[w].memory.raw(GRAD, whole)) for w in workers]
            told.append([np.frombuffer(raw, np.uint8) for raw in raws])
            carry_out(members, hold)
            for worker in workers:
                sums = members[worker].memory.leaves(NEXT)
                given[worker] = following(stages[worker], sums)
        return given
