"""A worker's gradient of a mini-batch, as its part of a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kit.training.data.dask_source import Batch
from kit.training.worker.accumulation import Accumulation
from kit.training.worker.gradient_buffer import StepArrays

if TYPE_CHECKING:
    from kit.training.core.job import Job
    from kit.training.worker.worker import Compute

# A mini-batch's own rows, how many these are, and how many those of all workers are.
Read = Callable[[int], tuple[Batch, int, int]]
Measured = tuple[Mapping[bytes, float], int]  # what steps gave, and of how many


class OwnGradient:
    """What a worker does by itself in a step: it computes a gradient.

    Attributes:
        kept: What the step function keeps from step to step.
    """

    def __init__(self, job: Job, arrays: StepArrays, state: dict[str, Any]) -> None:
        """`state` holds what stays with the worker between two exchanges."""
        self.params, self.kept = arrays.params, state
        self._n = len(job.workers)

    def run(
        self,
        step: int,
        read: Read,
        compute: Compute | Accumulation,
        ready: Callable[[int], None],
    ) -> tuple[float, Measured]:
        """Do the own part of a step; what travels is then in place.

        Returns the mean loss, and what else was measured. `ready` is told of each
        bucket that is complete before the rest is.
        """
        batch, examples, total = read(step)
        weight = self._n * examples / total
        loss = compute(step, batch, weight, ready, number=step)
        return loss, (compute.measures, examples)

    def take_mean(self, n: int) -> None:
        """Go on from the mean of `n` workers: not here, where all workers agree."""
        raise NotImplementedError
