"""Trainings with compressed gradients, done again in plain numpy.

Nothing here uses the compressors or the exchange: each oracle is written from the
published algorithm, and its sums are those of `tests.exchange.replay`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kit.training.optimizers.rule import Optimizer
from tests.exchange import replay
from tests.training.toy import Array, Params, gradients, initial

Kept = list[dict[str, Array]]  # of each worker: what it has not sent yet
Mean = Callable[[list[Params], int, dict[str, Any]], tuple[Params, list[Params]]]


def float16(
    given: list[Params], step: int, kept: dict[str, Any]
) -> tuple[Params, list[Params]]:
    """Return the mean gradient, and what each worker has sent of its own."""
    n = len(given)
    halves = [
        {name: (g * g.dtype.type(1 / n)).astype("e") for name, g in one.items()}
        for one in given
    ]
    total = replay.total(halves)
    like = given[0]
    return (
        {name: total[name].astype(like[name].dtype) for name in like},
        [
            {name: (one[name].astype(like[name].dtype) * n) for name in like}
            for one in halves
        ],
    )


ORACLES: dict[str, Mean] = {"float16": float16}


def replayed(
    steps: int,
    n_workers: int,
    optimizer: Optimizer,
    oracle: Mean,
    first: Callable[[], Params] = initial,
    of_workers: Callable[[Params, int], list[Params]] | None = None,
) -> Params:
    """Return the parameters after `steps` steps with error feedback, bit for bit."""
    params, kept = first(), dict[str, Any]()
    residuals: Kept = [
        {name: np.zeros_like(value) for name, value in params.items()}
        for _ in range(n_workers)
    ]
    slots = {
        name: [np.full(value.size, one.initial, value.dtype) for one in optimizer.slots]
        for name, value in params.items()
    }
    for step in range(steps):
        found = (
            of_workers(params, step)
            if of_workers
            else gradients(params, step, n_workers)
        )
        whole = [
            {name: np.asarray(one[name] + rest[name]) for name in params}
            for one, rest in zip(found, residuals, strict=True)
        ]
        mean, own = oracle(whole, step, kept)
        residuals = [
            {name: np.asarray(one[name] - sent[name]) for name in params}
            for one, sent in zip(whole, own, strict=True)
        ]
        for name, value in params.items():
            flat, out = value.ravel(), np.empty(value.size, value.dtype)
            optimizer.apply(flat, mean[name].ravel(), slots[name], out, step)
            params[name] = out.reshape(value.shape)
    return params
