"""What an optimizer is: an elementwise rule over flat arrays, done piece by piece.

A rule uses + - * / sqrt and nothing else. Each of these is correctly rounded, so an
element's new value depends on that element alone: however the flat vector is cut over
tasks, shards or buckets, the result has the same bits. No power, exponential or sum may
enter here; their last bit depends on the machine or on the length of the array.

Nothing here knows a particular rule (`kit.training.optimizers.rules` does), a task or a
link.
"""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from kit.errors import GradientMismatch, InvalidArgumentError
from kit.exchange.layout import Layout, Range
from kit.exchange.ports.memory import Array
from kit.graph.array_protocol import ArrayProtocol
from kit.training.optimizers.in_graphs import Minimizes

Flat = npt.NDArray[np.floating[Any]]
# A setting that may come from a graph: a number, or a tensor there.
Number: TypeAlias = float | ArrayProtocol
# A learning rate may also be a function of the number of steps before.
Rate: TypeAlias = Number | Callable[[int], float]

# Of each setting that has them: its name, its least, its most, and whether it has to
# be below that.
Limits: TypeAlias = tuple[tuple[Any, ...], ...]

# Elements handled at a time. Small enough that what a rule touches several times stays
# in the cache, large enough that numpy's cost per call is lost in the arithmetic.
PIECE = 1 << 16


class Slot(NamedTuple):
    """One array that an optimizer keeps beside the parameters, equally long."""

    name: str
    initial: float


class Optimizer(Protocol):
    """Turns gradients into updates; any object with these two members is one."""

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The arrays that `apply` wants, in this order."""
        ...

    def apply(
        self,
        parameter: Flat,
        gradient: Flat,
        slots: Sequence[Flat],
        out: Flat,
        step: int,
    ) -> None:
        """Write the parameter's next value to `out`, and move the slots on in place.

        All arrays are 1-d, contiguous, equally long and of one dtype, float32 or
        float64. `out` is the parameter array itself or does not overlap it. `gradient`
        is only read. `step` is the number of updates made before this one. An element's
        result may not depend on any other element.
        """
        ...


@dataclass(frozen=True)
class Rule(Minimizes, ABC):
    """Base of the rules: frozen settings, checked, and an `_update` of one piece.

    A setting may be a tensor where the rule trains a graph (`minimize`).

    Attributes:
        limits: what settings may be.
        powers: the settings of whose powers, one factor a step, the rate is made.
        moves_all: an update moves every element, also those without a gradient.
        spends: `out` may be the gradient itself, since nothing of a piece of it is read
            after the piece of `out` is written. A rule derived from another one has to
            say so for itself.
        by_layer: an update depends on all of a parameter, such as on its length.
    """

    name: ClassVar[str]
    limits: ClassVar[Limits] = ()
    powers: ClassVar[tuple[str, ...]] = ()
    moves_all: ClassVar[bool] = False
    spends: ClassVar[bool] = False
    by_layer: ClassVar[bool] = False

    learning_rate: Rate

    def __post_init__(self) -> None:
        for field in fields(self):
            own_value = getattr(self, field.name)
            is_schedule = field.name == "learning_rate" and callable(own_value)
            if isinstance(own_value, ArrayProtocol) or is_schedule:
                continue
            # Annotations are strings in the modules of this package.
            check = _flag if field.type == "bool" else _number
            value = check(f"{self.name}: {field.name}", getattr(self, field.name))
            object.__setattr__(self, field.name, value)
        for setting, *limits in self.limits:
            check_range(f"{self.name}: {setting}", getattr(self, setting), *limits)

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The arrays that `apply` wants, in this order."""
        return ()

    def rate(self, dtype: np.dtype[Any], powers: Sequence[Any] = ()) -> Any:
        """Return the factor of one step, a number of `dtype`; `powers` as named."""
        return dtype.type(self.learning_rate)

    def rate_at(self, dtype: np.dtype[Any], step: int) -> Any:
        """Return the factor of a step that follows `step` others."""
        powers = [power(getattr(self, name), dtype, step) for name in self.powers]
        if not callable(self.learning_rate):
            return self.rate(dtype, powers)
        now = replace(self, learning_rate=self.learning_rate(step))
        return now.rate(dtype, powers)

    def apply(
        self,
        parameter: Flat,
        gradient: Flat,
        slots: Sequence[Flat],
        out: Flat,
        step: int,
    ) -> None:
        """Write the parameter's next value to `out`; see `Optimizer.apply`.

        Raises `GradientMismatch` when the gradient does not fit the parameter and
        `InvalidArgumentError` for any other misfit, before anything is written.
        Allocates one scratch piece, whatever the length.
        """
        self._check(parameter, gradient, slots, out, step)
        rate = self.rate_at(parameter.dtype, step)
        self.update(parameter, gradient, slots, out, rate)

    def update(
        self,
        parameter: Flat,
        gradient: Flat,
        slots: Sequence[Flat],
        out: Flat,
        rate: Any,
    ) -> None:
        """Do what `apply` does at a given `rate`, on arrays of any device, unchecked.

        `out` may be the gradient too, if this rule `spends` it.
        """
        size = piece_size(parameter)
        scratch = np.empty_like(parameter[:size])
        for start in range(0, parameter.size, size):
            piece = slice(start, start + size)
            old = parameter[piece]
            mine = [slot[piece] for slot in slots]
            work = scratch[: old.size]
            self._update(old, gradient[piece], mine, out[piece], work, rate)

    def descent(self, dtype: np.dtype[Any]) -> Any:
        """Return r, a number of `dtype`, if each update is v - g r; else None."""
        return None

    @abstractmethod
    def _update(
        self,
        parameter: Flat,
        gradient: Flat,
        slots: Sequence[Flat],
        out: Flat,
        work: Flat,
        rate: Any,
    ) -> None:
        """Do one piece; `work` is scratch of the piece's length."""

    def _check(
        self,
        parameter: Flat,
        gradient: Flat,
        slots: Sequence[Flat],
        out: Flat,
        step: int,
    ) -> None:
        _check_flat(self.name, "parameter", parameter)
        if (gradient.shape, gradient.dtype) != (parameter.shape, parameter.dtype):
            raise GradientMismatch(
                f"{self.name}: the gradient is {_kind(gradient)}, but its parameter is "
                f"{_kind(parameter)}; return gradients of the parameter's own kind."
            )
        if len(slots) != len(self.slots):
            names = ", ".join(slot.name for slot in self.slots) or "none"
            raise InvalidArgumentError(
                f"{self.name}: got {len(slots)} slots, needs {len(self.slots)} "
                f"({names}); make one array for each entry of `.slots`."
            )
        named = [(f"slot {index}", slot) for index, slot in enumerate(slots)]
        for what, array in (("gradient", gradient), ("out", out), *named):
            _check_like(self.name, what, array, parameter)
        if step < 0:
            raise InvalidArgumentError(
                f"{self.name}: step is {step}; the first update has step 0."
            )


