"""Softmax, its logarithm, and the cross-entropy of both kinds of labels.

The largest logit of a row is subtracted first, so no exponential overflows. Most of the
time goes into passes over memory and calls: results are built in place.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Final

from kit.errors import InvalidArgumentError
from kit.graph.kernels.bounds import check_indices
from kit.graph.kernels.precision import widened

# Any: an array of whichever module computes.
Array = Any

# numpy reduces a short row at some 80 ns, as many as there are. Up to this many classes
# it is faster (3 times with 4096 x 10) to turn the rows into columns and back.
_SHORT: Final = 32


def softmax(xp: ModuleType, logits: Array, axis: int = -1) -> Array:
    """Return exp(x) / sum(exp(x)) along an axis.

    >>> import numpy as np
    >>> softmax(np, np.array([[1e4, 1e4], [0.0, -1e4]]))
    array([[0.5, 0.5],
           [1. , 0. ]])
    """
    if logits.size == 0:
        return logits.copy()
    z, along = _shifted(xp, logits, axis)
    xp.exp(z, out=z)
    z /= z.sum(axis=along, keepdims=True)
    return _shaped_like(z, logits, axis)


def log_softmax(xp: ModuleType, logits: Array, axis: int = -1) -> Array:
    """Return x - log(sum(exp(x))) along an axis.

    >>> import numpy as np
    >>> log_softmax(np, np.array([[0.0, -1e4]]))
    array([[     0., -10000.]])
    """
    if logits.size == 0:
        return logits.copy()
    z, along = _shifted(xp, logits, axis)
    z -= xp.log(xp.exp(z).sum(axis=along, keepdims=True))
    return _shaped_like(z, logits, axis)


def softmax_cross_entropy(
    xp: ModuleType, logits: Array, labels: Array
) -> tuple[Array, Array]:
    """Return the loss of each row and the gradient of each loss, softmax - labels.

    Classes are the last axis; a row of `labels` is a distribution over them. As in the
    original, the loss is sum(labels * -log softmax) and the gradient is as said also
    when a row does not add up to 1. Shapes [..., classes] twice give [...] and
    [..., classes]. Raises `InvalidArgumentError` if the shapes differ.

    >>> import numpy as np
    >>> loss, gradient = softmax_cross_entropy(np, np.zeros((1, 2)), np.eye(2)[:1])
    >>> loss, gradient
    (array([0.69314718]), array([[-0.5,  0.5]]))
    """
    if logits.shape != labels.shape:
        raise InvalidArgumentError(
            f"the logits have the shape {list(logits.shape)}, the labels "
            f"{list(labels.shape)}; give a distribution over the classes for each row."
        )
    _check_classes(logits)
    z, along = _shifted(xp, _rows(logits))
    y = _rows(widened(xp, labels))
    y = y if along else y.T.copy()
    axes = "nk" if along else "kn"
    # Reductions by einsum make no temporary array; both terms have one sign, so their
    # sum loses nothing.
    loss = -xp.einsum(f"{axes},{axes}->n", y, z)
    xp.exp(z, out=z)
    total = z.sum(axis=along, keepdims=True)
    loss += xp.log(total).reshape(-1) * xp.einsum(f"{axes}->n", y)
    z /= total
    z -= y
    return _losses(loss, logits), _shaped_like(z, logits)


def sparse_softmax_cross_entropy(
    xp: ModuleType, logits: Array, labels: Array
) -> tuple[Array, Array]:
    """Return losses and gradients as `softmax_cross_entropy`, for class numbers.

    Shapes [..., classes] and [...]. Raises `InvalidArgumentError` if the shapes do not
    go together or a label is not a class; on a device this waits for the labels.

    >>> import numpy as np
    >>> sparse_softmax_cross_entropy(np, np.zeros((1, 2)), np.array([0]))
    (array([0.69314718]), array([[-0.5,  0.5]]))
    """
    if logits.shape[:-1] != labels.shape:
        raise InvalidArgumentError(
            f"the logits have the shape {list(logits.shape)}, the labels "
            f"{list(labels.shape)}; give one class number for each row of logits."
        )
    _check_classes(logits)
    check_indices(xp, labels, logits.shape[-1], "labels")
    flat = labels.reshape(-1)
    z, along = _shifted(xp, _rows(logits))
    each = xp.arange(flat.size)
    spot = (each, flat) if along else (flat, each)
    loss = -z[spot]
    xp.exp(z, out=z)
    total = z.sum(axis=along, keepdims=True)
    loss += xp.log(total).reshape(-1)
    z /= total
    z[spot] -= 1
    return _losses(loss, logits), _shaped_like(z, logits)


def _check_classes(logits: Array) -> None:
    if logits.ndim == 0 or logits.shape[-1] == 0:
        raise InvalidArgumentError(
            f"the logits have the shape {list(logits.shape)}; give at least one class, "
            f"along the last axis."
        )


def _rows(x: Array) -> Array:
    """Return the array as a matrix whose last axis stays as it is."""
    return x.reshape(x.size // x.shape[-1], x.shape[-1])


def _losses(loss: Array, logits: Array) -> Array:
    return loss.reshape(logits.shape[:-1]).astype(logits.dtype, copy=False)


def _is_turned(x: Array, axis: int) -> bool:
    is_last = axis in (-1, x.ndim - 1)
    return bool(is_last and x.ndim > 1 and x.shape[axis] <= _SHORT)


def _shifted(xp: ModuleType, logits: Array, axis: int = -1) -> tuple[Array, int]:
    """Return a copy less its largest along the axis, and which axis that is now."""
    x = widened(xp, logits)
    if _is_turned(x, axis):
        z = _rows(x).T.copy()
        z -= z.max(axis=0)
        return z, 0
    return x - x.max(axis=axis, keepdims=True), axis % x.ndim


def _shaped_like(z: Array, logits: Array, axis: int = -1) -> Array:
    """Return the result of `_shifted`, worked on, in the shape and dtype of the logits.

    `_rows` of a matrix is that matrix, so this holds for the rows of more axes too.
    """
    if logits.ndim > 1 and _is_turned(logits, axis):
        z = z.T.copy()
    return z.reshape(logits.shape).astype(logits.dtype, copy=False)
