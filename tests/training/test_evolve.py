"""`kit.evolve` on clusters: a serial program has its result, and it learns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kit
from kit.errors import InvalidArgumentError, NotFinite, StepFailed
from kit.hooks import NanTensorHook, StopAtStepHook
from kit.testing.cluster import LocalCluster
from tests.training.saved import resumed_at
from tests.training.toy import (
    BATCH,
    DATA,
    Params,
    X,
    Y,
    fit,
    initial,
    quick_cluster,
    rows,
    same_bits,
)

pytestmark = pytest.mark.slow

SIGMA, RATE, STEPS, SIZE, SEED = 0.1, 0.02, 6, 10, 4


def loss(params: Params, batch: Any) -> float:
    return float(fit(params, batch)[0])


def begin(cluster: LocalCluster, **changes: Any) -> kit.Run:
    options: dict[str, Any] = {
        "population": SIZE,
        "sigma": SIGMA,
        "optimizer": kit.GradientDescent(RATE),
        "steps": STEPS,
        "batch": BATCH,
        "seed": SEED,
        "cluster": cluster,
    } | changes
    return kit.evolve(loss, initial(), DATA, **options)


def drawn(params: Params, step: int, pair: int) -> Params:
    """Draw a pair's noise again, from the stream that is promised."""
    bits = np.random.Philox(
        key=np.array([SEED, step], np.uint64),
        counter=np.array([0, 0, 1, pair], np.uint64),
    )
    draw = np.random.Generator(bits)
    return {n: draw.standard_normal(v.shape, v.dtype) for n, v in params.items()}


