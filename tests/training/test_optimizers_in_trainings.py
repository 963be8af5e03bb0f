"""Optimizers in trainings: means, delays, groups, layers, and rates of a schedule."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kit
from kit.errors import InvalidArgumentError
from kit.exchange.topologies.topology import registered
from kit.testing.cluster import LocalCluster, local_cluster
from kit.training.optimizers.rules import from_plain, named, to_plain
from tests.cases import for_each
from tests.exchange import replay
from tests.training import toy
from tests.training.toy import (
    BATCH,
    DATA,
    Array,
    Params,
    X,
    Y,
    begin,
    fit,
    gradients,
    initial,
    quick_cluster,
    replayed,
    rows,
    same_bits,
    trained,
)

ADAM = kit.Adam(0.01)


def saved_after(cluster: LocalCluster, folder: Path, steps: int, **options: Any) -> Any:
    chosen: dict[str, Any] = {"optimizer": kit.Averaged(ADAM, 0.75), "batch": BATCH}
    chosen |= options
    what = fit, initial(), DATA
    kit.train(*what, cluster=cluster, steps=steps, checkpoint=folder, **chosen).wait(30)
    return kit.load_checkpoint(folder)


def in_order(values: Mapping[str, Array]) -> Params:
    return {name: values[name] for name in initial()}


@pytest.mark.slow
@pytest.mark.parametrize("topology", ["ps", "ring"])
def test_the_mean_follows_the_parameters_of_each_step(
    cluster: LocalCluster, tmp_path: Path, topology: str
) -> None:
    saved = saved_after(cluster, tmp_path, 8, topology=topology)

    expected = replayed(1, 2, ADAM)  # after the first step it is equal to them
    for n in range(2, 9):
        for name, value in replayed(n, 2, ADAM).items():
            mean = expected[name]
            way = (value - mean) * mean.dtype.type(0.25)
            expected[name] = np.asarray(mean + way)
    assert same_bits(in_order(saved.slots["average"]), expected)
    assert same_bits(in_order(saved), replayed(8, 2, ADAM))


def test_a_validation_of_the_mean_sees_what_checkpoints_have(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    seen: list[Params] = []

    def look(params: Params, data: Any) -> float:
        seen.append(params)
        return 1.0

    class Looks(kit.hooks.ValidationHook):
        """Hands on what it measures; a hook of a local cluster is in this process."""

        def measured(self, step: int, measures: Any, run_context: Any) -> None:
            for name, value in seen[-1].items():
                np.save(tmp_path / f"{step}-{name}.npy", value)

    hook = Looks(look, None, every=4, decay=0.75)
    saved = saved_after(cluster, tmp_path / "saved", 8, topology="ring", hooks=[hook])

    measured = {name: np.load(tmp_path / f"7-{name}.npy") for name in initial()}
    assert same_bits(in_order(measured), in_order(saved.slots["average"]))
    assert not same_bits(in_order(measured), in_order(saved))


@pytest.mark.slow
def test_the_best_of_early_stopping_may_be_a_mean(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    stops = kit.hooks.EarlyStoppingHook(
        *(lambda params, data: 1.0, None),
        every=8,
        decay=0.75,
        save_best=tmp_path / "best",
    )

    saved = saved_after(cluster, tmp_path / "saved", 8, topology="ring", hooks=[stops])

    best = kit.load_checkpoint(tmp_path / "best")
    assert same_bits(in_order(best), in_order(saved.slots["average"]))


def test_parameters_that_stay_are_their_own_mean(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    frozen = kit.Groups(ADAM, {"w": {"learning_rate": 0.0}})

    saved = saved_after(cluster, tmp_path, 5, optimizer=kit.Averaged(frozen, 0.9))

    assert np.array_equal(saved.slots["average"]["w"], initial()["w"])
    assert not np.array_equal(saved.slots["average"]["b"], saved["b"])


# -- corrected for their delay ---------------------------------------------------------

N, STEPS, RATE, STRENGTH = 3, 40, 0.01, 0.3


def by_numpy(run: kit.Run, strength: float) -> Params:
    """Make the updates of the trace again, in their order, as in the paper."""
    updates = run.trace.steps[run.trace.steps["examples"] > 0]
    params = initial()
    pulled = dict.fromkeys(run.job.workers, params)
    taken = dict.fromkeys(run.job.workers, 0)
    for update in np.sort(updates, order="step"):
        worker = int(update["task"])
        part = np.array_split(rows(taken[worker]), N)[run.job.workers.index(worker)]
        _, own = fit(pulled[worker], (X[part], Y[part]))
        new = {}
        for name, g in own.items():
            way = params[name] - pulled[worker][name]
            corrected = g + g.dtype.type(strength) * g * g * way
            new[name] = np.asarray(params[name] - g.dtype.type(RATE) * corrected)
        params = pulled[worker] = new
        taken[worker] += 1
    return params


@pytest.mark.slow
def test_updates_are_those_of_the_paper_in_the_order_of_the_trace() -> None:
    optimizer = kit.DelayCompensated(kit.GradientDescent(RATE), STRENGTH)
    run = trained(1, N, optimizer=optimizer, sync=False, steps=STEPS)

    wanted, plain = by_numpy(run, STRENGTH), by_numpy(run, 0.0)
    for name, value in wanted.items():
        np.testing.assert_allclose(run.params[name], value, rtol=1e-5, atol=1e-6)
    assert not np.allclose(wanted["w"], plain["w"], rtol=1e-5, atol=1e-6)
    assert run.step == STEPS


def test_synchronous_steps_are_those_of_the_rule() -> None:
    rule = kit.Adam(0.01)
    run = trained(1, 2, optimizer=kit.DelayCompensated(rule), steps=6)

    assert same_bits(run.params, replayed(6, 2, rule))


# -- groups of parameters --------------------------------------------------------------

DECAYED = kit.AdamW(0.05, weight_decay=0.3)
PLAIN = kit.AdamW(0.01, weight_decay=0.0)
GROUPS = kit.Groups(
    DECAYED, {"^b$": {"learning_rate": 0.01, "weight_decay": 0.0}, "scale": PLAIN}
)


def trained_by(cluster: LocalCluster, optimizer: Any, **options: Any) -> kit.Run:
    return begin(cluster, optimizer=optimizer, steps=12, **options).wait(30)


def trained_alone(steps: int, n_workers: int, rule_of: dict[str, Any]) -> Params:
    """Train in one process, each parameter by a rule of its own."""
    params = initial()
    states: dict[str, dict[str, Array]] = {name: {} for name in params}
    for step in range(steps):
        total = replay.total(toy.gradients(params, step, n_workers))
        for name, value in params.items():
            mean = total[name] * value.dtype.type(1 / n_workers)
            params[name] = toy.update(rule_of[name], value, mean, states[name], step)
    return params


RULES = {"w": DECAYED, "none": DECAYED, "b": PLAIN, "scale": PLAIN}


@pytest.mark.parametrize("topology", ["ps", "ring", "mesh"])
def test_each_parameter_is_updated_by_the_settings_of_its_group(
    cluster: LocalCluster, topology: str
) -> None:
    run = trained_by(cluster, GROUPS, topology=topology)

    assert same_bits(run.params, trained_alone(12, 2, RULES))


@pytest.mark.slow
def test_groups_of_gradient_descent_stay_after_a_switch(cluster: LocalCluster) -> None:
    def slowly(params: Params, batch: Any) -> Any:
        time.sleep(0.005)
        return fit(params, batch)

    slow, fast = kit.GradientDescent(0.001), kit.GradientDescent(0.02)
    groups = kit.Groups(fast, {"w|none": {"learning_rate": 0.001}})
    run = begin(cluster, slowly, optimizer=groups, steps=12)
    run.switch("ring", at=6)

    rule_of = {"w": slow, "none": slow, "b": fast, "scale": fast}
    assert same_bits(run.wait(30).params, trained_alone(12, 2, rule_of))
    assert [row.topology for row in run.trace.epochs] == ["ps", "ring"]


@pytest.mark.parametrize(
    "options",
    [
        {"aggregate": 2},
        {"local_steps": 3},
        {"sync": False},
        {"compress": "float16", "topology": "ring"},
        {"elastic": True},
    ],
)
def test_a_group_whose_rate_is_0_stays_as_it_is_in_every_kind_of_training(
    cluster: LocalCluster, options: dict[str, Any]
) -> None:
    frozen = kit.Groups(kit.Momentum(0.01), {"b|w": {"learning_rate": 0.0}})

    run = trained_by(cluster, frozen, **options)

    start = initial()
    kept = [name for name in start if np.array_equal(run.params[name], start[name])]
    assert kept == ["w", "none", "b"]


def test_the_first_pattern_that_matches_counts() -> None:
    groups = kit.Groups(
        kit.GradientDescent(1.0),
        {"bias": {"learning_rate": 0.1}, "layer1": {"learning_rate": 0.2}},
    )

    names = ("layer1.bias", "layer1.weight", "layer2.weight")
    rates = [groups.rule_of(name).learning_rate for name in names]

    assert rates == [0.1, 0.2, 1.0]


# -- layers ----------------------------------------------------------------------------

TOPOLOGIES = [topology for topology in registered() if topology.agrees]
SIX = 6


def lamb(v: Any, grads: list[Any], lr: float, decay: float) -> Any:
    """Return a parameter after steps by algorithm 2 of arXiv:1904.00962."""
    b1, b2, eps = 0.9, 0.999, 1e-6
    m = s = np.zeros_like(v)
    for t, g in enumerate(grads, 1):
        m, s = b1 * m + (1 - b1) * g, b2 * s + (1 - b2) * g**2
        u = m / (1 - b1**t) / (np.sqrt(s / (1 - b2**t)) + eps) + decay * v
        size, move = np.linalg.norm(v), np.linalg.norm(u)
        v = v - lr * (size / move if size > 0 and move > 0 else 1) * u
    return v


def lars(v: Any, grads: list[Any], lr: float, decay: float) -> Any:
    """Return a parameter after steps by algorithm 1 of arXiv:1708.03888."""
    b = np.zeros_like(v)
    for g in grads:
        size = np.linalg.norm(v)
        move = np.linalg.norm(g) + decay * size
        local = 0.01 * size / move if size > 0 and move > 0 else 1
        b = 0.9 * b + lr * local * (g + decay * v)
        v = v - b
    return v


PAIRS = [
    (kit.LAMB(0.05, weight_decay=0.1), lamb, 0.1),
    (kit.LARS(0.05, weight_decay=0.02, trust=0.01), lars, 0.02),
]


@pytest.mark.parametrize(("rule", "paper", "decay"), PAIRS)
@pytest.mark.parametrize("begin", [1.0, 0.0])
def test_steps_are_those_of_the_paper(
    rule: Any, paper: Any, decay: float, begin: float
) -> None:
    dice = np.random.default_rng(1)
    start, grads = begin * dice.normal(size=50), list(dice.normal(size=(8, 50)))
    value, slots = start.copy(), [np.zeros(50) for _ in rule.slots]

    for number, gradient in enumerate(grads):
        rule.apply(value, gradient, slots, value, number)

    np.testing.assert_allclose(value, paper(start, grads, 0.05, decay), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("topology", TOPOLOGIES, ids=lambda item: item.name)
@pytest.mark.parametrize(("rule", "paper", "decay"), PAIRS)
def test_each_parameter_is_a_layer_however_the_gradients_are_cut(
    topology: Any, rule: Any, paper: Any, decay: float
) -> None:
    with (
        kit.settings(bucket_bytes=16),
        quick_cluster(int(topology.needs_ps), 3, bucket_bytes=16) as cluster,
    ):
        run = begin(cluster, optimizer=rule, topology=topology.name, steps=SIX).wait(60)

    seen: dict[str, list[Any]] = {name: [] for name in initial()}
    params = initial()
    for step in range(SIX):
        rows = gradients(params, step, 3)
        for name in seen:
            total = sum(row[name].astype(np.float64) for row in rows) / 3
            seen[name].append(total)
        params = {
            name: np.asarray(
                paper(value.astype(np.float64), seen[name], 0.05, decay)
            ).astype(value.dtype)
            for name, value in initial().items()
        }
    for name, wanted in params.items():
        np.testing.assert_allclose(run.params[name], wanted, rtol=2e-5, atol=1e-6)


def test_a_worker_takes_local_steps_by_layers() -> None:
    def trained(bucket: int) -> Any:
        with quick_cluster(0, 2, bucket_bytes=bucket) as cluster:
            return begin(
                cluster,
                optimizer=kit.LAMB(0.05),
                local_steps=2,
                topology="ring",
                steps=3,
            ).wait(60)

    small_buckets, whole = trained(16), trained(0)

    assert all(
        (small_buckets.params[k] == whole.params[k]).all() for k in small_buckets.params
    )
    assert small_buckets.loss < 20


def test_groups_and_means_take_them_too() -> None:
    plain = kit.LAMB(0.05)
    groups = kit.Groups(plain, {"b": {"learning_rate": 0.0}})
    run = trained(
        0, 2, optimizer=kit.Averaged(groups, decay=0.9), topology="ring", steps=3
    )

    assert (run.params["b"] == initial()["b"]).all()
    assert (run.params["w"] != initial()["w"]).all()


def test_a_rehearsal_counts_the_bytes_of_a_training() -> None:
    result = kit.rehearse(4000, "ring", worker=4, optimizer="lamb")

    assert result.n_bytes == 4 * 2 * 3 * 1000
    assert min(result.memory.values()) > 4 * 4000  # with both slots


def test_a_graph_is_trained_by_them() -> None:
    graph = kit.Graph()
    with graph.as_default():
        w = kit.Variable(np.array([1.0, 2.0]), name="w")
        loss = ((w - kit.constant(np.array([3.0, -1.0]))) ** 2).sum()
        op = kit.LAMB(0.1).minimize(loss)
        with kit.Session(graph=graph) as session:
            session.run(kit.initialize_all())
            value = np.array([1.0, 2.0])
            grads = [2 * (value - [3.0, -1.0])]
            session.run(op)
            got = session.run(w)

    np.testing.assert_allclose(got, lamb(value, grads, 0.1, 0.01), rtol=1e-12)


# -- rates that depend on the step -----------------------------------------------------


def test_cosine_follows_its_formula() -> None:
    result = [kit.Cosine(0.4, steps=50, warmup=10, end=0.1)(step) for step in range(60)]

    for step, rate in enumerate(result):
        wanted = 0.4 * (step + 1) / 10
        if step >= 10:
            angle = math.pi * min(1.0, (step - 10) / 40)
            wanted = 0.1 + (0.4 - 0.1) * (1 + math.cos(angle)) / 2
        assert rate == pytest.approx(wanted, abs=1e-15)


def test_one_cycle_is_that_of_torch() -> None:
    torch = pytest.importorskip("torch")
    weights = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weights], 0.1)
    theirs = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.4, total_steps=70)
    ours = kit.OneCycle(0.4, steps=70)

    for step in range(70):
        assert ours(step) == pytest.approx(theirs.get_last_lr()[0], abs=1e-12)
        optimizer.step()
        if step < 69:
            theirs.step()


def step(params: Any, batch: Any) -> Any:
    return 0.0, {"w": np.ones(1)}


@pytest.mark.slow
@for_each("rate", [kit.WarmUp(0.5, 4), lambda step: 0.5 * min(1, (step + 1) / 4)])
@for_each("rule", [kit.GradientDescent, kit.AdamW])
def test_a_training_takes_the_rate_of_each_step_also_when_it_resumes(
    rule: Any, rate: Any, tmp_path: Path
) -> None:
    options = (step, {"w": np.zeros(1)}, np.zeros((4, 1)))
    how: dict[str, Any] = {"batch": 4, "optimizer": rule(rate)}

    folder = tmp_path / str(len(list(tmp_path.iterdir())))
    with local_cluster(ps=1, worker=2) as cluster:
        for steps in (2, 6):
            run = kit.train(
                *options, steps=steps, checkpoint=folder, cluster=cluster, **how
            ).wait(20)

    # All gradients are 1, so Adam's corrected mean and root are 1 as well.
    value = 0.0
    for rate_now in (0.125, 0.25, 0.375, 0.5, 0.5, 0.5):
        decay = 0.01 if rule is kit.AdamW else 0.0
        value = value * (1 - rate_now * decay) - rate_now
    assert run.params["w"][0] == pytest.approx(value, abs=1e-7)


def test_a_function_of_the_users_own_has_a_name_and_no_plain_form() -> None:
    optimizer = kit.Adam(lambda step: 0.1)

    with pytest.raises(InvalidArgumentError, match=r"schedule such as kit\.Cosine"):
        to_plain(optimizer)
    assert from_plain(named(optimizer), optimizer) is optimizer
