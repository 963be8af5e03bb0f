"""The update rules and their names; the first five have TensorFlow's defaults.

    gradient_descent   v -= lr g
    momentum           a = m a + g;       v -= lr a        (nesterov: lr (g + m a))
    adagrad            a += g g;          v -= lr g / sqrt(a)
    rmsprop            s += (gg - s)(1-d); b = m b + lr g / sqrt(s + e); v -= b
    adam               m += (g - m)(1-b1); s += (gg - s)(1-b2)
                       v -= lr sqrt(1-b2^t) / (1-b1^t) m / (sqrt(s) + e)
    adamw              m, s as for adam; v -= lr wd v
                       v -= lr / (1-b1^t) m / (sqrt(s) / sqrt(1-b2^t) + e)
    lion               u = sign(m + (g - m)(1-b1)); m += (g - m)(1-b2)
                       v -= lr wd v; v -= lr u

Every constant is rounded to the parameter's dtype before it is used, as in TensorFlow.
An optimizer holds settings only: its slots live with the parameters, on whichever task
owns these. In a graph (`minimize`) a setting may be a tensor, such as a schedule.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from kit.errors import InvalidArgumentError
from kit.handles import handle
from kit.training.optimizers.averaged import Averaged
from kit.training.optimizers.compensated import DelayCompensated
from kit.training.optimizers.groups import Groups
from kit.training.optimizers.layer_rules import LAMB, LARS
from kit.training.optimizers.rule import (
    Around,
    Flat,
    Limits,
    Rate,
    Rule,
    Slot,
    approach,
)
from kit.training.optimizers.rule import Optimizer as Optimizer
from kit.training.optimizers.schedules import RateSchedule, schedule_from

_INF = float("inf")
_GROUPS = "groups"
_AROUND = (Averaged, DelayCompensated)


@handle
@dataclass(frozen=True)
class GradientDescent(Rule):
    """Gradient descent: v -= lr g. It keeps no slots.

    Parameters
    ----------
    learning_rate : float, callable or Tensor, default 0.01
        The step size lr, or a function of the step (`kit.Cosine`). Tensors are for
        `minimize` only.

    Raises
    ------
    InvalidArgumentError
        A value is out of range.

    Examples
    --------
    >>> GradientDescent(0.1).learning_rate
    0.1
    """

    learning_rate: Rate = 0.01
    name: ClassVar[str] = "gradient_descent"
    spends: ClassVar[bool] = True

    def descent(self, dtype: np.dtype[Any]) -> Any:
        """Return the learning rate as a number of `dtype`; None for a subclass.

        With a rate the compiled loop does the update itself; a subclass may update in
        another way.
        """
        is_plain = type(self) is GradientDescent and not callable(self.learning_rate)
        return self.rate(dtype) if is_plain else None

    def _update(
        self, v: Flat, g: Flat, slots: Sequence[Flat], out: Flat, work: Flat, rate: Any
    ) -> None:
        # `out` is written last, in this rule and all others: it may be `g` (`spends`).
        np.multiply(g, rate, out=work)
        np.subtract(v, work, out=out)


@handle
@dataclass(frozen=True)
class Momentum(Rule):
    """Gradient descent with momentum: a = m a + g; v -= lr a.

    Keeps one slot for each parameter.

    Parameters
    ----------
    learning_rate : float, callable or Tensor
        The step size lr, or a function of the step (`kit.Cosine`). Tensors are for
        `minimize` only.
    momentum : float, default 0.9
        How much of the last step is kept, m.
    use_nesterov : bool, default False
        Look ahead: v -= lr (g + m a).

    Raises
    ------
    InvalidArgumentError
        A value is out of range.

    Notes
    -----
    After Sutskever et al., "On the importance of initialization and momentum in deep
    learning", 2013.

    Examples
    --------
    >>> Momentum(0.1, use_nesterov=True).momentum
    0.9
    """

    learning_rate: Rate
    momentum: float = 0.9
    use_nesterov: bool = False
    name: ClassVar[str] = "momentum"
    slots = (Slot("momentum", 0.0),)  # the decayed sum of gradients
    spends: ClassVar[bool] = True

    def _update(
        self, v: Flat, g: Flat, slots: Sequence[Flat], out: Flat, work: Flat, rate: Any
    ) -> None:
        number = v.dtype.type
        (a,) = slots
        a *= number(self.momentum)
        a += g
        direction = a
        if self.use_nesterov:
            np.multiply(a, number(self.momentum), out=work)
            work += g
            direction = work
        np.multiply(direction, rate, out=work)
        np.subtract(v, work, out=out)


@handle
@dataclass(frozen=True)
class Adagrad(Rule):
    """Adagrad: a += g g; v -= lr g / sqrt(a).

    Keeps one slot for each parameter. There is no epsilon: a starts above zero.

    Parameters
    ----------
    learning_rate : float, callable or Tensor, default 0.01
        The step size lr, or a function of the step (`kit.Cosine`). Tensors are for
        `minimize` only.
    initial_accumulator_value : float, default 0.1
        Where a starts, above 0.

    Raises
    ------
    ValueError
        The initial value is not above 0, as in TensorFlow.
    InvalidArgumentError
        The learning rate is out of range.

    Notes
    -----
    After Duchi et al., "Adaptive subgradient methods for online learning and
    stochastic optimization", JMLR 12, 2011.

    Examples
    --------
    >>> Adagrad(0.5).initial_accumulator_value
    0.1
    """

    learning_rate: Rate = 0.01
    initial_accumulator_value: float = 0.1
    name: ClassVar[str] = "adagrad"
    spends: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.initial_accumulator_value <= 0:
            raise ValueError(
                f"adagrad: initial_accumulator_value is "
                f"{self.initial_accumulator_value!r}; give a number above 0, since the "
                f"gradient is divided by its root."
            )

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The sum of squared gradients."""
        return (Slot("accumulator", self.initial_accumulator_value),)

    def _update(
        self, v: Flat, g: Flat, slots: Sequence[Flat], out: Flat, work: Flat, rate: Any
    ) -> None:
        (a,) = slots
        np.multiply(g, g, out=work)
        a += work
        np.sqrt(a, out=work)
        np.divide(g, work, out=work)
        work *= rate
        np.subtract(v, work, out=out)


