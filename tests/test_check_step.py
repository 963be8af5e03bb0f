"""The contract of step functions finds what is wrong, and nothing in what is right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kit.testing import check_step
from tests.cases import for_each

DICE = np.random.default_rng(4)
PARAMS = {"w": DICE.normal(size=3), "b": DICE.normal(size=())}
BATCH = DICE.normal(size=(6, 3)), DICE.normal(size=6)


def fit(params: Any, batch: Any) -> Any:
    x, y = batch
    error = x @ params["w"] + params["b"] - y
    return (error**2).mean(), {
        "w": 2 * x.T @ error / len(y),
        "b": np.asarray(2 * error.mean()),
    }


def filling(params: Any, batch: Any, grads: Any) -> Any:
    loss, result = fit(params, batch)
    grads["w"][...], grads["b"][...] = result["w"], result["b"]
    return loss, None, {"size": 1.0}


def handing(params: Any, batch: Any) -> Any:
    loss, result = fit(params, batch)
    yield from result.items()
    return loss


def dropping(params: Any, batch: Any, rng: Any) -> Any:
    kept = rng.random(batch[0].shape) < 0.5
    return fit(params, (batch[0] * kept, batch[1]))


class Averaging:
    """A hand-written batch norm: a mean that moves with each mini-batch."""

    def __init__(self) -> None:
        self.mean = np.zeros(3)

    def __call__(self, x: Any) -> Any:
        self.mean += 0.1 * (x.mean(axis=0) - self.mean)
        return x


class Norming(Averaging):
    """A step that is an object, with what it keeps."""

    def step(self, params: Any, batch: Any) -> Any:
        return fit(params, (self(batch[0]), batch[1]))


def norming_aside() -> Any:
    norm = Averaging()

    def step(params: Any, batch: Any) -> Any:
        return fit(params, (norm(batch[0]), batch[1]))

    return step


def norming(params: Any, batch: Any, state: Any) -> Any:
    mean = state.get("mean", np.zeros(3))
    state["mean"] = mean + 0.1 * (batch[0].mean(axis=0) - mean)
    return fit(params, (batch[0] - mean, batch[1]))


def seeded_by_itself(params: Any, batch: Any, rng: Any) -> Any:
    kept = np.random.default_rng(1).random(batch[0].shape) < 0.5
    return fit(params, (batch[0] * kept, batch[1]))


def keeping_a_list(params: Any, batch: Any, state: Any) -> Any:
    state["seen"] = [1.0]
    return fit(params, batch)


class Tensor:
    """As one of torch: its pickle names the memory in which its numbers lie."""

    def __init__(self, array: Any) -> None:
        self.array = np.array(array)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.array

    def __reduce__(self) -> Any:
        return Tensor, (self.array, self.array.ctypes.data)


def with_a_module() -> Any:
    module: dict[str, Tensor] = {}  # it computes with the parameters of the step

    def step(params: Any, batch: Any) -> Any:
        module.update({name: Tensor(value) for name, value in params.items()})
        return fit({name: np.asarray(value) for name, value in module.items()}, batch)

    return step


@for_each("step", [fit, filling, handing, dropping, norming, with_a_module()])
@for_each("dtype", [np.float32, np.float64])
def test_a_step_in_any_form_passes(step: Any, dtype: Any) -> None:
    check_step(
        step, {name: array.astype(dtype) for name, array in PARAMS.items()}, BATCH
    )


def wrong(params: Any, batch: Any) -> Any:
    loss, result = fit(params, batch)
    return loss, {**result, "b": -result["b"]}


def summed(params: Any, batch: Any) -> Any:
    loss, result = fit(params, batch)
    n = len(batch[1])
    return n * loss, {name: n * item for name, item in result.items()}


def chancy(params: Any, batch: Any) -> Any:
    loss, result = fit(params, batch)
    return loss + DICE.normal(), result


def updating(params: Any, batch: Any) -> Any:
    loss, result = fit(params, batch)
    params["w"] -= result["w"]
    return loss, result


def normed(params: Any, batch: Any) -> Any:
    x, y = batch
    error = x @ params["w"] + params["b"] - y  # its loss alone is a mean
    result = {"w": 2 * x.T @ error / len(y), "b": np.asarray(2 * error.mean())}
    return (error**2).mean(), {k: g - g.mean() * len(y) for k, g in result.items()}


@for_each(
    ("step", "said"),
    [
        (normed, "not the mean of those of its two halves"),
        (wrong, "gradient of 'b' is not that of the loss"),
        (summed, "return the mean over the examples, not their sum"),
        (chancy, "other values.*`rng`"),
        (updating, "writes into its parameters"),
        (norming_aside(), "changes 'norm', to which it refers.*`state`"),
        (Norming().step, "changes 'self', to which it refers"),
        (seeded_by_itself, "draws nothing from it"),
        (keeping_a_list, r"state\['seen'\] is list"),
        (lambda p, b: (fit(p, b)[0], {"w": p["w"]}), r"differ in \['b'\]"),
        (lambda p, b: (0.0, {"w": np.ones(2), "b": p["b"]}), "of 'w' has the shape"),
    ],
)
def test_what_is_wrong_is_said(step: Any, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        check_step(step, PARAMS, BATCH)
