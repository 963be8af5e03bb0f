"""What a worker computes with, for the whole training: its data and its step function.

It outlives epochs: a switch neither opens the data again nor looks the parameters up.
"""

from __future__ import annotations

from collections.abc import Mapping

from kit.exchange.ports.endpoint import Endpoint
from kit.exchange.ports.memory import Memory
from kit.training.data.sources import make_source
from kit.training.graph_step.step import GraphStep
from kit.training.job import Job, Work
from kit.training.worker.compute import Compute, Ready


class Workplace:
    """One worker's source of examples and its `Compute`."""

    def __init__(
        self, job: Job, me: int, work: Work, memory: Memory, endpoint: Endpoint
    ) -> None:
        """Open the data; raises what the source refuses."""
        self._n, self._batch = len(job.workers), job.batch
        self.rank = job.workers.index(me)
        self.source = make_source(work.data, job.batch, job.seed, self.rank, self._n)
        step = work.step
        if isinstance(step, GraphStep):
            # With a single bucket nothing could travel before the rest is computed.
            in_parts = job.synchronous and len(job.layout.buckets) > 1
            task = job.tasks[me]
            step = step.for_worker(task, self.rank, job.seed, in_parts=in_parts)
        self._compute = Compute(
            *(step, memory, str(job.tasks[me]), endpoint.stamp),
            native=job.settings.native,
        )
        self.taken = 0  # mini-batches read at the worker's own pace
        self._examples = 0

    def measured(self) -> tuple[Mapping[bytes, float], int]:
        """Return what the last step told beside its loss, and its examples."""
        return self._compute.measures, self._examples

    def compute(self, step: int, ready: Ready) -> tuple[float, int]:
        """Compute the gradients of a synchronous step: its loss and its examples."""
        batch, examples = self.source.batch(step), self.source.examples(step)
        self._examples = examples
        weight = self._n * examples / self._batch
        return self._compute(step, batch, weight, ready), examples

    def compute_next(self, version: int) -> tuple[float, int]:
        """Compute the gradients of this worker's own next mini-batch."""
        number, self.taken = self.taken, self.taken + 1
        batch, examples = self.source.batch(number), self.source.examples(number)
        self._examples = examples
        return self._compute(version, batch, 1.0, lambda bucket: None), examples
