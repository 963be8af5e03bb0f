"""Two more update rules, for graphs: Adadelta and FTRL-Proximal, by TensorFlow.

    adadelta   s = d s + (1 - d) g g;     u = sqrt(t + e) / sqrt(s + e) g
               t = d t + (1 - d) u u;     v -= lr u
    ftrl       n' = n + g g;   z += g + 2 k v - (sqrt(n') - sqrt(n)) / lr v
               v = (clip(z, -l1, l1) - z) / (sqrt(n') / lr + 2 l2)

Pure. See `kit.training.optimizers.rules` for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kit.handles import handle
from kit.training.optimizers.graph_updates import enter
from kit.training.optimizers.rule import Flat, Number, Rule, Slot, check_range
from kit.training.optimizers.rules import (
    Adagrad,
    Adam,
    AdamW,
    GradientDescent,
    Lion,
    Momentum,
    RMSProp,
)

_INF = float("inf")


@handle
@dataclass(frozen=True)
class Adadelta(Rule):
    """Adadelta: steps as long as the last ones were, relative to the gradients.

    After Zeiler, "ADADELTA: an adaptive learning rate method", arXiv:1212.5701, 2012.

    >>> Adadelta().rho
    0.95
    """

    learning_rate: Number = 0.001
    rho: float = 0.95
    epsilon: float = 1e-8
    name: ClassVar[str] = "adadelta"
    spends: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("adadelta: rho", self.rho, 0, 1)
        check_range("adadelta: epsilon", self.epsilon, 0, _INF)

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Mean squares of the gradients and of the updates."""
        return (Slot("accum", 0.0), Slot("accum_update", 0.0))

    def _update(
        self, v: Flat, g: Flat, slots: Sequence[Flat], out: Flat, work: Flat, rate: Any
    ) -> None:
        number = v.dtype.type
        kept, epsilon = number(self.rho), number(self.epsilon)
        rest = number(1) - kept
        of_gradients, of_updates = slots
        of_gradients *= kept
        np.multiply(g, g, out=work)
        work *= rest
        of_gradients += work
        np.add(of_updates, epsilon, out=work)
        change = np.sqrt(work)
        np.add(of_gradients, epsilon, out=work)
        change /= np.sqrt(work)
        change *= g
        of_updates *= kept
        np.multiply(change, change, out=work)
        work *= rest
        of_updates += work
        change *= rate
        np.subtract(v, change, out=out)


@handle
@dataclass(frozen=True)
class Ftrl(Rule):
    """FTRL-Proximal: of weights that matter little, exact zeros, by `l1`.

    After McMahan et al., "Ad click prediction: a view from the trenches", 2013; `k` is
    a cost of the weights that does not enter n.

    >>> Ftrl(0.1, l1=0.5).initial_accumulator_value
    0.1
    """

    learning_rate: Number
    initial_accumulator_value: float = 0.1
    l1: float = 0.0
    l2: float = 0.0
    l2_shrinkage: float = 0.0
    name: ClassVar[str] = "ftrl"
    spends: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("initial_accumulator_value", "l1", "l2", "l2_shrinkage"):
            check_range(f"ftrl: {name}", getattr(self, name), 0, _INF)

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The sum of squared gradients n, and z."""
        start = self.initial_accumulator_value
        return (Slot("accum", start), Slot("linear", 0.0))

    def _update(
        self, v: Flat, g: Flat, slots: Sequence[Flat], out: Flat, work: Flat, rate: Any
    ) -> None:
        number = v.dtype.type
        l1, two = number(self.l1), number(2)
        n, z = slots
        before = np.sqrt(n)
        np.multiply(g, g, out=work)
        n += work
        root = np.sqrt(n)
        z += g
        if self.l2_shrinkage:
            np.multiply(v, two * number(self.l2_shrinkage), out=work)
            z += work
        np.subtract(root, before, out=work)
        work /= rate
        work *= v
        z -= work
        root /= rate
        root += two * number(self.l2)
        np.clip(z, -l1, l1, out=work)
        work -= z
        np.divide(work, root, out=out)


# The ops of `minimize`, as TensorFlow calls them.
enter(GradientDescent, "GradientDescent", n_slots=0)
enter(Momentum, "Momentum", n_slots=1)
enter(Adagrad, "Adagrad", n_slots=1)
enter(RMSProp, "RMSProp", n_slots=2)
enter(RMSProp, "CenteredRMSProp", n_slots=3)
enter(Adam, "Adam", n_slots=2)
enter(AdamW, "AdamW", n_slots=2)
enter(Lion, "Lion", n_slots=1)
enter(Adadelta, "Adadelta", n_slots=2)
enter(Ftrl, "Ftrl", n_slots=2)
