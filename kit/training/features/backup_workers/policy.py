"""Which gradients a step is made of, when it waits for the first R of N only.

Pure. A `Quorum` is the account that every parameter server keeps; it depends on nothing
but the order in which gradients arrive at the first server, so servers that learn
this order agree on every step.

    R = 2    worker 0 --gradient of step 4--> counts
             worker 2 --gradient of step 4--> counts: step 4 is full, made of 0 and 2
             worker 1 --gradient of step 4--> late: dropped, it goes on with step 5

Chen et al., "Revisiting distributed synchronous SGD", arXiv:1604.00981, 2016: with some
backup workers nobody waits for the slowest. The mean is that over the gradients that
count, each weighted by its number of examples:

    mean = (e_a * g_a + e_b * g_b + ...) / (e_a + e_b + ...)

added in the order of the workers in which all of them would be added.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kit.errors import InternalError
from kit.exchange.execution.bound_operations import Update
from kit.exchange.layout import Layout, Range, intersect
from kit.exchange.plan import chain
from kit.exchange.ports.memory import Array
from kit.training.core.job import Job
from kit.training.data.splits import split_bounds
from kit.training.features.asynchronous.served_steps import Account, Fate, held
from kit.training.optimizers.rule import Optimizer, over


class Quorum(Account):
    """One server's account of the steps between two boundaries.

    >>> quorum = Quorum([1, 2, 3], needed=2, step=4, end=10)
    >>> [quorum.arrive(worker, 4).value for worker in (1, 3)], quorum.counted
    (['counts', 'fills'], [1, 3])
    >>> quorum.complete(), quorum.arrive(2, 4), quorum.step
    ([1, 3], <Fate.LATE: 'late'>, 5)
    """

    def __init__(
        self, workers: Collection[int], needed: int, step: int, end: int
    ) -> None:
        """Begin with `step`; no step is begun that is not below `end`."""
        super().__init__(workers, step)
        self.alive, self._needed = set(workers), needed
        self._end_after(end)

    @property
    def is_too_small(self) -> bool:
        """Whether there are steps to do and too few workers to fill one."""
        return not self.is_ending and len(self.alive) < self._needed

    def arrive(self, worker: int, step: int, halts: bool = False) -> Fate:
        """Take a worker's gradient; `halts`: it asks for a boundary after its step.

        If it is late, the boundary comes after the step under way. The worker is
        answered at once if it is `LATE`, else when the step is complete.
        """
        if worker not in self.awaited or step > self.step:
            raise InternalError(
                f"member {worker} sent a gradient of step {step} in step {self.step}, "
                f"and nobody waits for it."
            )
        if halts:
            self._end_after(min(self.end, self.step + 1))
        self.awaited.discard(worker)
        if step < self.step:
            self._answered(worker)
            return Fate.LATE
        self.counted.append(worker)
        return Fate.FILLS if len(self.counted) == self._needed else Fate.COUNTS

    def complete(self) -> list[int]:
        """End the step, whose sum was applied; returns who is answered now.

        A worker that was lost after its push counts, and gets no answer.
        """
        done = [worker for worker in self.counted if worker in self.alive]
        self.step, self.counted = self.step + 1, []
        self._end_after(self.end)
        for worker in done:
            self._answered(worker)
        return done

    def lose(self, worker: int) -> None:
        """Go on without a worker. What it has sent in time counts."""
        self.alive.discard(worker)
        super().lose(worker)

    def _end_after(self, end: int) -> None:
        self.end, self.is_ending = end, self.step >= end

    def _answered(self, worker: int) -> None:
        if worker in self.alive and not self.is_ending:
            self.awaited.add(worker)


def order_of(chunk: int, n_workers: int, counted: Collection[int]) -> tuple[int, ...]:
    """Return the order in which the shares of a chunk are added.

    That of the sum of all workers, without those that do not count.

    >>> order_of(2, 4, counted={0, 1, 3})
    (3, 0, 1)
    """
    return tuple(rank for rank in chain(chunk, n_workers) if rank in counted)


class QuorumUpdate:
    """The `Update` of a step of some workers: the optimizer, fed with their mean."""

    def __init__(self, optimizer: Optimizer, batch: int, n_workers: int) -> None:
        """Take what weighs the workers' gradients: n_workers * examples / batch."""
        self._optimizer = optimizer
        bounds = [split_bounds(batch, n_workers, rank) for rank in range(n_workers)]
        self._examples = [hi - lo for lo, hi in bounds]
        self._batch = batch
        self.factor = 1.0

    def weigh(self, counted: Collection[int]) -> None:
        """Say whose gradients the next sum is made of."""
        # The gradients are weighted by n * examples / batch already: this turns their
        # sum into the mean over the examples that count.
        examples = sum(self._examples[rank] for rank in counted)
        self.factor = self._batch / (len(self._examples) * examples)

    def over(self, layout: Layout, part: Range) -> Update:
        """Return the update of a range, by the optimizer of its parameters."""
        optimizer = over(self._optimizer, layout, part)

        def update(
            now: Array, total: Array, slots: Sequence[Array], out: Array, step: int
        ) -> None:
            total *= total.dtype.type(self.factor)
            optimizer.apply(now, total, slots, out, step)

        return update

    def __call__(
        self, now: Array, total: Array, slots: Sequence[Array], out: Array, step: int
    ) -> None:
        """Write the next parameters to `out`; overwrites `total` with the mean."""
        total *= total.dtype.type(self.factor)
        self._optimizer.apply(now, total, slots, out, step)


def pieces(job: Job, server: int) -> list[tuple[int, Range]]:
    """Return the number of each chunk that a server holds some of, and that part."""
    return [
        (number, piece)
        for part in held(job, server)
        for bucket in job.layout.buckets
        for number, chunk in enumerate(bucket.chunks)
        if (piece := intersect(part, chunk))
    ]
