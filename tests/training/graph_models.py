"""A linear model as a graph, its training by hand, and its training on a cluster.

All numbers are small fractions of powers of two, which float64 adds without rounding,
whatever the order: what trains it right has the bits of one process in plain numpy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import kit
from kit.graph.graph import Graph
from kit.graph.op import Tensor
from kit.graph.ops.state.source import placeholder
from kit.graph.variable import Variable
from kit.training.data.splits import shuffled

Array = npt.NDArray[Any]
Params = dict[str, Array]

N, BATCH, STEPS, RATE = 24, 8, 4, 0.125
DICE = np.random.default_rng(11)
X = DICE.integers(-2, 3, (N, 3)).astype(np.float64)
Y = DICE.integers(-2, 3, (N, 2)).astype(np.float64)
START: Params = {
    "layer/w": DICE.integers(-1, 2, (3, 2)).astype(np.float64),
    "b": np.array([1.0, -1.0]),
}


class Model:
    """A linear model in a graph of its own: x @ w + b, with the mean squared error."""

    def __init__(self, start: Params = START) -> None:
        self.graph = Graph()
        with self.graph.as_default():
            self.x = placeholder("float64", (None, 3), name="x")
            self.y = placeholder("float64", (None, 2), name="y")
            self.w = Variable(start["layer/w"], name="layer/w")
            self.b = Variable(start["b"], name="b")
            error = self.x @ self.w + self.b - self.y
            self.loss: Tensor = (error * error).sum(axis=1).mean()

    @property
    def data(self) -> dict[Tensor, Array]:
        return {self.x: X, self.y: Y}


def gradients(params: Params, x: Array, y: Array) -> Params:
    slope = 2 * (x @ params["layer/w"] + params["b"] - y) / len(x)
    return {"layer/w": x.T @ slope, "b": slope.sum(axis=0)}


def rows(step: int, seed: int = 0) -> Array:
    """Return the examples of a mini-batch, in their order."""
    pass_index, index = divmod(step, N // BATCH)
    return shuffled(N, seed, pass_index)[index * BATCH : (index + 1) * BATCH]


def trained(steps: int = STEPS, seed: int = 0) -> Params:
    """Return the parameters after steps of gradient descent on whole mini-batches."""
    params = {name: value.copy() for name, value in START.items()}
    for step in range(steps):
        chosen = rows(step, seed)
        for name, gradient in gradients(params, X[chosen], Y[chosen]).items():
            params[name] = params[name] - RATE * gradient
    return params


def begin(cluster: Any, model: Model, data: Any = None, **changes: Any) -> kit.Run:
    options: dict[str, Any] = {"optimizer": kit.GradientDescent(RATE), "steps": STEPS}
    options |= {"batch": BATCH, "cluster": cluster} | changes
    return kit.train(model.loss, data or model.data, **options)


def train(cluster: Any, model: Model, data: Any = None, **changes: Any) -> kit.Run:
    return begin(cluster, model, data, **changes).wait(30)
