"""Softmax, its logarithm, and the cross-entropies.

A cross-entropy over classes computes loss and gradient together, so the backward pass
is one multiplication per row.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from kit.bfloat16 import kind_of
from kit.graph.arguments import number
from kit.graph.array_protocol import ArrayProtocol
from kit.graph.convert import make, resolved, tensor
from kit.graph.dtypes import name_of
from kit.graph.kernels import sigmoid as sigmoids
from kit.graph.kernels import softmax as kernels
from kit.graph.op import Op, Tensor
from kit.graph.ops.array.shape import transpose
from kit.graph.ops.math.arithmetic import multiply, subtract
from kit.graph.ops.math.cast import cast
from kit.graph.ops.math.reduce import reduce_sum
from kit.graph.ops.math.unary import exp, negative
from kit.graph.ops.nn.activations import infer_alike, infer_real
from kit.graph.static import Shape, Static, axis_of, merge, same_dtype, text
from kit.graph.table import Attrs, enter


def softmax(x: Any, axis: int = -1, name: str | None = None) -> Tensor:
    """Return exp(x) / sum(exp(x)) along an axis.

    Parameters
    ----------
    x : Tensor or array
        Floating point.
    axis : int, default -1
        Along which the result adds up to 1.
    name : str, optional
        The name of the op.

    Raises
    ------
    ValueError
        `x` has no such axis.
    """
    return _along("Softmax", x, axis, name)


def log_softmax(x: Any, axis: int = -1, name: str | None = None) -> Tensor:
    """Return x - log(sum(exp(x))) along an axis.

    Parameters
    ----------
    x, axis, name
        As for `softmax`.

    Raises
    ------
    ValueError
        `x` has no such axis.
    """
    return _along("LogSoftmax", x, axis, name)


def softmax_cross_entropy(
    labels: Any, logits: Any, axis: int = -1, name: str | None = None
) -> Tensor:
    """Return the cross-entropy of each row of logits with a distribution over classes.

    Parameters
    ----------
    labels, logits : Tensor or array
        Of the same shape.
    axis : int, default -1
        The axis of the classes, which the result does not have.
    name : str, optional
        The name of the op.

    Raises
    ------
    ValueError
        The shapes differ.
    """
    inputs = _logits_and_labels(logits, labels)
    if axis != -1:
        inputs = [_classes_last(operand, axis) for operand in inputs]
    return make("SoftmaxCrossEntropyWithLogits", *inputs, name=name)


def sparse_softmax_cross_entropy(
    labels: Any, logits: Any, name: str | None = None
) -> Tensor:
    """Return the cross-entropy of each row of logits with the number of its class.

    Parameters
    ----------
    labels : Tensor or array of int
        [...]. A run raises `InvalidArgumentError` for a label that is not a class.
    logits : Tensor or array
        [..., classes].
    name : str, optional
        The name of the op.
    """
    inputs = tensor(logits), tensor(labels)
    return make("SparseSoftmaxCrossEntropyWithLogits", *inputs, name=name)


def sigmoid_cross_entropy(labels: Any, logits: Any, name: str | None = None) -> Tensor:
    """Return the cross-entropy of each logit with the probability in `labels`.

    Classes are independent of each other.

    Parameters
    ----------
    labels, logits : Tensor or array
        Of the same shape, which is also that of the result.
    name : str, optional
        The name of the op.
    """
    inputs = _logits_and_labels(logits, labels)
    return make("SigmoidCrossEntropyWithLogits", *inputs, name=name)


def _logits_and_labels(logits: Any, labels: Any) -> list[Tensor]:
    """Return both as tensors of the logits' dtype: integer labels do not widen it."""
    (operand,) = resolved(np.exp, logits)
    if isinstance(labels, ArrayProtocol):
        return [operand, cast(labels, operand.static.dtype)]
    return [operand, tensor(np.asarray(labels, operand.static.dtype))]


def _classes_last(x: Tensor, axis: int) -> Tensor:
    shape = x.static.shape
    if shape is None:
        raise ValueError(
            f"{x!r} has an unknown number of axes, so its axis {axis} cannot be moved; "
            f"tell its shape with set_shape, or put the classes last."
        )
    position = axis_of(axis, len(shape))
    others = [item for item in range(len(shape)) if item != position]
    return transpose(x, [*others, position])


def _along(op_type: str, x: Any, axis: Any, name: str | None) -> Tensor:
    return make(op_type, *resolved(np.exp, x), name=name, axis=number(axis, "the axis"))


