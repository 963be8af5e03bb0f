"""A step that takes `rng` draws the same on whichever task and however often."""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

import kit
from tests.training.toy import (
    BATCH,
    Params,
    begin,
    fit,
    gradients,
    quick_cluster,
    replayed,
    same_bits,
)

pytestmark = pytest.mark.slow

STEPS, SEED = 6, 0


def drawn(step: int, worker: int) -> np.random.Generator:
    """Return what the documentation of `kit.train` says that a step gets."""
    bits = np.random.Philox(key=[SEED, step], counter=[0, 0, 2, worker])
    return np.random.Generator(bits)


def with_dropout(
    params: Params, batch: Any, rng: np.random.Generator
) -> tuple[float, Params]:
    x, y = batch
    return fit(params, (x * (rng.random(x.shape) < 0.8), y))


def replay_of_dropout(n_workers: int) -> Params:
    def of_workers(params: Params, step: int) -> list[Params]:
        ranks = itertools.count()

        def dropping(params: Params, batch: Any) -> tuple[float, Params]:
            return with_dropout(params, batch, drawn(step, next(ranks)))

        return gradients(params, step, n_workers, BATCH, dropping)

    optimizer = kit.Adam(0.02)
    return replayed(STEPS, n_workers, optimizer, of_workers=of_workers)


def train(cluster: Any, step: Any = with_dropout, **changes: Any) -> kit.Run:
    options: dict[str, Any] = {"optimizer": kit.Adam(0.02), "steps": STEPS} | changes
    return begin(cluster, step, seed=SEED, **options).wait(20)


def test_dropout_gives_the_bits_of_the_replay() -> None:
    with quick_cluster(0, 3) as cluster:
        run = train(cluster, topology="ring")

    assert same_bits(run.params, replay_of_dropout(3))
    assert not same_bits(run.params, replayed(STEPS, 3, kit.Adam(0.02)))


def test_a_worker_at_its_own_pace_draws_by_its_own_mini_batches() -> None:
    seen: dict[int, list[float]] = defaultdict(list)

    def step(
        params: Params, batch: Any, *, rng: np.random.Generator, grads: Params
    ) -> float:
        worker = int(rng.bit_generator.state["state"]["counter"][3])
        seen[worker].append(rng.random())
        loss, result = fit(params, batch)
        for name, gradient in result.items():
            grads[name] = gradient
        return loss

    with quick_cluster(1, 2) as cluster:
        train(cluster, step, topology="ps", sync=False, steps=12)

    assert sum(map(len, seen.values())) >= 12
    for worker, numbers in seen.items():
        expected = [drawn(own, worker).random() for own in range(len(numbers))]
        assert numbers == expected
