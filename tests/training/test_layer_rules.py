"""LAMB and LARS beside their papers, in float64, and in trainings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kit
from kit.exchange.topologies.topology import registered
from tests.training.toy import begin, gradients, initial, quick_cluster, trained

TOPOLOGIES = [topology for topology in registered() if topology.agrees]
STEPS = 6


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
        run = begin(cluster, optimizer=rule, topology=topology.name, steps=STEPS).wait(
            60
        )

    seen: dict[str, list[Any]] = {name: [] for name in initial()}
    params = initial()
    for step in range(STEPS):
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