@handle
@dataclass(frozen=True)
class RMSProp(Rule):
    """RMSProp: s += (g g - s)(1 - decay); b = m b + lr g / sqrt(s + epsilon); v -= b.

    Keeps two slots for each parameter, and a third if centered.

    Parameters
    ----------
    learning_rate : float, callable or Tensor, default 0.001
        The step size lr, or a function of the step (`kit.Cosine`). Tensors are for
        `minimize` only.
    decay : float, default 0.9
        How much of the mean square s is kept.
    momentum : float, default 0
        How much of the last step b is kept, m.
    epsilon : float, default 1e-10
        Keeps the root away from zero.
    centered : bool, default False
        Subtract the square of the mean gradient from s under the root.

    Raises
    ------
    InvalidArgumentError
        A value is out of range.

    Notes
    -----
    After Tieleman and Hinton, "Lecture 6.5 - RMSProp", 2012. When centered, rounding
    can make the difference under the root negative, where TensorFlow gives NaN; here
    it counts as 0.

    Examples
    --------
    >>> RMSProp(centered=True).decay
    0.9
    """

    learning_rate: Rate = 0.001
    decay: float = 0.9
    momentum: float = 0.0
    epsilon: float = 1e-10
    centered: bool = False
    name: ClassVar[str] = "rmsprop"
    limits = ("decay", 0, 1), ("epsilon", 0, _INF)
    spends: ClassVar[bool] = True

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Mean square (starts at 1), mean gradient if centered, momentum."""
        mean = (Slot("mg", 0.0),) if self.centered else ()
        return (Slot("rms", 1.0), *mean, Slot("momentum", 0.0))

    def _update(
        self, v: Flat, g: Flat, slots: Sequence[Flat], out: Flat, work: Flat, rate: Any
    ) -> None:
        number = v.dtype.type
        s, *mean, b = slots
        # Subtracted in the parameter's dtype, as in TensorFlow: other last bits than
        # those of 1 - decay in double precision.
        rest = number(1) - number(self.decay)
        np.multiply(g, g, out=work)
        approach(s, work, rest, work)
        variance = s
        if mean:
            approach(mean[0], g, rest, work)
            np.multiply(mean[0], mean[0], out=work)
            np.subtract(s, work, out=work)
            # Not negative: rounding may make it so, and the root NaN.
            variance = np.maximum(work, number(0), out=work)
        np.add(variance, number(self.epsilon), out=work)
        np.sqrt(work, out=work)
        np.divide(g, work, out=work)
        work *= rate
        b *= number(self.momentum)
        b += work
        np.subtract(v, b, out=out)


@handle
@dataclass(frozen=True)
class Adam(Rule):
    """Adam: divide the mean gradient by its root mean square, both without their bias.

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
    epsilon : float, default 1e-8
        Keeps the divisor away from zero.

    Raises
    ------
    InvalidArgumentError
        A value is out of range.

    Notes
    -----
    After Kingma and Ba, "Adam: a method for stochastic optimization",
    arXiv:1412.6980, 2014. Epsilon stands outside the correction ("epsilon hat" in the
    paper). beta1^t and beta2^t are products in the parameter's dtype, one factor for
    each step so far.

    Examples
    --------
    >>> Adam(0.01).beta2
    0.999
    """

    learning_rate: Rate = 0.001
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    name: ClassVar[str] = "adam"
    slots = Slot("m", 0.0), Slot("v", 0.0)  # mean gradient and mean square
    limits: ClassVar[Limits] = (
        *(("beta1", 0, 1, True), ("beta2", 0, 1, True)),
        ("epsilon", 0, _INF),
    )
    spends: ClassVar[bool] = True
    powers: ClassVar[tuple[str, ...]] = ("beta1", "beta2")
    moves_all: ClassVar[bool] = True

    def rate(self, dtype: np.dtype[Any], powers: Sequence[Any] = ()) -> Any:
        """Return the rate, corrected for what beta1^t and beta2^t still miss of 0."""
        unit, lr = dtype.type(1), dtype.type(self.learning_rate)
        first, second = (unit - dtype.type(power) for power in powers)
        return lr * np.sqrt(second) / first

    def _update(
        self, v: Flat, g: Flat, slots: Sequence[Flat], out: Flat, work: Flat, rate: Any
    ) -> None:
        number = v.dtype.type
        m, s = slots
        approach(m, g, number(1) - number(self.beta1), work)
        np.multiply(g, g, out=work)
        approach(s, work, number(1) - number(self.beta2), work)
        np.sqrt(s, out=work)
        work += number(self.epsilon)
        np.divide(m, work, out=work)
        work *= rate
        np.subtract(v, work, out=out)


@handle
@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with weight decay that does not pass through its means.

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
    epsilon : float, default 1e-8
        Keeps the divisor away from zero; added after the correction of its bias.
    weight_decay : float, default 0.01
        The part of a parameter, times the learning rate, that each step takes away.

    Raises
    ------
    InvalidArgumentError
        A value is out of range.

    Notes
    -----
    After Loshchilov and Hutter, "Decoupled weight decay regularization",
    arXiv:1711.05101, 2017; the steps are those of `torch.optim.AdamW`.

    Examples
    --------
    >>> AdamW(0.01).weight_decay
    0.01
    """

    weight_decay: float = 0.01
    name: ClassVar[str] = "adamw"
    limits = *Adam.limits, ("weight_decay", 0, _INF)
    spends: ClassVar[bool] = True  # said anew by each class that updates in its own way

    def rate(self, dtype: np.dtype[Any], powers: Sequence[Any] = ()) -> Any:
        """Return the factors of decay, of the mean, and of its root mean square."""
        unit, lr = dtype.type(1), dtype.type(self.learning_rate)
        first, second = (unit - dtype.type(power) for power in powers)
        return lr * dtype.type(self.weight_decay), lr / first, unit / np.sqrt(second)

    def _update(
        self, v: Flat, g: Flat, slots: Sequence[Flat], out: Flat, work: Flat, rate: Any
    ) -> None:
        number = v.dtype.type
        m, s = slots
        decay, first, second = rate
        approach(m, g, number(1) - number(self.beta1), work)
        np.multiply(g, g, out=work)
        approach(s, work, number(1) - number(self.beta2), work)
        np.sqrt(s, out=work)
        work *= second
        work += number(self.epsilon)
        np.divide(m, work, out=work)
        work *= first
        np.multiply(v, number(1) - decay, out=out)
        out -= work


