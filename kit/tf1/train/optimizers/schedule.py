"""Learning rates that follow the global step."""

from __future__ import annotations

import math
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


def exponential_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Any:
    """Return learning_rate * decay_rate ** (global_step / decay_steps).

    With `staircase` the exponent is rounded down. Raises `ValueError` without a step.
    """
    given = [learning_rate, global_step, decay_steps, decay_rate]
    _check_step(global_step, "exponential_decay")
    with op_scope(name, "ExponentialDecay", given) as scope:
        rate, progress = _progress(learning_rate, global_step, decay_steps, staircase)
        factor = cast(decay_rate, rate.dtype)
        return multiply(rate, pow(factor, progress), name=scope)


def natural_exp_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Any:
    """Return learning_rate * e ** (-decay_rate * global_step / decay_steps)."""
    return exponential_decay(
        learning_rate,
        global_step,
        decay_steps,
        exp(negative(decay_rate)),
        staircase,
        name,
    )


def inverse_time_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Any:
    """Return learning_rate / (1 + decay_rate * global_step / decay_steps)."""
    given = [learning_rate, global_step, decay_steps, decay_rate]
    _check_step(global_step, "inverse_time_decay")
    with op_scope(name, "InverseTimeDecay", given) as scope:
        rate, progress = _progress(learning_rate, global_step, decay_steps, staircase)
        slowed = multiply(cast(decay_rate, rate.dtype), progress)
        return divide(rate, add(cast(1, rate.dtype), slowed), name=scope)


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
    _check_step(global_step, "polynomial_decay")
    with op_scope(name, "PolynomialDecay", [learning_rate, global_step]) as scope:
        rate = convert_to_tensor(learning_rate, name="initial_learning_rate")
        dtype = rate.dtype.base_dtype
        end, exponent = cast(end_learning_rate, dtype), cast(power, dtype)
        step, span = cast(global_step, dtype), cast(decay_steps, dtype)
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
    _check_step(global_step, "cosine_decay")
    with op_scope(name, "CosineDecay", [learning_rate, global_step]):
        rate = convert_to_tensor(learning_rate, name="initial_learning_rate")
        dtype = rate.dtype.base_dtype
        span = cast(decay_steps, dtype)
        progress = minimum(cast(global_step, dtype), span) / span
        wave = 0.5 * (1.0 + cos(math.pi * progress))
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
    _check_step(global_step, "cosine decay restarts")
    with op_scope(name, "SGDRDecay", [learning_rate, global_step]):
        rate = convert_to_tensor(learning_rate, name="initial_learning_rate")
        dtype = rate.dtype.base_dtype
        gone = cast(global_step, dtype) / cast(first_decay_steps, dtype)
        if t_mul == 1.0:
            times = floor(gone)
            part = gone - times
        else:
            times = floor(log(1.0 - gone * (1.0 - t_mul)) / math.log(t_mul))
            longer = pow(convert_to_tensor(t_mul, dtype), times)
            part = (gone - (1.0 - longer) / (1.0 - t_mul)) / longer
        share = pow(convert_to_tensor(m_mul, dtype), times)
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
    _check_step(global_step, "linear cosine decay")
    with op_scope(name, "LinearCosineDecay", [learning_rate, global_step]) as scope:
        rate, left, wave = _waved(learning_rate, global_step, decay_steps, num_periods)
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
    _check_step(global_step, "noisy linear cosine decay")
    name_or = name, "NoisyLinearCosineDecay"
    with op_scope(*name_or, [learning_rate, global_step]) as scope:
        rate, left, wave = _waved(learning_rate, global_step, decay_steps, num_periods)
        step = minimum(cast(global_step, rate.dtype), cast(decay_steps, rate.dtype))
        spread = sqrt(initial_variance / pow(1.0 + step, variance_decay))
        noisy = left + random_normal(left.shape, stddev=spread, dtype=rate.dtype)
        return multiply(rate, (alpha + noisy) * wave + beta, name=scope)


def _waved(
    learning_rate: Any, global_step: Any, decay_steps: Any, num_periods: float
) -> tuple[Any, Any, Any]:
    """Return the rate, the share of steps that is left, and the height of the wave."""
    rate = convert_to_tensor(learning_rate, name="initial_learning_rate")
    dtype = rate.dtype.base_dtype
    span = cast(decay_steps, dtype)
    step = minimum(cast(global_step, dtype), span)
    wave = 0.5 * (1.0 + cos(2.0 * math.pi * num_periods * (step / span)))
    return rate, (span - step) / span, wave


def _check_step(global_step: Any, function: str) -> None:
    if global_step is None:
        raise ValueError(f"global_step is required for {function}.")


def _progress(
    learning_rate: Any, global_step: Any, decay_steps: Any, staircase: bool
) -> tuple[Any, Any]:
    """Return the rate as a tensor, and the number of spans of steps that passed."""
    rate = convert_to_tensor(learning_rate, name="initial_learning_rate")
    dtype = rate.dtype.base_dtype
    gone = divide(cast(global_step, dtype), cast(decay_steps, dtype))
    return rate, floor(gone) if staircase else gone


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
        given = convert_to_tensor(x)
        limits = [_limit(one, given) for one in boundaries]
        parts = [convert_to_tensor(one) for one in values]
        for one in parts[1:]:
            if one.dtype.base_dtype != parts[0].dtype.base_dtype:
                raise ValueError(
                    f"Values must have elements all with the same dtype "
                    f"({parts[0].dtype.name} vs {one.dtype.name})."
                )
        found = parts[-1]
        for i in reversed(range(len(limits))):
            # The original's last operation is the end of a `case`.
            last = None if i else "case/cond/Merge"
            found = where(less_equal(given, limits[i]), parts[i], found, name=last)
        return found


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