def piece_size(array: Flat) -> int:
    """Return how many elements to handle at a time.

    Pieces are made for a processor's cache; a GPU takes all at once.
    """
    return PIECE if isinstance(array, np.ndarray) else max(1, array.size)


def check_range(
    what: str, value: float, low: float, high: float, open_end: bool = False
) -> None:
    """Refuse a setting outside low..high with `InvalidArgumentError`.

    >>> check_range("adam: beta1", 0.9, 0, 1, open_end=True)
    """
    if isinstance(value, ArrayProtocol):
        return
    if low <= value <= high and not (open_end and value == high):
        return
    limit = f"below {high:g}" if open_end else f"at most {high:g}"
    wanted = f"at least {low:g}" + ("" if math.isinf(high) else f" and {limit}")
    raise InvalidArgumentError(f"{what} is {value!r}; give a number {wanted}.")


def approach(mean: Flat, target: Flat, rate: Any, work: Flat) -> None:
    """Move `mean` towards `target` by `rate`; `target` may be `work` itself."""
    np.subtract(target, mean, out=work)
    np.multiply(work, rate, out=work)
    mean += work


def power(base: float, dtype: np.dtype[Any], step: int) -> Any:
    """Return base^(step + 1), multiplied up one step at a time in `dtype`.

    >>> power(0.5, np.dtype("float32"), 2)
    np.float32(0.125)
    """
    # From here on 1 - power is exactly 1: exp(-42) is below half of float64's epsilon.
    last = min(step, int(42 / (1 - base)))
    return _powers(base, dtype, max(1024, 1 << last.bit_length()))[last]


@lru_cache(maxsize=32)
def _powers(base: float, dtype: np.dtype[Any], n: int) -> Flat:
    # accumulate is sequential by definition: the same bits whatever n.
    table: Flat = np.multiply.accumulate(np.full(n, base, dtype))
    table.flags.writeable = False
    return table


def _kind(array: Flat) -> str:
    return f"{array.dtype}{list(array.shape)}"


def _check_flat(rule: str, what: str, array: Flat) -> None:
    floats = array.dtype in (np.float32, np.float64)
    if not (floats and array.ndim == 1 and array.flags.c_contiguous):
        raise InvalidArgumentError(
            f"{rule}: {what} is {_kind(array)}, contiguous: "
            f"{array.flags.c_contiguous}; give a contiguous 1-d array of float32 or "
            f"float64, for example the flat buffer itself."
        )


def _check_like(rule: str, what: str, array: Flat, parameter: Flat) -> None:
    _check_flat(rule, what, array)
    if (array.shape, array.dtype) != (parameter.shape, parameter.dtype):
        raise InvalidArgumentError(
            f"{rule}: {what} is {_kind(array)}, but the parameter is "
            f"{_kind(parameter)}; cut and convert all arrays alike."
        )
    # Arrays of a GPU are never read-only, and do not say so.
    if what != "gradient" and not getattr(array.flags, "writeable", True):
        raise InvalidArgumentError(
            f"{rule}: {what} is read-only, but an update writes to it; "
            f"pass the owner's own view."
        )


