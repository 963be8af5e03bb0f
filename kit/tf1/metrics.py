"""`tf.metrics`: means over all the batches that were run, in local variables."""

from __future__ import annotations

from typing import Any

from kit.tf1.graph.collections import GraphKeys, add_to_collections
from kit.tf1.graph.control import control_dependencies
from kit.tf1.not_offered import refuse
from kit.tf1.ops.arithmetic import cast, divide, equal, greater, squared_difference
from kit.tf1.ops.creation import ones_like, zeros, zeros_like
from kit.tf1.ops.index import where
from kit.tf1.ops.reduce import reduce_sum
from kit.tf1.ops.shape import size as size_of
from kit.tf1.ops.shape import squeeze
from kit.tf1.tensor.convert import convert_to_tensor
from kit.tf1.tensor.dtypes import float32
from kit.tf1.variables.assigning import assign_add
from kit.tf1.variables.scopes import variable_scope
from kit.tf1.variables.variables import Variable

__all__ = ["accuracy", "mean", "mean_squared_error"]


def mean(
    values: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Return the mean so far, and the tensor that adds these values to it.

    Total and count are local variables: run `tf.local_variables_initializer()`. Without
    values the mean is 0.
    """
    with variable_scope(name, "mean", [values, weights]):
        given = cast(convert_to_tensor(values), float32)
        total, count = _kept("total"), _kept("count")
        n_values = cast(size_of(given), float32)
        if weights is not None:
            factors = cast(convert_to_tensor(weights), float32) * ones_like(given)
            given, n_values = given * factors, reduce_sum(factors)
        with control_dependencies([given]):
            changed = assign_add(total, reduce_sum(given)), assign_add(count, n_values)
        value = _ratio(total, count, "value")
        update = _ratio(*changed, "update_op")
        add_to_collections(metrics_collections or (), value)
        add_to_collections(updates_collections or (), update)
        return value, update


def accuracy(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Return how many predictions are right, as a part of all so far; see `mean`.

    Raises `ValueError` for shapes that differ.
    """
    wanted, guess = convert_to_tensor(labels), convert_to_tensor(predictions)
    ranks = wanted.shape.ndims, guess.shape.ndims
    if None not in ranks and ranks[0] == ranks[1] + 1:
        wanted = squeeze(wanted, [-1])
    elif None not in ranks and ranks[1] == ranks[0] + 1:
        guess = squeeze(guess, [-1])
    guess.shape.assert_is_compatible_with(wanted.shape)
    is_right = cast(equal(cast(guess, wanted.dtype.base_dtype), wanted), float32)
    collections = metrics_collections, updates_collections
    return mean(is_right, weights, *collections, name or "accuracy")


def mean_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Return the mean of the squared differences so far; see `mean`.

    Raises `ValueError` for shapes that differ.
    """
    guess = convert_to_tensor(predictions)
    wanted = convert_to_tensor(labels)
    guess.shape.assert_is_compatible_with(wanted.shape)
    errors = squared_difference(cast(wanted, float32), cast(guess, float32))
    collections = metrics_collections, updates_collections
    return mean(errors, weights, *collections, name or "mean_squared_error")


def _kept(name: str) -> Variable:
    lists = [GraphKeys.LOCAL_VARIABLES, GraphKeys.METRIC_VARIABLES]
    start = zeros([], float32)
    return Variable(start, trainable=False, collections=lists, name=name)


def _ratio(total: Any, count: Any, name: str) -> Any:
    is_some = greater(count, 0.0)
    divisor = where(is_some, count, ones_like(count))
    return where(is_some, divide(total, divisor), zeros_like(divisor), name=name)


def __getattr__(name: str) -> Any:
    refuse("metrics", name)