def serial(steps: int = STEPS) -> tuple[Params, list[float]]:
    """Return the parameters and mean losses of one process that does it all."""
    params = {n: np.asarray(v, np.float64) for n, v in initial().items()}
    means: list[float] = []
    for step in range(steps):
        part = rows(step, BATCH, SEED)
        batch = (X[part].astype(np.float64), Y[part].astype(np.float64))
        total = {name: np.zeros_like(value) for name, value in params.items()}
        seen = []
        for pair in range(SIZE // 2):
            noise = drawn(initial(), step, pair)
            first, other = (
                fit({n: v + sign * SIGMA * noise[n] for n, v in params.items()}, batch)
                for sign in (1, -1)
            )
            seen += [first[0], other[0]]
            for name, value in noise.items():
                total[name] = total[name] + (first[0] - other[0]) * value
        means.append(float(np.mean(seen)))
        rate = RATE / (SIZE * SIGMA)
        params = {n: np.asarray(v - rate * total[n]) for n, v in params.items()}
    return params, means


@pytest.mark.parametrize("n_workers", [1, 2, 3, 5])
def test_any_number_of_workers_has_the_result_of_one_process(n_workers: int) -> None:
    with quick_cluster(1, n_workers) as cluster:
        run = begin(cluster).wait(20)

    wanted, means = serial()
    for name, value in run.params.items():
        np.testing.assert_allclose(value, wanted[name], rtol=1e-4, atol=1e-6)
    metrics = run.metrics
    np.testing.assert_allclose([r["loss"] for r in metrics], means, rtol=1e-4)
    assert {record["examples"] for record in metrics} == {SIZE}


def test_topologies_give_the_same_bits_and_move_what_a_gradient_does() -> None:
    with quick_cluster(1, 3) as cluster:
        plain = begin(cluster, topology="mesh").wait(20).params
        for topology in ("ps", "ring", "ring-whole"):
            run = begin(cluster, topology=topology).wait(20)

            assert same_bits(run.params, plain)
            assert all(entry.agrees for entry in run.traffic)
            assert sum(entry.sent for entry in run.traffic) > 0


def jumps(params: Params, batch: Any) -> float:
    """Return the share of wrong answers of a network of steps: it has no gradient."""
    x, y = batch
    inner = np.sign(x @ params["w1"] + params["b1"])
    return float((np.sign(inner @ params["w2"]) != y).mean())


def test_loss_that_only_jumps_is_learned() -> None:
    dice = np.random.default_rng(1)
    x = dice.choice([-1.0, 1.0], (64, 2))
    y = x[:, 0] * x[:, 1]  # no single step can tell
    start = {
        "w1": dice.normal(size=(2, 32)),
        "b1": dice.normal(size=32),
        "w2": 0.1 * dice.normal(size=32),
    }

    with quick_cluster(1, 2) as cluster:
        run = kit.evolve(
            jumps,
            start,
            (x, y),
            population=40,
            sigma=0.5,
            optimizer=kit.Adam(0.1),
            steps=100,
            batch=64,
            cluster=cluster,
        ).wait(30)

    assert jumps(start, (x, y)) > 0.2
    assert jumps(run.params, (x, y)) == 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"population": 9}, "population is 9; give an even number"),
        ({"population": 0}, "at least 2"),
        ({"population": 2}, "1 mirrored pairs, too few for 2 workers"),
        ({"population": 2.5}, "population is 2.5; give a whole number"),
        ({"sigma": 0.0}, "sigma is 0.0"),
        ({"sigma": float("nan")}, "sigma is nan"),
        ({"sigma": "0.1"}, "sigma is '0.1'"),
        ({"batch": "64"}, "batch is '64'"),
        ({"seed": -1}, "the seed is -1"),
        ({"topology": "star"}, "no topology is called 'star'"),
    ],
)
def test_argument_that_cannot_be_is_refused_at_once(
    cluster: LocalCluster, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        begin(cluster, **changes)


def test_what_is_no_function_is_refused(cluster: LocalCluster) -> None:
    with pytest.raises(InvalidArgumentError, match="loss is float"):
        kit.evolve(0.5, initial(), DATA, cluster=cluster)  # type: ignore[arg-type]


def test_loss_that_takes_other_arguments_is_refused(cluster: LocalCluster) -> None:
    with pytest.raises(InvalidArgumentError, match=r"Write def loss\(params\)\."):
        kit.evolve(lambda params, batch: 0.0, initial(), cluster=cluster)
    with pytest.raises(InvalidArgumentError, match=r"Write def loss\(params, batch\)"):
        kit.evolve(lambda params: 0.0, initial(), DATA, cluster=cluster)


@pytest.mark.parametrize(
    ("bad", "kind", "words"),
    [
        (lambda params: np.nan, NotFinite, "step 0: the loss of a network is nan"),
        (lambda params: np.inf, NotFinite, "the loss of a network is inf"),
        (lambda params: "much", StepFailed, "loss() returned 'much'; return one n"),
        (lambda params: None, StepFailed, "return one number"),
        (lambda params: X, StepFailed, "return one number"),
        (lambda params: 1 // 0, StepFailed, "ZeroDivisionError"),
    ],
)
def test_network_that_cannot_be_judged_ends_the_training_and_names_the_worker(
    cluster: LocalCluster, bad: Any, kind: type[Exception], words: str
) -> None:
    run = kit.evolve(bad, initial(), cluster=cluster)

    with pytest.raises(kind) as caught:
        run.wait(20)

    assert words in str(caught.value)
    assert "/job:worker/task:" in str(caught.value)
    assert same_bits(run.params, initial())


def test_evolution_that_goes_on_equals_one_that_never_stopped(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    begin(cluster, steps=3, checkpoint=tmp_path).wait(30)

    run = begin(cluster, steps=8, checkpoint=tmp_path, topology="ring").wait(30)

    assert (resumed_at(run), run.step) == (3, 8)
    assert same_bits(run.params, begin(cluster, steps=8).wait(30).params)


def test_hooks_see_the_steps_of_an_evolution(cluster: LocalCluster) -> None:
    hooks = [StopAtStepHook(last_step=5), NanTensorHook("loss")]

    run = begin(cluster, steps=100, hooks=hooks).wait(30)

    assert run.step == 5
    assert same_bits(run.params, begin(cluster, steps=5).wait(30).params)
