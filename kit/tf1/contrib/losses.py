"""`tf.contrib.losses` and `slim.losses`: those of `tf.losses`, with the labels second.

Pure. What is not here is the same under `tf.losses`.
"""

from __future__ import annotations

from typing import Any

from kit.tf1 import losses
from kit.tf1.losses import add_loss as add_loss
from kit.tf1.losses import compute_weighted_loss as compute_weighted_loss
from kit.tf1.losses import get_losses as get_losses
from kit.tf1.losses import get_regularization_losses as get_regularization_losses
from kit.tf1.losses import get_total_loss as get_total_loss
from kit.tf1.not_offered import refuse


def softmax_cross_entropy(
    logits: Any,
    onehot_labels: Any,
    weights: Any = 1.0,
    label_smoothing: Any = 0,
    scope: str | None = None,
) -> Any:
    """Return the mean cross entropy of classes, one number for each."""
    return losses.softmax_cross_entropy(
        onehot_labels, logits, weights, label_smoothing, scope
    )


def sparse_softmax_cross_entropy(
    logits: Any, labels: Any, weights: Any = 1.0, scope: str | None = None
) -> Any:
    """Return the mean cross entropy of classes that are numbered."""
    return losses.sparse_softmax_cross_entropy(labels, logits, weights, scope)


def sigmoid_cross_entropy(
    logits: Any,
    multi_class_labels: Any,
    weights: Any = 1.0,
    label_smoothing: Any = 0,
    scope: str | None = None,
) -> Any:
    """Return the mean cross entropy of labels that do not exclude each other."""
    return losses.sigmoid_cross_entropy(
        multi_class_labels, logits, weights, label_smoothing, scope
    )


def mean_squared_error(
    predictions: Any, labels: Any = None, weights: Any = 1.0, scope: str | None = None
) -> Any:
    """Return the mean of the squared differences."""
    return losses.mean_squared_error(labels, predictions, weights, scope)


def absolute_difference(
    predictions: Any, labels: Any = None, weights: Any = 1.0, scope: str | None = None
) -> Any:
    """Return the mean of the differences without their signs."""
    return losses.absolute_difference(labels, predictions, weights, scope)


def log_loss(
    predictions: Any,
    labels: Any = None,
    weights: Any = 1.0,
    epsilon: float = 1e-7,
    scope: str | None = None,
) -> Any:
    """Return the mean log loss of probabilities."""
    return losses.log_loss(labels, predictions, weights, epsilon, scope)


def hinge_loss(
    logits: Any, labels: Any = None, weights: Any = 1.0, scope: str | None = None
) -> Any:
    """Return the mean hinge loss; labels are 0 and 1."""
    return losses.hinge_loss(labels, logits, weights, scope)


def cosine_distance(
    predictions: Any,
    labels: Any = None,
    axis: int | None = None,
    weights: Any = 1.0,
    scope: str | None = None,
    dim: int | None = None,
) -> Any:
    """Return the mean of 1 - cos of the angle between vectors of length 1."""
    return losses.cosine_distance(labels, predictions, axis, weights, scope, dim=dim)


def __getattr__(name: str) -> Any:
    refuse("contrib.losses", name)