def _infer_along(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    shape = inputs[0].shape
    if shape is not None:
        if not shape:
            raise ValueError("softmax is along an axis, and a single number has none.")
        axis_of(attrs["axis"], len(shape))
    return infer_real(inputs, attrs)


def _softmax_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    return [_through_softmax(gradients[0], op.outputs[0], op.attrs["axis"])]


def _through_softmax(g: Any, y: Any, axis: int) -> Tensor:
    return multiply(subtract(g, reduce_sum(multiply(g, y), axis, keepdims=True)), y)


def _log_softmax_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    g = gradients[0]
    total = reduce_sum(g, op.attrs["axis"], keepdims=True)
    return [subtract(g, multiply(total, exp(op.outputs[0])))]


def _infer_rows(logits: Static, losses: Shape) -> Sequence[Static]:
    """Return the statics of the losses and of the gradient by the logits."""
    if kind_of(logits.dtype) != "f":
        raise TypeError(
            f"logits are floating point numbers, not {name_of(logits.dtype)}; cast "
            f"them first."
        )
    shape = logits.shape
    if shape is not None and not shape:
        raise ValueError("logits need an axis for the classes, and these have no axis.")
    rows = None if shape is None else shape[:-1]
    rows = merge(rows, losses, "logits without their classes and labels")
    return [Static(rows, logits.dtype), Static(shape, logits.dtype)]


def _infer_dense(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    logits, labels = inputs
    dtype = same_dtype(inputs, "a cross-entropy")
    shape = merge(logits.shape, labels.shape, "logits and labels")
    rows = shape[:-1] if shape else None
    return _infer_rows(Static(shape, dtype), rows)


def _infer_sparse(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    logits, labels = inputs
    if labels.dtype.kind not in "iu":
        raise TypeError(
            f"labels are the numbers of classes, integers, not {name_of(labels.dtype)} "
            f"of shape {text(labels.shape)}; for distributions over classes use "
            f"softmax_cross_entropy."
        )
    return _infer_rows(logits, labels.shape)


def _by_rows(op: Op, gradients: Sequence[Any]) -> Any:
    """Return the gradient by the logits of either cross-entropy over classes."""
    by_loss, by_backprop = gradients
    total = None
    if by_loss is not None:
        total = make("ScaleRows", op.outputs[1], by_loss)
    if by_backprop is not None:  # a gradient of a gradient
        more = _through_softmax(by_backprop, softmax(op.inputs[0]), -1)
        total = more if total is None else make("AddN", total, more)
    return total


def _dense_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    by_loss, by_backprop = gradients
    parts = []
    if by_loss is not None:
        parts.append(make("ScaleRows", negative(log_softmax(op.inputs[0])), by_loss))
    if by_backprop is not None:
        parts.append(negative(by_backprop))
    return [_by_rows(op, gradients), make("AddN", *parts)]


def _sigmoid_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    (logits, labels), g = op.inputs, gradients[0]
    by_logits = multiply(g, subtract(make("Sigmoid", logits), labels))
    return [by_logits, negative(multiply(g, logits))]


def _infer_scale(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    return [Static(inputs[0].shape, same_dtype(inputs, "a scaling of rows"))]


def _scale(xp: ModuleType, rows: Any, factors: Any) -> Any:
    return xp.multiply(rows, factors[..., None])


def _scale_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    (rows, factors), g = op.inputs, gradients[0]
    return [make("ScaleRows", g, factors), reduce_sum(multiply(g, rows), -1)]


enter("Softmax", _infer_along, kernels.softmax, _softmax_gradient)
enter("LogSoftmax", _infer_along, kernels.log_softmax, _log_softmax_gradient)
enter(
    "SoftmaxCrossEntropyWithLogits",
    _infer_dense,
    kernels.softmax_cross_entropy,
    _dense_gradient,
    n_outputs=2,
)
enter(
    "SparseSoftmaxCrossEntropyWithLogits",
    _infer_sparse,
    kernels.sparse_softmax_cross_entropy,
    lambda op, gradients: [_by_rows(op, gradients), None],
    n_outputs=2,
)
enter(
    "SigmoidCrossEntropyWithLogits",
    infer_alike,
    sigmoids.sigmoid_cross_entropy,
    _sigmoid_gradient,
)
enter("ScaleRows", _infer_scale, _scale, _scale_gradient)
