"""`tf.metrics`: means over all the batches that were run, in local variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kit.tf1.graph.collections import GraphKeys, add_to_collections
from kit.tf1.graph.control import control_dependencies
from kit.tf1.not_offered import refusing
from kit.tf1.ops.arithmetic import (
    cast,
    divide,
    equal,
    greater,
    maximum,
    minimum,
    squared_difference,
)
from kit.tf1.ops.checks import assert_greater_equal, assert_less_equal
from kit.tf1.ops.creation import ones_like, zeros, zeros_like
from kit.tf1.ops.index import where
from kit.tf1.ops.reduce import reduce_sum
from kit.tf1.ops.shape import reshape, squeeze
from kit.tf1.ops.shape import size as size_of
from kit.tf1.tensor.convert import convert_to_tensor
from kit.tf1.tensor.dtypes import bool_, float32
from kit.tf1.variables.assigning import assign_add
from kit.tf1.variables.scopes import variable_scope
from kit.tf1.variables.variables import Variable


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
        tensor = cast(convert_to_tensor(values), float32)
        total, count = _kept("total"), _kept("count")
        n_values = cast(size_of(tensor), float32)
        if weights is not None:
            factors = cast(convert_to_tensor(weights), float32) * ones_like(tensor)
            tensor, n_values = tensor * factors, reduce_sum(factors)
        with control_dependencies([tensor]):
            changed = assign_add(total, reduce_sum(tensor)), assign_add(count, n_values)
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


# How the area between two points of a curve is taken.
_HEIGHTS: dict[str, Callable[[Any, Any], Any]] = {
    "trapezoidal": lambda left, right: (left + right) / 2.0,
    "minoring": minimum,
    "majoring": maximum,
}


def auc(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    num_thresholds: int = 200,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    curve: str = "ROC",
    name: str | None = None,
    summation_method: str = "trapezoidal",
    thresholds: Any = None,
) -> tuple[Any, Any]:
    """Return the area under a curve so far, "ROC" or "PR"; see `mean`.

    `predictions` are from 0 to 1. They are compared with `num_thresholds` numbers, or
    with `thresholds` and two beyond 0 and 1. Raises `ValueError` for another curve, for
    another method than "trapezoidal", "minoring" and "majoring", and for shapes that
    differ; in a run `InvalidArgumentError` for predictions out of range.
    """
    if curve not in ("ROC", "PR"):
        raise ValueError(f"curve must be either ROC or PR, {curve} unknown")
    if summation_method not in _HEIGHTS:
        raise ValueError(f"Invalid summation_method: {summation_method}")
    with variable_scope(name, "auc", [labels, predictions, weights]):
        steps = num_thresholds - 1
        inner = sorted(thresholds or (i / steps for i in range(1, steps)))
        kept, changed = _confusion(
            labels, predictions, weights, [-1e-7, *inner, 1 + 1e-7]
        )
        value, update = (
            _area(counts, curve, _HEIGHTS[summation_method], what)
            for counts, what in ((kept, "value"), (changed, "update_op"))
        )
        add_to_collections(metrics_collections or (), value)
        add_to_collections(updates_collections or (), update)
        return value, update


_QUADRANTS = ("true_positives", "false_negatives", "true_negatives", "false_positives")


def _confusion(
    labels: Any, predictions: Any, weights: Any, limits: list[float]
) -> tuple[list[Any], list[Any]]:
    """Return how many were right and wrong at each limit: variables, and updates."""
    guess = cast(convert_to_tensor(predictions), float32)
    wanted = cast(convert_to_tensor(labels), bool_)
    guess.shape.assert_is_compatible_with(wanted.shape)
    factors = 1.0 if weights is None else cast(convert_to_tensor(weights), float32)
    factors = reshape(factors * ones_like(guess), [1, -1])
    with control_dependencies(
        [
            assert_greater_equal(guess, 0.0, message="predictions must be in [0, 1]"),
            assert_less_equal(guess, 1.0, message="predictions must be in [0, 1]"),
        ]
    ):
        is_above = greater(reshape(guess, [1, -1]), [[limit] for limit in limits])
    above = cast(is_above, float32)
    positive = cast(reshape(wanted, [1, -1]), float32)
    below, negative = 1.0 - above, 1.0 - positive
    counts = (
        above * positive,
        below * positive,
        below * negative,
        above * negative,
    )
    kept = [_kept(name, [len(limits)]) for name in _QUADRANTS]
    changed = [
        assign_add(variable, reduce_sum(part * factors, 1))
        for variable, part in zip(kept, counts, strict=True)
    ]
    return kept, changed


def _area(counts: list[Any], curve: str, height: Any, name: str) -> Any:
    tp, fn, tn, fp = counts
    little = 1e-6
    recall = divide(tp + little, tp + fn + little)
    if curve == "ROC":
        x, y = divide(fp, fp + tn + little), recall
    else:
        x, y = recall, divide(tp + little, tp + fp + little)
    return reduce_sum((x[:-1] - x[1:]) * height(y[:-1], y[1:]), name=name)


def _kept(name: str, shape: Sequence[int] = ()) -> Variable:
    lists = [GraphKeys.LOCAL_VARIABLES, GraphKeys.METRIC_VARIABLES]
    start = zeros(list(shape), float32)
    return Variable(start, trainable=False, collections=lists, name=name)


def _ratio(total: Any, count: Any, name: str) -> Any:
    is_some = greater(count, 0.0)
    divisor = where(is_some, count, ones_like(count))
    return where(is_some, divide(total, divisor), zeros_like(divisor), name=name)


__getattr__ = refusing("metrics")
