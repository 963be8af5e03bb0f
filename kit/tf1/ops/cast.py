"""From one dtype to another."""

from __future__ import annotations

from typing import Any

from kit.errors import UnimplementedError
from kit.graph.dtypes import STRING
from kit.graph.op import IndexedSlices
from kit.tf1.tensor.convert import convert_to_tensor, create, op_scope
from kit.tf1.tensor.dtypes import DType, as_dtype, float32, float64, int32, int64
from kit.tf1.tensor.tensor import Tensor


def cast(x: Any, dtype: Any, name: str | None = None) -> Any:
    """Return `x` in another dtype; floating point numbers lose their fraction.

    A tensor of that dtype is returned as it is. Raises `UnimplementedError` for texts.
    """
    wanted: DType = as_dtype(dtype).base_dtype
    if isinstance(x, Tensor) and x.dtype == wanted:
        return x
    with op_scope(name, "Cast", [x]) as scope:
        if isinstance(x, IndexedSlices):
            values = cast(x.values, wanted, scope)
            return IndexedSlices(values, x.indices, x.dense_shape)
        found = convert_to_tensor(x, name="x")
        if found.dtype.base_dtype == wanted:
            return found
        if STRING in (found.static.dtype, wanted._base):
            raise UnimplementedError(
                f"Cast {found.dtype.name} to {wanted.name} is not supported"
            )
        return create("Cast", found, name=scope, dtype=wanted._base)


def saturate_cast(value: Any, dtype: Any, name: str | None = None) -> Any:
    """Return `value` in another dtype, kept within what that can hold."""
    wanted = as_dtype(dtype).base_dtype
    with op_scope(name, "saturate_cast", [value]) as scope:
        found = convert_to_tensor(value, name="value")
        here = found.dtype.base_dtype
        for op_type, too_far, bound in (
            ("Maximum", here.min < wanted.min, wanted.min),
            ("Minimum", here.max > wanted.max, wanted.max),
        ):
            if too_far:
                limit = convert_to_tensor(here.as_numpy_dtype(bound))
                found = create(op_type, found, limit, name=op_type)
        return cast(found, wanted, scope)


def to_float(x: Any, name: str | None = "ToFloat") -> Any:
    """Return `x` as float32."""
    return cast(x, float32, name)


def to_double(x: Any, name: str | None = "ToDouble") -> Any:
    """Return `x` as float64."""
    return cast(x, float64, name)


def to_int32(x: Any, name: str | None = "ToInt32") -> Any:
    """Return `x` as int32."""
    return cast(x, int32, name)


def to_int64(x: Any, name: str | None = "ToInt64") -> Any:
    """Return `x` as int64."""
    return cast(x, int64, name)
