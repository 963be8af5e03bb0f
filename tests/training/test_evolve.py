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
from kit.training.data.sources import Divided, Source, make_source
from kit.training.features.evolve import (
    EvolutionShare,
    EvolutionStep,
    Population,
    noise,
    shifted,
)
from tests.training.saved import resumed_at
from tests.training.toy import (
    BATCH,
    DATA,
    N,
    Params,
    X,
    Y,
    fit,
    initial,
    quick_cluster,
    rows,
    same_bits,
)

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


@pytest.mark.slow
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


@pytest.mark.slow
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


def test_loss_that_cannot_be_called_is_refused(cluster: LocalCluster) -> None:
    evolve: Any = kit.evolve
    for loss, data, words in (
        (0.5, DATA, "loss is float"),
        (lambda params, batch: 0.0, None, r"Write def loss\(params\)\."),
        (lambda params: 0.0, DATA, r"Write def loss\(params, batch\)"),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            evolve(loss, initial(), data, cluster=cluster)


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


@pytest.mark.slow
def test_evolution_that_goes_on_equals_one_that_never_stopped(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    begin(cluster, steps=3, checkpoint=tmp_path).wait(30)

    run = begin(cluster, steps=8, checkpoint=tmp_path, topology="ring").wait(30)

    assert (resumed_at(run), run.step) == (3, 8)
    assert same_bits(run.params, begin(cluster, steps=8).wait(30).params)


@pytest.mark.slow
def test_hooks_see_the_steps_of_an_evolution(cluster: LocalCluster) -> None:
    hooks = [StopAtStepHook(last_step=5), NanTensorHook("loss")]

    run = begin(cluster, steps=100, hooks=hooks).wait(30)

    assert run.step == 5
    assert same_bits(run.params, begin(cluster, steps=5).wait(30).params)


# -- what a worker estimates -----------------------------------------------------------

WIDE = 0.5


def slope(params: Params) -> float:
    """Return a linear loss: its gradient is 3 for `a` and -2 for each of `b`."""
    return float(3 * params["a"] - 2 * params["b"].sum())


START: Params = {"a": np.array(0.5), "b": np.array([1.0, -1.0], np.float32)}


def estimate(pairs: range, step: int = 0) -> tuple[float, Params]:
    return EvolutionStep(slope, WIDE, seed=3)(START, (EvolutionShare(step, pairs),))


def test_noise_depends_on_seed_step_and_pair_and_on_nothing_else() -> None:
    drawn = [
        noise(initial(), seed, step, pair)
        for seed in (0, 1)
        for step in (0, 1)
        for pair in (0, 1)
    ]

    again = noise(initial(), 0, 1, 1)
    assert same_bits(drawn[3], again)
    assert len({row["w"].tobytes() for row in drawn}) == len(drawn)


def test_noise_has_the_form_of_the_parameters_and_is_standard_normal() -> None:
    params: Params = {"w": np.zeros((200, 100), np.float32), "s": np.zeros(())}

    drawn = noise(params, seed=5, step=7, pair=11)

    assert {n: (v.shape, v.dtype) for n, v in drawn.items()} == {
        n: (v.shape, v.dtype) for n, v in params.items()
    }
    # 20,000 values: these are six standard errors.
    assert abs(drawn["w"].mean()) < 0.043
    assert abs(drawn["w"].std() - 1) < 0.03


@pytest.mark.parametrize("seed", [0, 2**63, 2**64 - 1])
def test_every_seed_that_shuffles_examples_draws_noise(seed: int) -> None:
    assert np.isfinite(noise(START, seed, 0, 0)["b"]).all()


def test_networks_of_a_pair_lie_opposite_each_other() -> None:
    seen: list[Params] = []

    def loss(params: Params) -> float:
        seen.append(params)
        return 0.0

    EvolutionStep(loss, WIDE, 3)(START, (EvolutionShare(2, range(4, 5)),))

    direction = noise(START, 3, 2, 4)
    for network, by in zip(seen, (WIDE, -WIDE), strict=True):
        for name, value in START.items():
            np.testing.assert_allclose(network[name], value + by * direction[name])
            assert network[name].dtype == value.dtype


def test_estimate_for_a_linear_loss_is_its_gradient_seen_through_the_noise() -> None:
    loss, result = estimate(range(5))

    wanted = {name: np.zeros_like(value) for name, value in START.items()}
    for pair in range(5):
        direction = noise(START, 3, 0, pair)
        # Linear: half the difference over sigma is the slope along the direction.
        for name, value in direction.items():
            wanted[name] += value.dtype.type(slope(direction) / 5) * value
    for name, value in wanted.items():
        np.testing.assert_allclose(result[name], value, rtol=1e-5)
        assert result[name].dtype == START[name].dtype
    assert loss == pytest.approx(slope(START))  # the pairs cancel


def test_constant_added_to_the_loss_changes_no_estimate() -> None:
    _, plain = estimate(range(3))

    def raised(params: Params) -> float:
        return slope(params) + 1024.0

    _, result = EvolutionStep(raised, WIDE, 3)(START, (EvolutionShare(0, range(3)),))

    for name, value in plain.items():
        np.testing.assert_allclose(result[name], value, rtol=1e-5)


def test_workers_have_all_pairs_once_and_all_examples_each() -> None:
    population = Population(10, DATA, batch=6)
    sources = [make_source(population, 10, 0, worker, 3) for worker in range(3)]

    batches = [source.batch(4) for source in sources]

    assert isinstance(population, Divided)
    assert not isinstance(population, Source)
    shares: list[Any] = [share for share, _ in batches]
    assert [list(share.pairs) for share in shares] == [[0, 1], [2, 3], [4]]
    assert [source.examples(4) for source in sources] == [4, 4, 2]
    alone = make_source(DATA, 6, 0, 0, 1).batch(4)
    for _, judges in batches:
        assert all((a == b).all() for a, b in zip(judges, alone, strict=True))
        assert len(judges[0]) == 6 < N


def test_population_without_data_is_judged_without_examples() -> None:
    (share,) = make_source(Population(4), 4, 0, 0, 2).batch(9)

    assert share == EvolutionShare(9, range(0, 1))


def test_moving_keeps_the_parameters_and_their_dtypes() -> None:
    direction = noise(START, 0, 0, 0)

    moved = shifted(START, direction, 0.25)

    assert START["a"] == 0.5
    assert {n: (v.shape, v.dtype) for n, v in moved.items()} == {
        n: (v.shape, v.dtype) for n, v in START.items()
    }
