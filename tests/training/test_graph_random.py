"""Random ops in a training: streams of their own that a seed repeats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kit
from kit.graph.graph import Graph
from kit.graph.ops.math import random
from kit.graph.ops.state.source import placeholder
from kit.graph.variable import Variable, initialize_all
from kit.session.client.session import Session
from kit.task import Task
from kit.testing.cluster import LocalCluster
from kit.training.features.graph_step.loss import work_of
from kit.training.features.graph_step.step import GraphStep
from tests.training.graph_models import Array, Params
from tests.training.toy import same_bits


class Noise:
    """A model whose gradient is what it draws: the loss is the sum of w * noise."""

    def __init__(self, seed: int | None = None) -> None:
        with Graph().as_default():
            self.x = placeholder("float64", (None,))
            noise = random.uniform((5,), dtype="float64", seed=seed)
            self.w = Variable(np.zeros(5), name="w")
            self.loss = (self.w * noise).sum() + self.x.mean() * 0.0

    def step(self, rank: int, seed: int = 0) -> Any:
        work = work_of(self.loss, {self.x: np.zeros(8)})
        assert isinstance(work.step, GraphStep)
        return work.step.for_worker(Task("worker", rank), rank, seed, in_parts=False)

    def drawn(self, rank: int, times: int, seed: int = 0) -> list[Array]:
        step, params = self.step(rank, seed), {"w": np.zeros(5)}
        return [step(params, (np.zeros(4),))[1]["w"].copy() for _ in range(times)]


@pytest.mark.parametrize("seed", [None, 3])
def test_each_worker_and_step_draws_other_numbers_and_the_same_again(
    seed: int | None,
) -> None:
    first, other = Noise(seed).drawn(0, 3), Noise(seed).drawn(1, 3)
    drawn = {value.tobytes() for value in (*first, *other)}

    assert len(drawn) == 6
    assert [array.tobytes() for array in Noise(seed).drawn(0, 3)] == [
        array.tobytes() for array in first
    ]
    assert Noise(seed).drawn(0, 1, seed=1)[0].tobytes() not in drawn


@pytest.mark.slow
def test_a_training_with_random_ops_has_the_mean_of_what_the_workers_draw(
    cluster: LocalCluster,
) -> None:
    noise = Noise()
    run = kit.train(
        noise.loss,
        {noise.x: np.zeros(8)},
        optimizer=kit.GradientDescent(1.0),
        steps=2,
        batch=4,
        seed=5,
        cluster=cluster,
    ).wait(20)

    by_worker = [noise.drawn(rank, 2, seed=5) for rank in (0, 1)]
    wanted = -sum(sum(draws) / 2 for draws in zip(*by_worker, strict=True))
    np.testing.assert_allclose(run.params["w"], wanted, rtol=1e-14)


def test_initial_values_that_are_drawn_depend_on_the_seed_alone() -> None:
    def begun(seed: int) -> Params:
        with Graph().as_default():
            x = placeholder("float64", (None,))
            w = Variable(random.normal((4,), dtype="float64"), name="w")
            work = work_of(w.sum() * x.mean(), {x: np.zeros(8)}, seed=seed)
        assert work.params is not None
        return work.params

    assert same_bits(begun(1), begun(1))
    assert not same_bits(begun(1), begun(2))
    assert np.abs(begun(1)["w"]).min() > 0


def test_initial_values_with_a_seed_of_their_own_are_those_of_a_session() -> None:
    with Graph().as_default(), Session() as session:
        x = placeholder("float64", (None,))
        w = Variable(random.normal((4,), dtype="float64", seed=9), name="w")
        work = work_of(w.sum() * x.mean(), {x: np.zeros(8)}, seed=1)
        session.run(initialize_all())

        assert work.params is not None
        assert same_bits(work.params, {"w": session.run(w)})
