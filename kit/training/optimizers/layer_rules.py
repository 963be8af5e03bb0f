"""Rules whose steps depend on how long a whole parameter is: LAMB and LARS.

    lamb    m, s as for adam; u = m / (1-b1^t) / (sqrt(s) / sqrt(1-b2^t) + e) + wd v
            v -= lr |v| / |u| u
    lars    u = lr c |v| / (|g| + wd |v|) (g + wd v);   b = m b + u;   v -= b

Where a length is 0, its ratio is 1. A parameter is updated as a whole, with the same
bits wherever numpy adds up alike; so each worker updates all parameters
(`Rule.by_layer`), as with compressed gradients.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kit.handles import handle
from kit.training.optimizers.rule import Flat, Rate, Rule, Slot, approach

_INF = float("inf")


class LayerRule(Rule):
    """Base of rules that update each parameter as a whole."""

    by_layer: ClassVar[bool] = True
    moves_all: ClassVar[bool] = True

    def update(
        self,
        parameter: Flat,
        gradient: Flat,
        slots: Sequence[Flat],
        out: Flat,
        rate: Any,
    ) -> None:
        """See `Rule`: in one piece."""
        work = np.empty_like(parameter)
        self._update(parameter, gradient, slots, out, work, rate)


@handle
@dataclass(frozen=True)
class LAMB(LayerRule):
    """Adam with weight decay, whose steps are as long as the parameter, times the rate.

    Keeps two slots for each parameter.

    Parameters
    ----------
    learning_rate : float, callable or Tensor, default 0.001
        The step size, or a function of the step (`kit.Cosine`). Tensors are for
        `minimize` only.
    beta1 : float, default 0.9
        How much of the mean is kept.
    beta2 : float, default 0.999
        How much of the mean square is kept.
    epsilon : float, default 1e-6
        Keeps the divisor away from zero.
    weight_decay : float, default 0.01
        The part of a parameter that is added to its step before that is scaled.

    Raises
    ------
    InvalidArgumentError
        A value is out of range.

    Notes
    -----
    After You et al., "Large batch optimization for deep learning: training BERT in 76
    minutes", arXiv:1904.00962, 2019. Each worker updates all parameters, from the whole
    mean gradient: a step moves the bytes of `kit.ClipByNorm`, needs the slots on every
    worker, and steps that all workers make together.

    Examples
    --------
    >>> LAMB(0.01).beta2
    0.999
    """

    learning_rate: Rate = 0.001
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-6
    weight_decay: float = 0.01
    name: ClassVar[str] = "lamb"
    slots = Slot("m", 0.0), Slot("v", 0.0)  # mean gradient and mean square
    limits = (
        ("beta1", 0, 1, True),
        ("beta2", 0, 1, True),
        ("epsilon", 0, _INF),
        ("weight_decay", 0, _INF),
    )
    spends: ClassVar[bool] = True
    powers: ClassVar[tuple[str, ...]] = ("beta1", "beta2")

    def rate(self, dtype: np.dtype[Any], powers: Sequence[Any] = ()) -> Any:
        """Return the rate, and the factors of the mean and of its root mean square."""
        unit = dtype.type(1)
        first, second = (unit - dtype.type(power) for power in powers)
        return dtype.type(self.learning_rate), unit / first, unit / np.sqrt(second)

    def _update(
        self, v: Flat, g: Flat, slots: Sequence[Flat], out: Flat, work: Flat, rate: Any
    ) -> None:
        number = v.dtype.type
        m, s = slots
        lr, first, second = rate
        approach(m, g, number(1) - number(self.beta1), work)
        way = g * g
        approach(s, way, number(1) - number(self.beta2), work)
        np.sqrt(s, out=work)
        work *= second
        work += number(self.epsilon)
        np.multiply(m, first, out=way)
        way /= work
        way += v * number(self.weight_decay)
        way *= lr * number(_ratio(_length(v), _length(way)))
        np.subtract(v, way, out=out)


@handle
@dataclass(frozen=True)
class LARS(LayerRule):
    """Gradient descent with momentum, with a rate for each parameter by its length.

    Keeps one slot for each parameter.

    Parameters
    ----------
    learning_rate : float, callable or Tensor
        The step size, or a function of the step (`kit.Cosine`). Tensors are for
        `minimize` only.
    momentum : float, default 0.9
        How much of the last step is kept.
    weight_decay : float, default 0.0001
        The part of a parameter that is added to its gradient.
    trust : float, default 0.001
        How long a step is, as a part of the parameter, at a rate of 1.

    Raises
    ------
    InvalidArgumentError
        A value is out of range.

    Notes
    -----
    After You et al., "Large batch training of convolutional networks",
    arXiv:1708.03888, 2017. What it costs is said at `kit.LAMB`.

    Examples
    --------
    >>> LARS(0.5).trust
    0.001
    """

    learning_rate: Rate
    momentum: float = 0.9
    weight_decay: float = 0.0001
    trust: float = 0.001
    name: ClassVar[str] = "lars"
    slots = (Slot("momentum", 0.0),)  # the decayed sum of steps
    limits = ("weight_decay", 0, _INF), ("trust", 0, _INF)
    spends: ClassVar[bool] = True

    def _update(
        self, v: Flat, g: Flat, slots: Sequence[Flat], out: Flat, work: Flat, rate: Any
    ) -> None:
        number = v.dtype.type
        (b,) = slots
        long, decay = _length(v), float(self.weight_decay)
        ratio = _ratio(float(self.trust) * long, _length(g) + decay * long)
        np.multiply(v, number(decay), out=work)
        work += g
        work *= rate * number(ratio)
        b *= number(self.momentum)
        b += work
        np.subtract(v, b, out=out)


def _length(array: Flat) -> float:
    return math.sqrt(float(np.square(array, dtype=np.float64).sum()))


def _ratio(length: float, other: float) -> float:
    return length / other if length > 0 and other > 0 else 1.0
