"""`tf.contrib.metrics`: those of `tf.metrics`, with the predictions first."""

from __future__ import annotations

from typing import Any

from kit.tf1 import metrics
from kit.tf1.not_offered import refusing
from kit.tf1.ops.arithmetic import cast, equal
from kit.tf1.ops.reduce import reduce_mean
from kit.tf1.tensor.convert import op_scope
from kit.tf1.tensor.dtypes import float32

streaming_mean = metrics.mean


def accuracy(
    predictions: Any, labels: Any, weights: Any = None, name: str | None = None
) -> Any:
    """Return the part of a batch that is right; see `tf.metrics.accuracy`."""
    with op_scope(name, "accuracy", [predictions, labels]):
        is_right = cast(equal(predictions, labels), float32)
        if weights is None:
            return reduce_mean(is_right)
        return reduce_mean(is_right * weights) / reduce_mean(weights)


def streaming_accuracy(
    predictions: Any, labels: Any, *args: Any, **kwargs: Any
) -> tuple[Any, Any]:
    """Return how many were right so far; see `tf.metrics.accuracy`."""
    return metrics.accuracy(labels, predictions, *args, **kwargs)


def streaming_auc(
    predictions: Any, labels: Any, *args: Any, **kwargs: Any
) -> tuple[Any, Any]:
    """Return the area under a curve so far; see `tf.metrics.auc`."""
    return metrics.auc(labels, predictions, *args, **kwargs)


def aggregate_metrics(*value_update_tuples: Any) -> tuple[list[Any], list[Any]]:
    """Return the values of metrics, and their updates. Raises `ValueError` for none."""
    if not value_update_tuples:
        raise ValueError("Expected at least one value_tensor/update_op pair")
    values, updates = zip(*value_update_tuples, strict=True)
    return list(values), list(updates)


def aggregate_metric_map(
    names_to_tuples: dict[str, Any],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values of metrics by name, and their updates by name."""
    values, updates = aggregate_metrics(*names_to_tuples.values())
    names = list(names_to_tuples)
    return (
        dict(zip(names, values, strict=True)),
        dict(zip(names, updates, strict=True)),
    )


__getattr__ = refusing("contrib.metrics")