def _number(what: str, value: object) -> float:
    good = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not (good and math.isfinite(value)):  # type: ignore[arg-type]  # good: a Real
        raise InvalidArgumentError(f"{what} is {value!r}; give a finite number.")
    return float(value)  # type: ignore[arg-type]  # a Real, checked above


def _flag(what: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidArgumentError(f"{what} is {value!r}; give True or False.")
    return value


# --------------------------------------------------------------------------------------
# From the sum of all gradients to new parameters: the mean, then the optimizer.


def by_layer(optimizer: Optimizer | None) -> bool:
    """Whether it, or what it is made of, updates each parameter as a whole."""
    rule = getattr(optimizer, "rule", None)
    return bool(getattr(optimizer, "by_layer", False)) or (
        rule is not None and by_layer(rule)
    )


def updated_ranges(optimizer: Optimizer, layout: Layout) -> list[Range]:
    """Return the ranges that are updated one by one where all of them are at hand."""
    if by_layer(optimizer):
        return [leaf.range for leaf in layout.leaves if leaf.range.size]
    return [*layout.stretches]


def over(optimizer: Optimizer, layout: Layout, part: Range) -> Optimizer:
    """Return the optimizer of a range of the flat parameters, of one dtype."""
    groups = getattr(optimizer, "over", None)
    chosen: Optimizer = optimizer if groups is None else groups(layout, part)
    return chosen


def check_names(optimizer: Optimizer | None, names: Sequence[str]) -> None:
    """Let an optimizer refuse what it cannot do with parameters of these names."""
    check = getattr(optimizer, "check_names", None)
    if check is not None:
        check(names)


@dataclass(frozen=True)
class Around:
    """Base of optimizers that do something beside the updates of another one.

    Attributes:
        kind: what its plain form is called (`kit.training.optimizers.rules`).
        limits: what settings may be.
    """

    kind: ClassVar[str]
    limits: ClassVar[Limits]

    rule: Optimizer

    def __post_init__(self) -> None:
        rule: Any = self.rule
        if isinstance(rule, type | str) or not hasattr(rule, "apply"):
            raise InvalidArgumentError(
                f"rule is {rule!r}; give an optimizer such as kit.AdamW(0.001)."
            )
        for name, *limits in self.limits:
            value = getattr(self, name)
            if not isinstance(value, int | float):
                raise InvalidArgumentError(f"{name} is {value!r}; give a number.")
            check_range(f"{type(self).__name__}: {name}", value, *limits)

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Those of the rule."""
        return self.rule.slots

    def check_names(self, names: Sequence[str]) -> None:
        """Let the rule refuse what it cannot do with parameters of these names."""
        check_names(self.rule, names)


class MeanUpdate:
    """The `Update` of an exchange: an optimizer fed with the sum over `n` workers.

    Attributes:
        rule: the optimizer, if it is a rule that updates as all rules do.
    """

    def __init__(self, optimizer: Optimizer, n: int) -> None:
        """Divide by `n`; asynchronous training, one gradient at a time, by 1."""
        self._optimizer, self.n = optimizer, n
        self.rule: Rule | None = None
        if isinstance(optimizer, Rule) and type(optimizer).apply is Rule.apply:
            self.rule = optimizer

    def over(self, layout: Layout, part: Range) -> MeanUpdate:
        """Return the update of a range, by the optimizer of its parameters."""
        optimizer = over(self._optimizer, layout, part)
        return self if optimizer is self._optimizer else MeanUpdate(optimizer, self.n)

    def descent(self, dtype: np.dtype[Any]) -> tuple[float, float] | None:
        """Return weight and rate, if this is gradient descent and nothing else."""
        rate = None if self.rule is None else self.rule.descent(dtype)
        return None if rate is None else (dtype.type(1 / self.n), rate)

    @property
    def spends(self) -> bool:
        """Whether the next parameters may be written over the sum itself."""
        # A rule that was derived from one may do otherwise: each has to say so itself.
        rule = self.rule
        return rule is not None and bool(vars(type(rule)).get("spends", False))

    def __call__(
        self, now: Array, total: Array, slots: Sequence[Array], out: Array, step: int
    ) -> None:
        """Write the next parameters to `out`; overwrites `total` with the mean.

        `out` may be `total` where the optimizer `spends` its gradient.
        """
        if self.n > 1:
            np.multiply(total, total.dtype.type(1 / self.n), out=total)
        if self.rule is None:
            self._optimizer.apply(now, total, slots, out, step)
            return
        # The exchange cut these arrays alike: what `apply` checks holds.
        self.rule.update(now, total, slots, out, self.rule.rate_at(now.dtype, step))
