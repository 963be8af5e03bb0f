"""Functions of numbers that are put together of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kit.tf1.ops import arithmetic
from kit.tf1.ops.creation import ones_like, zeros_like
from kit.tf1.ops.index import where
from kit.tf1.ops.reduce import reduce_max, reduce_mean, reduce_sum, reduction
from kit.tf1.ops.write import one_of
from kit.tf1.tensor.convert import convert_to_tensor, op_scope


def _pair(name: str, combine: Callable[[Any, Any], Any], doc: str) -> Any:
    def function(x: Any, y: Any, name: str | None = None) -> Any:
        with op_scope(name, default, [x, y]) as scope:
            left = convert_to_tensor(x, name="x")
            right = convert_to_tensor(y, left.dtype.base_dtype, name="y")
            return arithmetic.identity(combine(left, right), name=scope)

    default = name
    function.__doc__ = f"Return {doc}, element by element."
    return function


def _alike(x: Any, y: Any) -> tuple[Any, Any]:
    """Return two tensors in the shape to which both are broadcast."""
    return x + zeros_like(y), y + zeros_like(x)


def _where_x(combine: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return 0 where x is 0, whatever y is."""

    def combined(x: Any, y: Any) -> Any:
        x, y = _alike(x, y)
        is_zero = arithmetic.equal(x, zeros_like(x))
        made = combine(x, where(is_zero, ones_like(y), y))
        return where(is_zero, zeros_like(made), made)

    return combined


def _truncated(x: Any, y: Any) -> Any:
    if x.dtype.is_unsigned:
        return arithmetic.floordiv(x, y)
    size = arithmetic.floordiv(arithmetic.abs(x), arithmetic.abs(y))
    return arithmetic.sign(x) * arithmetic.sign(y) * size


def _rest(x: Any, y: Any) -> Any:
    if x.dtype.is_floating:
        rest = arithmetic.floormod(arithmetic.abs(x), arithmetic.abs(y))
        return arithmetic.sign(x) * rest
    return x - _truncated(x, y) * y


def _product(x: Any, y: Any) -> Any:
    x, y = _alike(x, y)
    return where(arithmetic.equal(y, zeros_like(y)), zeros_like(x), x * y)


truncatediv = _pair("TruncateDiv", _truncated, "x / y of whole numbers, towards 0")
truncatemod = _pair("TruncateMod", _rest, "the remainder of x / y, with x's sign")
multiply_no_nan = _pair("multiply_no_nan", _product, "x * y, and 0 where y is 0")
xlogy = _pair(
    "xlogy", _where_x(lambda x, y: x * arithmetic.log(y)), "x log y, 0 where x is"
)
xdivy = _pair("xdivy", _where_x(lambda x, y: x / y), "x / y, 0 where x is 0")


def reciprocal_no_nan(x: Any, name: str | None = None) -> Any:
    """Return 1 / x, and 0 where x is 0."""
    with op_scope(name, "reciprocal_no_nan", [x]) as scope:
        tensor = convert_to_tensor(x, name="x")
        is_zero = arithmetic.equal(tensor, zeros_like(tensor))
        inverse = arithmetic.reciprocal(where(is_zero, ones_like(tensor), tensor))
        return where(is_zero, zeros_like(tensor), inverse, name=scope)


def polyval(coeffs: Any, x: Any, name: str | None = None) -> Any:
    """Return the polynomial with these coefficients, the highest power first."""
    if not isinstance(coeffs, list):
        raise ValueError(f"Argument coeffs must be list type, found {type(coeffs)}.")
    with op_scope(name, "polyval", [*coeffs, x]) as scope:
        at = convert_to_tensor(x, name="x")
        if not coeffs:
            return zeros_like(at, name=scope)
        total, *rest = [convert_to_tensor(coeff) for coeff in coeffs]
        for coefficient in rest:
            total = coefficient + total * at
        return arithmetic.identity(total, name=scope)


def _spread(name: str, combine: Callable[[Any, Any, bool], Any], doc: str) -> Any:
    default = name

    def reduce(x: Any, axis: Any, keep: Any, name: str | None) -> Any:
        with op_scope(name, default, [x]) as scope:
            made = combine(convert_to_tensor(x), axis, bool(keep))
            return arithmetic.identity(made, name=scope)

    function = reduction(reduce, doc)
    function.__module__ = __name__  # it is offered as one of this module's
    return function


def _variance(x: Any, axis: Any, keep: bool) -> Any:
    if not (x.dtype.is_floating or x.dtype.is_complex):
        raise TypeError(f"the variance of {x.dtype.name} is none of it; cast it.")
    away = x - reduce_mean(x, axis, keepdims=True)
    return reduce_mean(arithmetic.square(away), axis, keepdims=keep)


def _norm(x: Any, axis: Any, keep: bool) -> Any:
    square = x * arithmetic.conj(x) if x.dtype.is_complex else arithmetic.square(x)
    total = reduce_sum(square, axis, keepdims=keep)
    if x.dtype.is_integer:
        raised = arithmetic.sqrt(arithmetic.cast(total, "float64"))
        return arithmetic.cast(raised, x.dtype)
    return arithmetic.sqrt(total)


reduce_variance = _spread("reduce_variance", _variance, "the variance")
reduce_std = _spread(
    "reduce_std", lambda *how: arithmetic.sqrt(_variance(*how)), "the deviation"
)
reduce_euclidean_norm = _spread("EuclideanNorm", _norm, "the root of the squares' sum")


def norm(
    tensor: Any,
    ord: Any = "euclidean",
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    keep_dims: bool | None = None,
) -> Any:
    """Return a norm of vectors, of all elements or along axes: euclidean, 1 or np.inf.

    Of matrices, where there are two axes, only the euclidean one. Raises `ValueError`
    for others.
    """
    keep = bool(one_of("keepdims", keepdims, "keep_dims", keep_dims))
    is_matrix = isinstance(axis, list | tuple) and len(axis) == 2
    if ord not in ("euclidean", *(["fro"] if is_matrix else [1, 2, np.inf])):
        raise ValueError(f"{ord!r} is not offered for axis {axis!r}; use euclidean.")
    with op_scope(name, "norm", [tensor]) as scope:
        x = convert_to_tensor(tensor)
        if ord in (1, np.inf):
            reduce = reduce_sum if ord == 1 else reduce_max
            return reduce(arithmetic.abs(x), axis, keepdims=keep, name=scope)
        return arithmetic.identity(_norm(x, axis, keep), name=scope)
