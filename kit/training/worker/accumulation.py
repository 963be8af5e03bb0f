"""A worker's gradient of a mini-batch, also in pieces, one after the other.

    split of the mini-batch   |  piece 0  |  piece 1  | piece 2 |
    gradient                   w0 * g0  +   w1 * g1  + w2 * g2

The pieces are contiguous and differ by one example at most. A piece's weight is that of
the whole times its share of the examples, so the sum is the mean over all of them. What
a step needs besides parameters and gradients is that of a piece; one more array of the
size of the parameters holds the gradient of the piece under way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from kit.errors import InvalidArgumentError
from kit.exchange.plan import GRAD
from kit.training.data.dask_source import Batch
from kit.training.data.splits import split_bounds
from kit.training.worker.gradient_buffer import GradientBuffer, StepArrays

if TYPE_CHECKING:
    from kit.training.core.job import Job
    from kit.training.worker.worker import Compute


class Accumulation:
    """Calls a step function for each piece and adds its gradients up."""

    def __init__(self, compute: Compute, n_pieces: int, arrays: StepArrays) -> None:
        """Compute in `n_pieces` pieces; the sum is where `arrays` wants gradients."""
        self._compute, self._n, self._arrays = compute, n_pieces, arrays
        self._memory = arrays.memory.another()
        self.measures: dict[bytes, float] = {}  # of the last step, besides its loss

    @cached_property
    def _piece(self) -> GradientBuffer:
        arrays = self._arrays
        return GradientBuffer(
            self._memory,
            arrays.task,
            GRAD,
            native=arrays.native,
            may_overflow=arrays.may_overflow,
        )

    def __call__(
        self,
        step: int,
        batch: Batch,
        weight: float,
        ready: Callable[[int], None],
        *,
        number: int,
    ) -> float:
        """Return the mean loss; every gradient is then in the flat buffer.

        As `Compute` does. A bucket is ready when the last piece has completed it.
        """
        total, loss, means = _length(batch), 0.0, Means()
        # Buckets that the last piece has not handed over one by one.
        waiting = dict.fromkeys(range(len(self._memory.layout.buckets)))

        def add(bucket: int) -> None:
            del waiting[bucket]
            self._add(bucket)

        def hand_on(bucket: int) -> None:
            add(bucket)
            ready(bucket)

        for piece, rows in enumerate(_pieces(total, self._n)):
            share = (rows.stop - rows.start) / total
            is_last = piece == self._n - 1
            loss += share * self._compute(
                step,
                tuple(part[rows] for part in batch),
                weight * share,
                hand_on if is_last else lambda bucket: None,
                number=number,
                piece=piece,
                into=self._piece if piece else None,
            )
            means.add(self._compute.measures, rows.stop - rows.start)
            if not piece:
                continue  # it is where the sum is to be
            for bucket in list(waiting):
                add(bucket) if is_last else self._add(bucket)
        self.measures = means.result()
        return loss

    def _add(self, bucket: int) -> None:
        """Add what the piece has of a bucket to the sum."""
        memory, arrays = self._memory, self._arrays
        part = memory.layout.buckets[bucket].range
        whole = arrays.memory.typed(arrays.stamp.where(GRAD), part)
        np.add(whole, memory.typed(GRAD, part), out=whole)


class Means:
    """The means of measures by name, each over the examples that it was taken of."""

    def __init__(self) -> None:
        self._sums: dict[bytes, float] = {}
        self._examples: dict[bytes, int] = {}

    def add(self, measures: Mapping[bytes, float], examples: int) -> None:
        """Take in what was measured on so many examples."""
        for name, value in measures.items():
            self._sums[name] = self._sums.get(name, 0.0) + value * examples
            self._examples[name] = self._examples.get(name, 0) + examples

    def result(self) -> dict[bytes, float]:
        """Return the means.

        >>> means = Means()
        >>> means.add({b"accuracy": 1.0}, 1)
        >>> means.add({b"accuracy": 0.5}, 3)
        >>> means.result()
        {b'accuracy': 0.625}
        """
        return {
            name: total / self._examples[name] for name, total in self._sums.items()
        }


def _pieces(total: int, n: int) -> Iterator[slice]:
    if total < n:
        raise InvalidArgumentError(
            f"a worker's split of a mini-batch has {total} examples and cannot be "
            f"computed in {n} pieces; give a smaller accumulate, or a larger batch."
        )
    return (slice(*split_bounds(total, n, piece)) for piece in range(n))


def _length(batch: Sequence[Any]) -> int:
    lengths = {len(part) for part in batch}
    if len(lengths) != 1:
        raise InvalidArgumentError(
            f"the arrays of a mini-batch have {sorted(lengths)} rows and cannot be cut "
            f"into pieces; with accumulate, each needs a row for each example."
        )
    return lengths.pop()


# --------------------------------------------------------------------------------------
# A worker's part of a step.


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
