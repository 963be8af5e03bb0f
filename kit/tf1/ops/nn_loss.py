"""Cross-entropies. Labels and logits are keywords, as they are easily mixed up."""

from __future__ import annotations

from typing import Any

from kit.graph.ops.nn.softmax import softmax_cross_entropy
from kit.tf1.ops.arithmetic import abs as absolute
from kit.tf1.ops.arithmetic import cast, exp, log1p, stop_gradient
from kit.tf1.ops.nn_activation import relu
from kit.tf1.ops.write import one_of
from kit.tf1.tensor.convert import argument, convert_to_tensor, create_op, op_scope


def softmax_cross_entropy_with_logits_v2(
    labels: Any,
    logits: Any,
    axis: Any = None,
    name: str | None = None,
    dim: Any = None,
) -> Any:
    """Return the cross-entropy of rows of logits with distributions over classes.

    Gradients flow into the labels too. Raises `ValueError` for shapes that differ and
    `TypeError` for integer logits.
    """
    axis = one_of("axis", axis, "dim", dim)
    with op_scope(name, "softmax_cross_entropy_with_logits", [logits, labels]):
        return _dense(labels, logits, -1 if axis is None else int(axis))


def softmax_cross_entropy_with_logits(
    _sentinel: Any = None,
    labels: Any = None,
    logits: Any = None,
    dim: Any = -1,
    name: str | None = None,
    axis: Any = None,
) -> Any:
    """Do what the second version does, without a gradient for the labels."""
    _check_named("softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    position = dim if axis is None else axis
    with op_scope(name, "softmax_cross_entropy_with_logits_sg", [logits, labels]):
        held = stop_gradient(labels, name="labels_stop_gradient")
        return _dense(held, logits, int(position))


def _dense(labels: Any, logits: Any, axis: int) -> Any:
    x = argument("SoftmaxCrossEntropyWithLogits", "logits", logits)
    _check_floating(x)
    y = cast(convert_to_tensor(labels, name="labels"), x.dtype.base_dtype)
    # The original flattens to a matrix and back; its last operation is named so.
    return softmax_cross_entropy(y, x, axis, name="Reshape_2")


def sparse_softmax_cross_entropy_with_logits(
    _sentinel: Any = None,
    labels: Any = None,
    logits: Any = None,
    name: str | None = None,
) -> Any:
    """Return the cross-entropy of rows of logits with the number of the true class.

    Logits are [..., classes] and labels [...]. Raises `ValueError` for other shapes; in
    the run `InvalidArgumentError` for a label that is not a class.
    """
    op_type = "SparseSoftmaxCrossEntropyWithLogits"
    _check_named("sparse_softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    with op_scope(name, op_type, [labels, logits]):
        y = convert_to_tensor(labels)
        x = convert_to_tensor(logits)
        if x.shape.ndims == 0:
            raise ValueError(f"Logits cannot be scalars - received shape {x.shape}.")
        has_ranks = None not in (x.shape.ndims, y.shape.ndims)
        if has_ranks and y.shape.ndims != x.shape.ndims - 1:
            raise ValueError(
                f"Rank mismatch: Rank of labels (received {y.shape.ndims}) should "
                f"equal rank of logits minus 1 (received {x.shape.ndims})."
            )
        if y.dtype.base_dtype.name not in ("int32", "int64"):
            raise TypeError(
                f"labels are int32 or int64, not {y.dtype.name}; for distributions "
                f"over classes use softmax_cross_entropy_with_logits_v2."
            )
        _check_floating(x)
        last = (name or op_type) if x.shape.ndims == 2 else "Reshape_2"
        return create_op(op_type, x, y, name=last).outputs[0]


def sigmoid_cross_entropy_with_logits(
    _sentinel: Any = None,
    labels: Any = None,
    logits: Any = None,
    name: str | None = None,
) -> Any:
    """Return the cross-entropy of each logit with the probability in `labels`.

    Raises `ValueError` for shapes that differ.
    """
    op_type = "SigmoidCrossEntropyWithLogits"
    _check_named("sigmoid_cross_entropy_with_logits", _sentinel, labels, logits)
    with op_scope(name, "logistic_loss", [logits, labels]) as scope:
        x = argument(op_type, "logits", logits)
        y = argument(op_type, "labels", labels)
        return create_op(op_type, x, y, name=scope).outputs[0]


def weighted_cross_entropy_with_logits(
    labels: Any = None,
    logits: Any = None,
    pos_weight: Any = None,
    name: str | None = None,
    targets: Any = None,
) -> Any:
    """Return the sigmoid cross-entropy in which a missed label costs `pos_weight`."""
    labels = one_of("labels", labels, "targets", targets)
    with op_scope(name, "logistic_loss", [logits, labels]) as scope:
        x = convert_to_tensor(logits, name="logits")
        y = convert_to_tensor(labels, name="labels")
        x.shape.merge_with(y.shape)
        weight = 1 + (pos_weight - 1) * y
        steep = weight * (log1p(exp(-absolute(x))) + relu(-x))
        return create_op("Add", (1 - y) * x, steep, name=scope).outputs[0]


def _check_floating(logits: Any) -> None:
    if not logits.dtype.is_floating:
        raise TypeError(
            f"logits are floating point numbers, not {logits.dtype.name}; cast them."
        )


def _check_named(function: str, sentinel: Any, labels: Any, logits: Any) -> None:
    if sentinel is not None:
        raise ValueError(
            f"Only call `{function}` with named arguments (labels=..., logits=...)"
        )
    if labels is None or logits is None:
        raise ValueError("Both labels and logits must be provided.")
