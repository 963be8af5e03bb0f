"""Learning rates that follow the global step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kit.tf1.ops.arithmetic import (
    add,
    cast,
    ceil,
    cos,
    divide,
    equal,
    exp,
    floor,
    less_equal,
    log,
    minimum,
    multiply,
    negative,
    pow,
    sqrt,
)
from kit.tf1.ops.index import where
from kit.tf1.ops.random import random_normal
from kit.tf1.tensor.convert import convert_to_tensor, op_scope


@contextmanager
def _schedule(
    name: str | None, default: str, learning_rate: Any, global_step: Any, *more: Any
) -> Iterator[tuple[Any, Any, str]]:
    """Enter the scope of a schedule; yields its name, the rate and the step.

    Both are of the rate's dtype. Raises `ValueError` without a step.
    """
    if global_step is None:
        raise ValueError(f"global_step is required for {default}.")
    with op_scope(name, default, [learning_rate, global_step, *more]) as scope:
        rate = convert_to_tensor(learning_rate, name="initial_learning_rate")
        yield rate, cast(global_step, rate.dtype.base_dtype), scope


def _decay(default: str, decayed: Callable[[Any, Any, Any, str], Any], doc: str) -> Any:
    def function(
        learning_rate: Any,
        global_step: Any,
        decay_steps: Any,
        decay_rate: Any,
        staircase: bool = False,
        name: str | None = None,
    ) -> Any:
        more = (decay_steps, decay_rate)
        with _schedule(name, default, learning_rate, global_step, *more) as (
            rate,
            step,
            scope,
        ):
            progress = divide(step, cast(decay_steps, step.dtype))
            progress = floor(progress) if staircase else progress
            return decayed(rate, progress, decay_rate, scope)

    function.__doc__ = (
        f"Return {doc}.\n\n"
        f"The progress is global_step / decay_steps, with `staircase` rounded down. "
        f"Raises `ValueError` without a step."
    )
    return function


def _exponential(rate: Any, progress: Any, decay_rate: Any, scope: str) -> Any:
    return multiply(rate, pow(cast(decay_rate, rate.dtype), progress), name=scope)


def _inverse_time(rate: Any, progress: Any, decay_rate: Any, scope: str) -> Any:
    slowed = multiply(cast(decay_rate, rate.dtype), progress)
    return divide(rate, add(cast(1, rate.dtype), slowed), name=scope)


exponential_decay = _decay(
    "ExponentialDecay", _exponential, "learning_rate * decay_rate ** progress"
)
inverse_time_decay = _decay(
    "InverseTimeDecay", _inverse_time, "learning_rate / (1 + decay_rate * progress)"
)


def natural_exp_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Any:
    """Return learning_rate * e ** (-decay_rate * global_step / decay_steps)."""
    factor = exp(negative(decay_rate))
    arguments = (learning_rate, global_step, decay_steps, factor)
    return exponential_decay(*arguments, staircase, name)


def polynomial_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    end_learning_rate: Any = 0.0001,
    power: Any = 1.0,
    cycle: bool = False,
    name: str | None = None,
) -> Any:
    """Return a rate that falls from learning_rate to end_learning_rate in decay_steps.

    (learning_rate - end) * (1 - progress) ** power + end. With `cycle` it falls again
    and again, each time over a longer span.
    """
    operands = (learning_rate, global_step)
    with _schedule(name, "PolynomialDecay", *operands) as (rate, step, scope):
        dtype = step.dtype
        end, exponent = cast(end_learning_rate, dtype), cast(power, dtype)
        span = cast(decay_steps, dtype)
        if cycle:
            times = where(equal(step, 0), cast(1, dtype), ceil(step / span))
            span = multiply(span, times)
        else:
            step = minimum(step, span)
        left = 1 - divide(step, span)
        return add(multiply(rate - end, pow(left, exponent)), end, name=scope)


def cosine_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    alpha: float = 0.0,
    name: str | None = None,
) -> Any:
    """Return a rate that falls by half a cosine wave to alpha * learning_rate."""
    operands = (learning_rate, global_step)
    with _schedule(name, "CosineDecay", *operands) as (rate, step, _):
        span = cast(decay_steps, step.dtype)
        wave = 0.5 * (1.0 + cos(math.pi * (minimum(step, span) / span)))
        return multiply(rate, (1 - alpha) * wave + alpha)


def cosine_decay_restarts(
    learning_rate: Any,
    global_step: Any,
    first_decay_steps: Any,
    t_mul: float = 2.0,
    m_mul: float = 1.0,
    alpha: float = 0.0,
    name: str | None = None,
) -> Any:
    """Return a rate that falls like `cosine_decay` again and again.

    Each time takes `t_mul` as many steps, and begins with `m_mul` of the rate before.
    """
    operands = (learning_rate, global_step)
    with _schedule(name, "SGDRDecay", *operands) as (rate, step, _):
        gone = step / cast(first_decay_steps, step.dtype)
        if t_mul == 1.0:
            times = floor(gone)
            part = gone - times
        else:
            times = floor(log(1.0 - gone * (1.0 - t_mul)) / math.log(t_mul))
            longer = pow(convert_to_tensor(t_mul, step.dtype), times)
            part = (gone - (1.0 - longer) / (1.0 - t_mul)) / longer
        share = pow(convert_to_tensor(m_mul, step.dtype), times)
        wave = 0.5 * share * (1.0 + cos(math.pi * part))
        return multiply(rate, (1 - alpha) * wave + alpha)


def linear_cosine_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    num_periods: float = 0.5,
    alpha: float = 0.0,
    beta: float = 0.001,
    name: str | None = None,
) -> Any:
    """Return rate * ((alpha + what is left) * a cosine of `num_periods` + beta)."""
    operands = (learning_rate, global_step)
    with _schedule(name, "LinearCosineDecay", *operands) as (rate, step, scope):
        step, left, wave = _waved(step, decay_steps, num_periods)
        return multiply(rate, (alpha + left) * wave + beta, name=scope)


def noisy_linear_cosine_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    initial_variance: float = 1.0,
    variance_decay: float = 0.55,
    num_periods: float = 0.5,
    alpha: float = 0.0,
    beta: float = 0.001,
    name: str | None = None,
) -> Any:
    """Return `linear_cosine_decay` with normal noise, which falls with the steps."""
    operands = (learning_rate, global_step)
    with _schedule(name, "NoisyLinearCosineDecay", *operands) as (rate, step, scope):
        step, left, wave = _waved(step, decay_steps, num_periods)
        spread = sqrt(initial_variance / pow(1.0 + step, variance_decay))
        noisy = left + random_normal(left.shape, stddev=spread, dtype=rate.dtype)
        return multiply(rate, (alpha + noisy) * wave + beta, name=scope)


def _waved(step: Any, decay_steps: Any, num_periods: float) -> tuple[Any, Any, Any]:
    """Return the step, the share of steps that is left, and the height of the wave."""
    span = cast(decay_steps, step.dtype)
    step = minimum(step, span)
    wave = 0.5 * (1.0 + cos(2.0 * math.pi * num_periods * (step / span)))
    return step, (span - step) / span, wave


def piecewise_constant(
    x: Any, boundaries: Any, values: Any, name: str | None = None
) -> Any:
    """Return values[i] where x is above boundaries[i - 1] and not above boundaries[i].

    Raises `ValueError` unless there is one value more than boundaries, and for dtypes
    that differ.
    """
    if len(boundaries) != len(values) - 1:
        raise ValueError(
            "The length of boundaries should be 1 less than the length of values"
        )
    with op_scope(name, "PiecewiseConstant", [x, boundaries, values]):
        tensor = convert_to_tensor(x)
        limits = [_limit(boundary, tensor) for boundary in boundaries]
        parts = [convert_to_tensor(item) for item in values]
        for part in parts[1:]:
            if part.dtype.base_dtype != parts[0].dtype.base_dtype:
                raise ValueError(
                    f"Values must have elements all with the same dtype "
                    f"({parts[0].dtype.name} vs {part.dtype.name})."
                )
        value = parts[-1]
        for i in reversed(range(len(limits))):
            # The original's last operation is the end of a `case`.
            last = None if i else "case/cond/Merge"
            value = where(less_equal(tensor, limits[i]), parts[i], value, name=last)
        return value


def _limit(boundary: Any, x: Any) -> Any:
    limit = convert_to_tensor(boundary)
    wanted, dtype = x.dtype.base_dtype, limit.dtype.base_dtype
    if dtype == wanted:
        return limit
    if (dtype.name, wanted.name) == ("int32", "int64"):
        return cast(limit, wanted)
    raise ValueError(
        f"Boundaries ({dtype.name}) must have the same dtype as x ({wanted.name})."
    )
