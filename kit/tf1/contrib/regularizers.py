"""What weights cost, and how they begin, as `tf.contrib.layers` names it."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from typing import Any

from kit.tf1.graph.collections import GraphKeys, add_to_collection, get_collection
from kit.tf1.ops.arithmetic import abs as absolute
from kit.tf1.ops.arithmetic import add_n, multiply
from kit.tf1.ops.creation import constant
from kit.tf1.ops.nn_activation import l2_loss
from kit.tf1.ops.reduce import reduce_sum
from kit.tf1.tensor.convert import convert_to_tensor, op_scope
from kit.tf1.tensor.dtypes import float32
from kit.tf1.variables.initial_values import VarianceScaling

Regularizer = Callable[[Any], Any]

# Kit's own truncated normal has exactly the variance; that of contrib is 1.3 times the
# square of the deviation.
_TRUNCATED = 1.3 * 0.87962566103423978**2


def l2_regularizer(scale: float, scope: str | None = None) -> Regularizer:
    """Return a function of weights: `scale` times half the sum of their squares.

    Raises `ValueError` for an integer, and for a negative scale.
    """
    return _scaled("l2_regularizer", l2_loss, scale, scope)


def l1_regularizer(scale: float, scope: str | None = None) -> Regularizer:
    """Return a function of weights: `scale` times the sum of their magnitudes.

    Raises `ValueError` for an integer, and for a negative scale.
    """
    return _scaled("l1_regularizer", lambda w: reduce_sum(absolute(w)), scale, scope)


def sum_regularizer(
    regularizer_list: Sequence[Regularizer | None], scope: str | None = None
) -> Regularizer | None:
    """Return the sum of regularizers; None if there are none."""
    parts = [part for part in regularizer_list if part is not None]
    if not parts:
        return None

    def cost(weights: Any) -> Any:
        with op_scope(scope, "sum_regularizer", [weights]) as name:
            costs = [regularizer(weights) for regularizer in parts]
            costs = [cost for cost in costs if cost is not None]
            return add_n(costs, name=name) if costs else None

    return cost


def l1_l2_regularizer(
    scale_l1: float = 1.0, scale_l2: float = 1.0, scope: str | None = None
) -> Regularizer | None:
    """Return the sum of `l1_regularizer` and `l2_regularizer`."""
    parts = [l1_regularizer(scale_l1), l2_regularizer(scale_l2)]
    return sum_regularizer(parts, scope or "l1_l2_regularizer")


def apply_regularization(regularizer: Regularizer, weights_list: Any = None) -> Any:
    """Return what all weights cost, collected as a loss of regularization."""
    weights = (
        get_collection(GraphKeys.WEIGHTS) if weights_list is None else weights_list
    )
    if not weights:
        raise ValueError("No weights to regularize.")
    with op_scope("get_regularization_penalty", None, list(weights)):
        costs = [regularizer(weight) for weight in weights]
        total = add_n([constant(0.0) if cost is None else cost for cost in costs])
    add_to_collection(GraphKeys.REGULARIZATION_LOSSES, total)
    return total


def _scaled(
    kind: str, norm: Callable[[Any], Any], scale: float, scope: str | None
) -> Regularizer:
    if isinstance(scale, numbers.Integral):
        raise ValueError(f"scale cannot be an integer: {scale}; give a float.")
    if scale < 0.0:
        raise ValueError(
            f"Setting a scale less than 0 on a regularizer: {scale}; it must be 0 or "
            f"more."
        )

    def cost(weights: Any) -> Any:
        if scale == 0.0:
            return None
        with op_scope(scope, kind, [weights]) as name:
            values = convert_to_tensor(weights)
            factor = convert_to_tensor(scale, values.dtype.base_dtype, name="scale")
            return multiply(factor, norm(values), name=name)

    return cost


def variance_scaling_initializer(
    factor: float = 2.0,
    mode: str = "FAN_IN",
    uniform: bool = False,
    seed: int | None = None,
    dtype: Any = float32,
) -> VarianceScaling:
    """Return an initializer whose variance is `factor` over the number of inputs.

    With another mode over that of outputs, or the mean of both.
    """
    kind = "uniform" if uniform else "truncated_normal"
    scale = factor if uniform else factor * _TRUNCATED
    return VarianceScaling(scale, mode.lower(), kind, seed, dtype)


def xavier_initializer(
    uniform: bool = True, seed: int | None = None, dtype: Any = float32
) -> VarianceScaling:
    """Return the initializer of Glorot and Bengio, the default of these layers."""
    return variance_scaling_initializer(1.0, "FAN_AVG", uniform, seed, dtype)
