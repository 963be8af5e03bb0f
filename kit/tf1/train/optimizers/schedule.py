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
    minimum,
    multiply,
    negative,
    pow,
)
from kit.tf1.ops.index import where
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