@handle
@dataclass(frozen=True)
class Lion(Rule):
    """Lion: steps of one size, in the direction of the sign of a mean gradient.

    Keeps one slot for each parameter.

    Parameters
    ----------
    learning_rate : float, callable or Tensor, default 0.0001
        The step size, or a function of the step (`kit.Cosine`). Tensors are for
        `minimize` only.
    beta1 : float, default 0.9
        How much of the mean counts beside the gradient in the direction of a step.
    beta2 : float, default 0.99
        How much of the mean is kept.
    weight_decay : float, default 0
        The part of a parameter, times the learning rate, that each step takes away.

    Raises
    ------
    InvalidArgumentError
        A value is out of range.

    Notes
    -----
    After Chen et al., "Symbolic discovery of optimization algorithms",
    arXiv:2302.06675, 2023.

    Examples
    --------
    >>> Lion(0.001).beta2
    0.99
    """

    learning_rate: Rate = 0.0001
    beta1: float = 0.9
    beta2: float = 0.99
    weight_decay: float = 0.0
    name: ClassVar[str] = "lion"
    slots = (Slot("m", 0.0),)  # the mean gradient
    limits = ("beta1", 0, 1), ("beta2", 0, 1), ("weight_decay", 0, _INF)
    spends: ClassVar[bool] = True
    moves_all: ClassVar[bool] = True

    def _update(
        self, v: Flat, g: Flat, slots: Sequence[Flat], out: Flat, work: Flat, rate: Any
    ) -> None:
        number = v.dtype.type
        (m,) = slots
        unit = number(1)
        direction = g - m
        np.multiply(direction, unit - number(self.beta1), out=work)
        work += m
        direction *= unit - number(self.beta2)
        m += direction
        np.sign(work, out=work)
        work *= rate
        np.multiply(v, unit - rate * number(self.weight_decay), out=out)
        out -= work


