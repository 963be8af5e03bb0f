"""From Python values to arrays, by the original's rules for constants.

Pure. They differ from those of `kit.graph.dtypes`: a list of numpy's float64 becomes
float32, and a bool may become a number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kit.bfloat16 import kind_of
from kit.graph.dtypes import STRING, Array, DType, name_of, to_array
from kit.tf1.tensor.dtypes import DType as PublicDType
from kit.tf1.tensor.shape import Dimension

# For each kind of dtype, the kinds of Python values that may become one.
_FITS = {"b": "b", "i": "biu", "u": "biu", "f": "biuf", "c": "biufc", "O": "O"}


def to_constant(value: Any, dtype: PublicDType | None = None) -> Array:
    """Return the array of a constant.

    Raises `ValueError` for None and ragged lists, `TypeError` for anything that is not
    a value of a tensor, or none of `dtype`.

    >>> to_constant([1, 2]).dtype, to_constant(1, PublicDType(np.dtype("f8"))).dtype
    (dtype('int32'), dtype('float64'))
    """
    wanted: DType | None = None if dtype is None else np.dtype(dtype.as_numpy_dtype)
    if isinstance(value, np.ndarray | np.generic):
        return np.array(to_array(value, wanted))  # the caller may change it later
    array = _of_python(_without_dimensions(value))
    if wanted is None:
        return _downcast(array)
    return _as(array, wanted, value)


def spread(array: Any, shape: Sequence[int]) -> Any:
    """Return values in a shape; too few of them are continued with the last.

    Raises `ValueError` for too many.

    >>> spread(np.array([1, 2]), [2, 2]).tolist()
    [[1, 2], [2, 2]]
    """
    wanted = math.prod(shape)
    flat = array.reshape(-1)
    if flat.size > wanted:
        raise ValueError(
            f"Too many elements provided. Needed at most {wanted}, but received "
            f"{flat.size}."
        )
    if flat.size < wanted:
        last = flat[-1:] if flat.size else np.zeros(1, array.dtype)
        flat = np.concatenate([flat, np.repeat(last, wanted - flat.size)])
    return flat.reshape(tuple(shape))


def _of_python(value: Any) -> Array:
    if value is None:
        raise ValueError("None values not supported.")
    if _holds_none(value):
        raise TypeError(f"Failed to convert {value!r} to Tensor: it holds None.")
    try:
        array = np.asarray(value)
    except ValueError as exc:
        raise ValueError(
            f"{value!r} has parts of unequal lengths; a tensor is rectangular."
        ) from exc
    if array.dtype.kind in "USO":
        array = to_array(value, STRING)
    elif kind_of(array.dtype) not in "biufc":
        raise TypeError(
            f"{value!r} of {type(value).__name__} is not a value of a tensor."
        )
    return array


def _downcast(array: Array) -> Array:
    if array.dtype == np.float64:
        return array.astype(np.float32)
    if array.dtype == np.int64:
        small = array.astype(np.int32)
        return small if np.array_equal(small, array) else array
    return array


def _as(array: Array, dtype: DType, value: Any) -> Array:
    if array.size and kind_of(array.dtype) not in _FITS[kind_of(dtype)]:
        raise TypeError(
            f"Expected {name_of(dtype)}, got {value!r} of type "
            f"{type(value).__name__!r} instead."
        )
    return array.astype(dtype)  # what does not fit wraps, as in the original


def _holds_none(value: Any) -> bool:
    return isinstance(value, list | tuple) and any(
        item is None or _holds_none(item) for item in value
    )


def _without_dimensions(value: Any) -> Any:
    """Return nested lists with the numbers of the sizes of static shapes in them."""
    if isinstance(value, Dimension):
        return value.value
    if isinstance(value, list | tuple):
        return [_without_dimensions(item) for item in value]
    return value
