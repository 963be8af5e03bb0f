"""`tf.contrib.nn`: losses with their arguments in the order from before 1.0."""

from __future__ import annotations

from typing import Any

from kit.tf1.not_offered import refusing
from kit.tf1.ops import nn_loss


def deprecated_flipped_softmax_cross_entropy_with_logits(
    logits: Any, labels: Any, dim: int = -1, name: str | None = None
) -> Any:
    """Return `tf.nn.softmax_cross_entropy_with_logits` of logits and labels."""
    return nn_loss.softmax_cross_entropy_with_logits(
        labels=labels, logits=logits, dim=dim, name=name
    )


def deprecated_flipped_sparse_softmax_cross_entropy_with_logits(
    logits: Any, labels: Any, name: str | None = None
) -> Any:
    """Return `tf.nn.sparse_softmax_cross_entropy_with_logits` of logits and labels."""
    return nn_loss.sparse_softmax_cross_entropy_with_logits(
        labels=labels, logits=logits, name=name
    )


def deprecated_flipped_sigmoid_cross_entropy_with_logits(
    logits: Any, targets: Any, name: str | None = None
) -> Any:
    """Return `tf.nn.sigmoid_cross_entropy_with_logits` of logits and targets."""
    return nn_loss.sigmoid_cross_entropy_with_logits(
        labels=targets, logits=logits, name=name
    )


__getattr__ = refusing("contrib.nn")