_RULES: dict[str, Callable[..., Rule]] = {
    rule.name: rule
    for rule in (
        *(GradientDescent, Momentum, Adagrad, RMSProp, Adam, AdamW, Lion),
        *(LAMB, LARS),
    )
}


def by_name(name: str, **settings: float | bool) -> Optimizer:
    """Make an optimizer from its name and its settings.

    Raises `InvalidArgumentError` for a name or a setting that does not exist.

    >>> by_name("adagrad", learning_rate=0.5)
    Adagrad(learning_rate=0.5, initial_accumulator_value=0.1)
    """
    if not (isinstance(name, str) and name in _RULES):
        plain = "gradient_descent" if str(name).lower() == "sgd" else str(name).lower()
        near = difflib.get_close_matches(plain, _RULES, n=1, cutoff=0.4)
        hint = "."
        if near:
            rule = _RULES[near[0]].__name__
            hint = f"; did you mean {near[0]!r}? With settings: kit.{rule}(...)."
        raise InvalidArgumentError(
            f"no optimizer is called {name!r}; there are {', '.join(_RULES)}{hint}"
        )
    try:
        return _RULES[name](**settings)
    except TypeError as exc:
        wanted = ", ".join(f.name for f in fields(_RULES[name]))  # type: ignore[arg-type]  # the values are dataclasses
        raise InvalidArgumentError(
            f"{name} cannot be made with {settings!r}; its settings are {wanted}."
        ) from exc


