"""The logistic function and its relatives, without overflow at any size of input.

All of them use exp(-|x|), which is between 0 and 1.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from kit.errors import InvalidArgumentError
from kit.graph.kernels.precision import widened

# Any: an array of whichever module computes.
Array = Any


def sigmoid(xp: ModuleType, x: Array) -> Array:
    """Return 1 / (1 + exp(-x)), exact to the last bits also where it is tiny.

    >>> import numpy as np
    >>> sigmoid(np, np.array([-1e4, 0.0, 1e4]))
    array([0. , 0.5, 1. ])
    """
    if x.dtype.kind == "c":
        return xp.reciprocal(xp.exp(-x) + 1)
    wide = widened(xp, x)
    y = _falling(xp, wide)
    below = y + 1
    # Below 0 the numerator is exp(x), from 0 on it is 1, and exp(-|x|) is at most that.
    xp.maximum(y, wide >= 0, out=y)
    y /= below
    return y.astype(x.dtype, copy=False)


def softplus(xp: ModuleType, x: Array) -> Array:
    """Return log(1 + exp(x)).

    >>> import numpy as np
    >>> softplus(np, np.array([-1e4, 0.0, 1e4]))
    array([0.00000000e+00, 6.93147181e-01, 1.00000000e+04])
    """
    wide = widened(xp, x)
    y = _falling(xp, wide)
    xp.log1p(y, out=y)
    y += xp.maximum(wide, 0)
    return y.astype(x.dtype, copy=False)


def sigmoid_cross_entropy(xp: ModuleType, logits: Array, labels: Array) -> Array:
    """Return -z log sigmoid(x) - (1 - z) log(1 - sigmoid(x)), one loss a number.

    Logits x and labels z have one shape and dtype. The gradient for x is
    sigmoid(x) - z. Raises `InvalidArgumentError` if the shapes differ.

    >>> import numpy as np
    >>> sigmoid_cross_entropy(np, np.array([1e4, 1e4]), np.array([1.0, 0.0]))
    array([    0., 10000.])
    """
    if logits.shape != labels.shape:
        raise InvalidArgumentError(
            f"the logits have the shape {list(logits.shape)}, the labels "
            f"{list(labels.shape)}; give one label for each logit."
        )
    wide = widened(xp, logits)
    loss = _falling(xp, wide)
    xp.log1p(loss, out=loss)
    loss += xp.maximum(wide, 0)
    loss -= wide * widened(xp, labels)
    return loss.astype(logits.dtype, copy=False)


def _falling(xp: ModuleType, x: Array) -> Array:
    """Return exp(-|x|) in a new array, also for an `x` without axes."""
    y = xp.empty_like(x)
    xp.absolute(x, out=y)
    xp.negative(y, out=y)
    xp.exp(y, out=y)
    return y
