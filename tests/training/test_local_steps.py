"""Local steps: workers train by themselves, and exchange how far they have moved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kit
from kit.errors import InvalidArgumentError, NotFinite, StepFailed
from kit.exchange.layout import specs_of
from kit.exchange.plan import NOW
from kit.exchange.ports.memory import Memory
from kit.exchange.ports.port import Stamp
from kit.graph.graph import Graph
from kit.graph.ops.math import random
from kit.graph.ops.state.source import placeholder
from kit.graph.variable import Variable
from kit.task import Task
from kit.testing.cluster import LocalCluster, local_cluster
from kit.training.core.job import Work
from kit.training.optimizers.rule import Optimizer
from kit.training.worker.worker import TrainingWorker
from tests.training import backups, toy
from tests.training.alone import Alone, Move, descend, roll
from tests.training.jobs import made
from tests.training.toy import (
    BATCH,
    DATA,
    Array,
    Params,
    X,
    Y,
    fit,
    initial,
    quick_cluster,
    replayed,
    same_bits,
)

pytestmark = pytest.mark.lasting("descriptor")
STEPS, H = 6, 3
MOMENTUM = kit.Momentum(0.01, 0.5)
NESTEROV = kit.Momentum(0.7, 0.9, use_nesterov=True)
PLAIN = kit.GradientDescent(1.0)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with quick_cluster(2, 3) as result:
        yield result


def begin(cluster: LocalCluster, step: Any = fit, **changes: Any) -> kit.Run:
    chosen: dict[str, Any] = {"optimizer": MOMENTUM, "local_steps": H, "steps": STEPS}
    return toy.begin(
        cluster, step, **chosen | {"outer": NESTEROV, "topology": "ring"} | changes
    )


def expected(
    steps: int = STEPS,
    n_workers: int = 3,
    outer: Optimizer = NESTEROV,
    move: Move = roll,
) -> Params:
    alone = Alone(n_workers, H, move)
    return replayed(steps, n_workers, outer, of_workers=alone)


@pytest.mark.slow
@given(
    *(st.integers(1, 4), st.integers(1, 4), st.integers(1, 2)),
    st.lists(st.integers(0, 20), min_size=1, max_size=3),
)
def test_what_a_worker_offers_is_that_of_the_replay(
    n_workers: int, n_steps: int, pieces: int, steps: list[int]
) -> None:
    """Of workers that exchange nothing: each begins where it is told to."""
    job = made(
        tasks=tuple(Task("worker", number) for number in range(n_workers)),
        specs=specs_of(initial()),
        optimizer=PLAIN,
        topology="ring",
        steps=100,
        batch=BATCH,
        accumulate=pieces,
        local_steps=n_steps,
        inner=MOMENTUM,
    )
    alone = Alone(n_workers, n_steps, roll, pieces)
    for rank in range(n_workers):
        memory, endpoint = Memory(job.layout), cast(Any, SimpleNamespace(stamp=Stamp()))
        worker = TrainingWorker(job, rank, Work(fit, DATA), memory, endpoint, {})
        for step in sorted(steps):
            now = {
                k: np.asarray(v + v.dtype.type(step / 64)) for k, v in initial().items()
            }
            for name, target in memory.leaves(NOW).items():
                target[...] = now[name]
            worker.compute(step, lambda bucket: None)
            want = alone.offer(now, step, rank)
            assert same_bits(memory.gradients(), want)


def test_the_parameters_become_the_mean_of_the_workers_by_default(
    cluster: LocalCluster,
) -> None:
    options: dict[str, Any] = {"outer": None, "optimizer": kit.GradientDescent(0.01)}
    run = begin(cluster, **options).wait(20)

    assert same_bits(run.params, expected(outer=PLAIN, move=descend))
    offers = Alone(3, H, descend)(initial(), 0)
    mean = {k: v - sum(o[k] for o in offers) / 3 for k, v in initial().items()}
    first = begin(cluster, steps=1, **options).wait(20)
    assert all(np.allclose(first.params[k], v, rtol=1e-5) for k, v in mean.items())


def test_a_step_costs_the_bytes_of_the_formula_whatever_happens_before_it(
    cluster: LocalCluster,
) -> None:
    plain = begin(cluster, local_steps=None, outer=None).wait(20)
    local = begin(cluster, local_steps=5).wait(20)

    for entry, other in zip(local.traffic, plain.traffic, strict=True):
        assert entry.sent == entry.formula_sent == other.sent
        assert entry.received == entry.formula_received == other.received


def test_loss_and_measures_are_the_means_over_the_local_steps(
    cluster: LocalCluster,
) -> None:
    def step(params: Params, batch: Any, rng: Any, state: dict[str, Any]) -> Any:
        state["n"] = state.get("n", 0) + 1
        key = int(rng.bit_generator.state["state"]["key"][1])  # of the mini-batch
        _, gradients = fit(params, batch)
        return state["n"], gradients, {"number": key}

    run = begin(cluster, step, steps=4).wait(20)

    want = [1 + H * step + (H - 1) / 2 for step in range(4)]
    assert np.allclose([row["loss"] for row in run.metrics], want)
    _, numbers = run.trace.measured("number")
    assert np.allclose(numbers, [item - 1 for item in want])
    assert run.step == 4


@pytest.mark.slow
def test_one_worker_alone_draws_and_learns_as_without_local_steps() -> None:
    """A step that draws, and a graph that does: but for rounding in each exchange."""
    with Graph().as_default():
        x, y = placeholder("float32", (None, 3)), placeholder("float32", (None,))
        w = Variable(np.zeros((3, 1), np.float32), name="w")
        noise = random.uniform((3, 1), dtype="float32")
        loss = (((x @ (w * noise)).sum(axis=1) - y) ** 2).mean()

    def step(params: Params, batch: Any, rng: np.random.Generator) -> Any:
        x, y = batch
        return fit(params, (x * rng.random(x.shape, np.float32), y))

    options: dict[str, Any] = {
        "batch": BATCH,
        "optimizer": MOMENTUM,
        "topology": "ring",
    }
    with quick_cluster(0, 1) as cluster:
        options["cluster"] = cluster
        for work in ((step, initial(), DATA), (loss, {x: X, y: Y})):
            plain, local = (
                kit.train(*work, steps=6 // (n or 1), local_steps=n, **options).wait(20)
                for n in (None, 3)
            )
            for name, value in plain.params.items():
                assert np.allclose(local.params[name], value, rtol=1e-4, atol=1e-6)


def test_an_optimizer_of_ones_own_makes_the_local_steps(cluster: LocalCluster) -> None:
    class Sign:
        slots = ()

        def apply(self, parameter, gradient, slots, out, step):  # type: ignore[no-untyped-def]
            np.subtract(parameter, np.sign(gradient) / 128, out=out)

    def sign(value: Array, gradient: Array, kept: dict[str, Array]) -> Array:
        moved: Array = value - np.sign(gradient) / value.dtype.type(128)
        return moved

    run = begin(cluster, optimizer=Sign()).wait(20)

    assert same_bits(run.params, expected(move=sign))


@pytest.mark.slow
def test_a_checkpoint_of_another_optimizer_is_refused(
    tmp_path: Path, cluster: LocalCluster
) -> None:
    begin(cluster, steps=2, checkpoint=tmp_path).wait(20)

    with pytest.raises(InvalidArgumentError, match=r"keeps .*optimizer/m/b"):
        begin(cluster, optimizer="adam", checkpoint=tmp_path).wait(20)
    with pytest.raises(InvalidArgumentError, match="Train with the same workers"):
        begin(cluster, optimizer="gradient_descent", checkpoint=tmp_path)


@pytest.mark.slow
def test_the_first_workers_that_arrive_make_a_step() -> None:
    """A late worker has made its steps in vain; the next begin where all are."""
    rule = kit.GradientDescent(0.01)
    with local_cluster(ps=1, worker=3) as cluster:
        options: dict[str, Any] = {"topology": "ps", "aggregate": 2, "steps": 20}
        run = begin(cluster, optimizer=rule, outer=None, **options).wait(20)

    params, alone = initial(), Alone(3, H, descend)
    sizes = [len(part) for part in np.array_split(np.arange(BATCH), 3)]
    for step, counted in enumerate(backups.ranks(run)):
        summed = backups.total(alone(params, step), counted)
        factor = BATCH / (3 * sum(sizes[rank] for rank in counted))
        params = {
            name: value - summed[name] * value.dtype.type(factor)
            for name, value in params.items()
        }
    assert same_bits(run.params, params)


def test_a_local_step_that_is_not_finite_ends_the_training_before_anything_changes(
    cluster: LocalCluster,
) -> None:
    def step(params: Params, batch: Any, state: dict[str, Any]) -> Any:
        state["n"] = state.get("n", 0) + 1
        loss, result = fit(params, batch)
        return loss, result | {"w": result["w"] * (np.inf if state["n"] == 5 else 1)}

    run = begin(cluster, step)
    with pytest.raises(NotFinite, match="step 1: the gradient of 'w' holds"):
        run.wait(20)


def test_a_move_that_is_not_finite_is_refused_by_name(cluster: LocalCluster) -> None:
    run = begin(cluster, optimizer=kit.GradientDescent(1e38), local_steps=1)
    with pytest.raises(NotFinite, match=r"the gradient of 'w' holds 0 NaN and \d inf"):
        run.wait(20)


def test_a_name_of_a_slot_is_not_free_for_the_state(cluster: LocalCluster) -> None:
    def step(params: Params, batch: Any, state: dict[str, Any]) -> Any:
        state["optimizer/mine"] = 1
        return fit(params, batch)

    with pytest.raises(StepFailed, match="does not begin with 'optimizer/'"):
        begin(cluster, step).wait(20)
