"""A graph with one variable, an optimizer whose gradient is fed, and a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import kit
from kit.graph.graph import Graph
from kit.graph.op import IndexedSlices
from kit.graph.ops.state.source import placeholder
from kit.graph.variable import Variable, initialize_all
from kit.session.client.session import Session
from kit.training.optimizers.minimize import Minimizer
from kit.training.optimizers.rule import Rule
from tests.cases import for_each

Array = npt.NDArray[Any]

RULES: dict[str, Rule] = {
    "descent": kit.GradientDescent(0.02),
    "momentum": kit.Momentum(0.02),
    "nesterov": kit.Momentum(0.02, use_nesterov=True),
    "adagrad": kit.Adagrad(0.02),
    "rmsprop": kit.RMSProp(0.02, momentum=0.5),
    "centered": kit.RMSProp(0.02, momentum=0.5, centered=True),
    "adam": kit.Adam(0.02),
}
every_rule = for_each("rule", RULES.values(), RULES)
START = np.array([[0.5, -1.0], [0.25, 2.0], [-0.125, 0.75]])


class Scene:
    """A graph with one variable `v` whose gradient is fed, and a session."""

    def __init__(self, rule: Rule, start: Array, rows: bool = False) -> None:
        self.graph = Graph()
        with self.graph.as_default():
            self.variable = Variable(start, name="v")
            dtype, tail = start.dtype, start.shape[1:]
            self.fed = placeholder(dtype, (None, *tail) if rows else start.shape)
            self.indices = placeholder(np.int64, (None,))
            gradient = IndexedSlices(self.fed, self.indices) if rows else self.fed
            self.train = rule.apply_gradients([(gradient, self.variable)])
            self.minimizer: Minimizer = self.graph.notes["minimizers"][id(rule)]
            self.session = Session()
            self.session.run(initialize_all())

    def step(self, gradient: Array, indices: Sequence[int] = ()) -> None:
        feeds = {self.fed: gradient, self.indices: np.array(indices, np.int64)}
        assert self.session.run(self.train, feeds) is None

    @property
    def value(self) -> Array:
        result: Array = self.session.run(self.variable)
        return result

    def slot(self, name: str) -> Array:
        result: Array = self.session.run(self.minimizer.slot(self.variable, name))
        return result
