"""Mean and variance, and what is scaled by them."""

from __future__ import annotations

from typing import Any

from kit.tf1.ops.arithmetic import (
    identity,
    maximum,
    multiply,
    rsqrt,
    square,
    squared_difference,
    stop_gradient,
)
from kit.tf1.ops.cast import cast
from kit.tf1.ops.reduce import reduce_mean, reduce_sum
from kit.tf1.ops.shape import squeeze
from kit.tf1.ops.write import one_of
from kit.tf1.tensor.convert import convert_to_tensor, op_scope
from kit.tf1.tensor.dtypes import float16, float32


def moments(
    x: Any,
    axes: Any,
    shift: Any = None,
    name: str | None = None,
    keep_dims: bool | None = None,
    keepdims: bool | None = None,
) -> tuple[Any, Any]:
    """Return mean and variance along some axes; `shift` is not used.

    Of float16 they are computed in float32.
    """
    keep = one_of("keepdims", keepdims, "keep_dims", keep_dims)
    with op_scope(name, "moments", [x, axes]):
        given = convert_to_tensor(x, name="x")
        is_half = given.dtype.base_dtype == float16
        wide = cast(given, float32) if is_half else given
        mean = reduce_mean(wide, axes, keepdims=True, name="mean")
        distance = squared_difference(wide, stop_gradient(mean))
        variance = reduce_mean(distance, axes, keepdims=True, name="variance")
        if not keep:
            mean, variance = squeeze(mean, axes), squeeze(variance, axes)
        if is_half:
            return cast(mean, float16), cast(variance, float16)
        return mean, variance


def batch_normalization(
    x: Any,
    mean: Any,
    variance: Any,
    offset: Any,
    scale: Any,
    variance_epsilon: Any,
    name: str | None = None,
) -> Any:
    """Return (x - mean) / sqrt(variance + epsilon), scaled and offset unless None."""
    with op_scope(name, "batchnorm", [x, mean, variance, scale, offset]):
        factor = rsqrt(variance + variance_epsilon)
        if scale is not None:
            factor *= scale
        rest = -mean * factor if offset is None else offset - mean * factor
        return x * cast(factor, x.dtype) + cast(rest, x.dtype)


def l2_normalize(
    x: Any,
    axis: Any = None,
    epsilon: float = 1e-12,
    name: str | None = None,
    dim: Any = None,
) -> Any:
    """Return x divided by its length along some axes; epsilon guards against zero."""
    axis = one_of("axis", axis, "dim", dim)
    with op_scope(name, "l2_normalize", [x]) as scope:
        given = convert_to_tensor(x, name="x")
        total = reduce_sum(square(given), axis, keepdims=True)
        return multiply(given, rsqrt(maximum(total, epsilon)), name=scope)


def zero_fraction(value: Any, name: str | None = None) -> Any:
    """Return the share of elements that are zero."""
    with op_scope(name, "zero_fraction", [value]):
        given = convert_to_tensor(value, name="value")
        is_zero = given.graph.create(
            "Equal", given, convert_to_tensor(given.dtype.as_numpy_dtype(0))
        )
        share = reduce_mean(cast(is_zero.outputs[0], float32))
        return identity(share, name="fraction")
