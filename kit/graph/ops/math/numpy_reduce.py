"""Reductions as numpy does them: its names, its defaults, its dtypes.

numpy adds small integers up in int64, and the mean of integers is a float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kit.bfloat16 import kind_of
from kit.graph.array_protocol import speaks
from kit.graph.convert import make, tensor
from kit.graph.dtypes import DType
from kit.graph.op import Tensor
from kit.graph.ops.math import reduce
from kit.graph.ops.math.arithmetic import divide, subtract
from kit.graph.ops.math.cast import cast
from kit.graph.ops.math.compare import not_zero
from kit.graph.ops.math.unary import sqrt, square


@speaks(np.sum)
def sum_of(
    x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False
) -> Tensor:
    """Return the sum along some axes, in the dtype of numpy's."""
    return reduce.reduce_sum(_added_up(x, dtype, np.add), axis, keepdims)


@speaks(np.prod)
def prod_of(
    x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False
) -> Tensor:
    """Return the product along some axes, in the dtype of numpy's."""
    return reduce.reduce_prod(_added_up(x, dtype, np.multiply), axis, keepdims)


@speaks(np.mean)
def mean_of(
    x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False
) -> Tensor:
    """Return the mean along some axes, in the dtype of numpy's."""
    return reduce.reduce_mean(_real(x, dtype), axis, keepdims)


# Extremes have the dtype of the elements in numpy, too.
speaks(np.max, np.amax)(reduce.reduce_max)
speaks(np.min, np.amin)(reduce.reduce_min)


@speaks(np.all)
def all_of(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Return whether all elements along some axes are true, or not zero."""
    return reduce.reduce_all(not_zero(x), axis, keepdims)


@speaks(np.any)
def any_of(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Return whether any element along some axes is true (not zero)."""
    return reduce.reduce_any(not_zero(x), axis, keepdims)


@speaks(np.var)
def var_of(
    x: Any,
    axis: Any = None,
    dtype: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
) -> Tensor:
    """Return the mean of the squared distances to the mean along some axes.

    With `ddof` their sum is divided by that many less than there are.
    """
    operand = _real(x, dtype)
    far = square(subtract(operand, reduce.reduce_mean(operand, axis, True)))
    if not ddof:
        return reduce.reduce_mean(far, axis, keepdims)
    count = reduce.reduce_sum(make("OnesLike", far), axis, keepdims)
    return divide(reduce.reduce_sum(far, axis, keepdims), subtract(count, ddof))


@speaks(np.std)
def std_of(
    x: Any,
    axis: Any = None,
    dtype: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
) -> Tensor:
    """Return the square root of the variance along some axes."""
    return sqrt(var_of(x, axis, dtype, ddof, keepdims))


def _added_up(x: Any, dtype: Any, ufunc: np.ufunc) -> Tensor:
    """Return `x` in the dtype in which numpy adds it up or multiplies it out."""
    operand = tensor(x)
    wanted = ufunc.reduce(np.empty(0, operand.static.dtype)).dtype
    return cast(operand, wanted if dtype is None else dtype)


def _real(x: Any, dtype: Any) -> Tensor:
    operand = tensor(x)
    own: DType = operand.static.dtype
    wanted = own if kind_of(own) in "fc" else np.dtype(np.float64)
    return cast(operand, wanted if dtype is None else dtype)