def to_plain(optimizer: Optimizer) -> dict[str, Any]:
    """Return the optimizer as plain data that JSON carries without loss.

    Raises `InvalidArgumentError` for an optimizer that is not one of these, and for one
    whose learning rate is a function of the user's own.

    >>> to_plain(GradientDescent(0.5))
    {'name': 'gradient_descent', 'learning_rate': 0.5}
    """
    if isinstance(optimizer, Groups):
        groups = [[key, to_plain(rule)] for key, rule in optimizer.groups.items()]
        return {"name": _GROUPS, "rule": to_plain(optimizer.rule), "groups": groups}
    if isinstance(optimizer, Around):
        settings = vars(optimizer) | {"rule": to_plain(optimizer.rule)}
        return {"name": optimizer.kind, **settings}
    name = getattr(optimizer, "name", "")
    if not (isinstance(optimizer, Rule) and _RULES.get(name) is type(optimizer)):
        raise InvalidArgumentError(
            f"{optimizer!r} has no plain form; only {', '.join(_RULES)} have one. "
            f"Make it on the tasks themselves instead of sending it."
        )
    rate: Any = optimizer.learning_rate
    if isinstance(rate, RateSchedule):
        rate = rate.to_plain()
    elif callable(rate):
        raise InvalidArgumentError(
            f"{name}: the learning rate is {rate!r}, a function, which has no plain "
            f"form; give a schedule such as kit.Cosine(0.1, steps=1000) instead."
        )
    values = {field.name: getattr(optimizer, field.name) for field in fields(optimizer)}
    return {"name": name, **values, "learning_rate": rate}


def named(optimizer: Optimizer) -> dict[str, Any]:
    """Return the optimizer as plain data; of the user's own class, the name of that.

    >>> class Mine:
    ...     slots = ()
    >>> named(Mine())
    {'name': '', 'class': 'Mine'}
    """
    try:
        return to_plain(optimizer)
    except InvalidArgumentError:
        return {"name": "", "class": type(optimizer).__qualname__}


def from_plain(plain: Mapping[str, Any], own: Optimizer | None = None) -> Optimizer:
    """Rebuild an optimizer from `to_plain`; every field is checked again.

    `own` is the one that is meant where `named` gave a class. Raises
    `InvalidArgumentError` (or `ValueError`, see `Adagrad`) for anything that neither
    would have written.

    >>> from_plain({"name": "momentum", "learning_rate": 0.5}).slots
    (Slot(name='momentum', initial=0.0),)
    """
    if "class" in plain:
        if own is None or type(own).__qualname__ != plain["class"]:
            raise InvalidArgumentError(
                f"the optimizer's class, {plain['class']!r}, is not one of kit's, and "
                f"links carry no code: a program that did not begin this training "
                f"cannot take part in it. Use one of {', '.join(_RULES)}, or begin the "
                f"training on a kit.Cluster."
            )
        return own
    if plain.get("name") == _GROUPS:
        rules = {str(key): from_plain(rule) for key, rule in plain["groups"]}
        return Groups(from_plain(plain["rule"]), rules)  # type: ignore[arg-type]  # it checks
    settings = {
        str(key): schedule_from(value) for key, value in plain.items() if key != "name"
    }
    for kind in _AROUND:
        if plain.get("name") == kind.kind:
            return kind(from_plain(settings.pop("rule")), **settings)
    return by_name(plain.get("name", ""), **settings)
