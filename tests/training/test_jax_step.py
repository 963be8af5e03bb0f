"""A loss of jax as a step function: pytrees, chance, evaluation."""

from __future__ import annotations

import pickle
from typing import Any

import cloudpickle
import numpy as np
import pytest

import kit
from kit.errors import InvalidArgumentError
from kit.hooks import ValidationHook
from kit.testing import check_step
from kit.testing.cluster import local_cluster
from tests.cases import for_each

jax = pytest.importorskip("jax")
kit_jax = pytest.importorskip("kit.jax")

DICE = np.random.default_rng(5)
X = DICE.normal(size=(32, 6)).astype(np.float32)
Y = DICE.integers(3, size=32)
PARAMS: dict[str, Any] = {
    "layers": [
        {
            "kernel": DICE.normal(size=(6, 8)).astype(np.float32),
            "bias": np.zeros(8, "f4"),
        },
        {
            "kernel": DICE.normal(size=(8, 3)).astype(np.float32),
            "bias": np.zeros(3, "f4"),
        },
    ],
    "scale": np.float32(1.5),
}


def loss(params: Any, x: Any, y: Any) -> Any:
    first, second = params["layers"]
    hidden = jax.nn.tanh(x @ first["kernel"] + first["bias"])
    scores = params["scale"] * hidden @ second["kernel"] + second["bias"]
    chosen = jax.nn.log_softmax(scores)[jax.numpy.arange(len(y)), y]
    return -chosen.mean(), {"hits": (scores.argmax(1) == y).mean()}


def dropping(params: Any, x: Any, y: Any, key: Any) -> Any:
    kept = 1.0 if key is None else jax.random.bernoulli(key, 0.7, x.shape)
    return loss(params, x * kept, y)[0]


def train(step: Any, **changes: Any) -> kit.Run:
    how: dict[str, Any] = {"optimizer": kit.GradientDescent(0.5), "steps": 6}
    with local_cluster(ps=0, worker=2) as cluster:
        how |= {"topology": "ring", "batch": len(X), "cluster": cluster} | changes
        run = kit.train(step, step.params, (X, Y), **how).wait(60)
        assert run.params
    return run


def test_a_pytree_trains_as_with_jax_alone() -> None:
    step = kit_jax.step(loss, PARAMS)
    held_out = ValidationHook(step.evaluate, (X, Y), every=6)

    run = train(step, hooks=[held_out])

    alone = PARAMS
    for _ in range(6):
        gradients = jax.grad(lambda tree: loss(tree, X, Y)[0])(alone)
        alone = jax.tree_util.tree_map(lambda v, g: v - 0.5 * g, alone, gradients)
    trained = step.tree(run.params)
    structures = map(jax.tree_util.tree_structure, (trained, PARAMS))
    assert len({*structures}) == 1
    for mine, wanted in zip(
        *map(jax.tree_util.tree_leaves, (trained, alone)), strict=True
    ):
        assert np.allclose(mine, wanted, atol=1e-5)
    assert "layers/1/kernel" in run.params
    frame = run.frame()
    assert frame["validation_loss"].iloc[-1] == pytest.approx(
        float(loss(alone, X, Y)[0]), 1e-4
    )
    assert frame["hits"].between(0, 1).all()


def test_chance_depends_on_the_seed_alone() -> None:
    step = kit_jax.step(dropping, PARAMS)

    runs = [train(step, seed=seed) for seed in (1, 1, 2)]

    first, same, other = (run.params["layers/0/kernel"] for run in runs)
    assert np.array_equal(first, same)
    assert not np.array_equal(first, other)
    assert float(step.evaluate(step.params, (X, Y))[0]) == float(loss(PARAMS, X, Y)[0])


@for_each("function", [loss, dropping])
def test_a_step_keeps_the_contract_and_travels(function: Any) -> None:
    step = kit_jax.step(function, PARAMS)
    check_step(step, step.params, (X, Y))  # compiles it

    again = pickle.loads(cloudpickle.dumps(step))

    check_step(again, again.params, (X, Y))


@for_each(
    ("params", "said"),
    [
        ({"w": np.zeros(2)}, "w is float64; give a pytree of float32"),
        ({"w": np.arange(2)}, "w is int64"),
        ({}, "0 leaves are called"),
        ({"a/b": X, "a": {"b": X}}, "2 leaves are called"),
    ],
)
def test_what_cannot_be_trained_is_refused(params: Any, said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        kit_jax.step(loss, params)
