"""Trainings of the first R of N gradients: a forced order of arrivals, and a replay.

The replay is plain numpy. It is told of which workers each step was made, and adds
their gradients as it is promised: in the order of all workers, without the others.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

import kit
from kit.server.trainings import Trainings
from kit.training.data.sources import ArraySource, Source
from kit.training.optimizers.rule import Optimizer
from tests.exchange import replay
from tests.training.toy import (
    BATCH,
    DATA,
    Array,
    Params,
    fit,
    gradients,
    initial,
    update,
)


class Marked:
    """The toy's data; each batch begins with the worker's number and the step."""

    def source(self, batch: int, seed: int, worker: int, n_workers: int) -> Source:
        return MarkedSource(DATA, batch, seed, worker, n_workers)


class MarkedSource(ArraySource):
    def __init__(
        self, data: Any, batch: int, seed: int, worker: int, n_workers: int
    ) -> None:
        super().__init__(data, batch, seed, worker, n_workers)
        self._worker = worker

    def batch(self, step: int) -> tuple[Any, ...]:
        return (np.array([self._worker, step]), *super().batch(step))


class Late:
    """A step function: some workers hand in nothing before the step is over."""

    def __init__(self, late: Mapping[int, Collection[int]]) -> None:
        """`late` are the workers of each step that must not be among the first."""
        self._late, self._run = late, ""
        self._server: Trainings | None = None
        self._ready, self._pause = threading.Event(), threading.Event()

    def watch(self, server: Trainings, run: kit.Run) -> None:
        """Say which server completes the steps; nobody computes before."""
        self._server, self._run = server, run.job.run
        self._ready.set()

    def __call__(self, params: Params, batch: Any) -> Any:
        (worker, step), *examples = batch
        self.hold_back(int(worker), int(step))
        return fit(params, examples)

    def hold_back(self, worker: int, step: int) -> None:
        """Return at once, but to a worker that is to be late when the step is over."""
        assert self._ready.wait(10)
        assert self._server is not None
        member = self._server.find(self._run)
        if worker in self._late.get(step, ()):
            while member.step <= step and not member.is_over:
                self._pause.wait(0.001)  # a look; nothing depends on how long it takes


def ranks(run: kit.Run) -> list[list[int]]:
    """Return the numbers of the workers that each step was made of."""
    names = [run.job.tasks[worker].short for worker in run.job.workers]
    return [[names.index(item) for item in r["contributors"]] for r in run.metrics]


def replayed(
    made_of: Sequence[Collection[int]],
    n_workers: int,
    optimizer: Optimizer,
    batch: int = BATCH,
) -> Params:
    """Return the parameters after steps of these workers, bit for bit."""
    examples = [len(part) for part in np.array_split(np.arange(batch), n_workers)]
    params = initial()
    slots: dict[str, dict[str, Array]] = {name: {} for name in params}
    for step, counted in enumerate(made_of):
        own = gradients(params, step, n_workers, batch)
        factor = batch / (n_workers * sum(examples[rank] for rank in counted))
        for name, summed in total(own, counted).items():
            mean = summed * summed.dtype.type(factor)
            params[name] = update(optimizer, params[name], mean, slots[name], step)
    return params


def total(own: Sequence[Params], counted: Collection[int]) -> Params:
    """Return the sum of the gradients of some workers, in the promised order."""
    n, names = len(own), list(reversed(own[0]))
    result: Params = {}
    for dtype in dict.fromkeys(own[0][name].dtype for name in names):
        group = [name for name in names if own[0][name].dtype == dtype]
        flats = np.stack(
            [np.concatenate([row[name].ravel() for name in group]) for row in own]
        )
        first = replay.first_adder(flats.shape[1], dtype.itemsize, n, 0)
        sums, is_begun = np.zeros_like(flats[0]), np.zeros(len(first), bool)
        for hop in range(n):
            rank = (first + hop) % n
            counts = np.isin(rank, list(counted))
            values = flats[rank, np.arange(len(first))]
            # The first one is taken as it is: 0 + -0 would be another zero.
            more = np.where(is_begun, sums + values, values)
            sums, is_begun = np.where(counts, more, sums), is_begun | counts
        pieces = np.split(sums, np.cumsum([own[0][name].size for name in group])[:-1])
        for name, piece in zip(group, pieces, strict=True):
            result[name] = piece.reshape(own[0][name].shape)
    return {name: result[name] for name in own[0]}
