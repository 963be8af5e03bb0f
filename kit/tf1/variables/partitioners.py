"""Into how many parts a variable is cut, and which of them an initializer is to make.

Pure. A partitioner is a function of shape and dtype that returns the number of parts of
each axis; parts are cut along one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from kit.tf1.tensor.dtypes import as_dtype
from kit.tf1.tensor.shape import TensorShape

Partitioner = Callable[..., list[int]]


def fixed_size_partitioner(num_shards: int, axis: int = 0) -> Partitioner:
    """Return a partitioner into `num_shards` parts along `axis`.

    >>> fixed_size_partitioner(3)(shape=[7, 2])
    [3, 1]
    """

    def partitioner(shape: Any, **_: Any) -> list[int]:
        sizes = _sizes(shape)
        parts = [1] * len(sizes)
        parts[axis] = min(num_shards, sizes[axis])
        return parts

    return partitioner


def variable_axis_size_partitioner(
    max_shard_bytes: int,
    axis: int = 0,
    bytes_per_string_element: int = 16,
    max_shards: int | None = None,
) -> Partitioner:
    """Return a partitioner into parts along `axis`, of at most `max_shard_bytes` bytes.

    Raises `ValueError` for sizes below 1.

    >>> variable_axis_size_partitioner(100)(shape=[20, 4], dtype="float32")
    [4, 1]
    """
    if max_shard_bytes < 1 or bytes_per_string_element < 1:
        raise ValueError(
            "max_shard_bytes and bytes_per_string_element must be positive."
        )
    if max_shards is not None and max_shards < 1:
        raise ValueError("max_shards must be positive.")

    def partitioner(shape: Any, dtype: Any) -> list[int]:
        sizes = _sizes(shape)
        element = _bytes(dtype, bytes_per_string_element)
        parts = [1] * len(sizes)
        slice_bytes = math.prod(sizes) // max(1, sizes[axis]) * element
        per_part = max(1, max_shard_bytes // max(1, slice_bytes))
        n_parts = math.ceil(sizes[axis] / per_part)
        parts[axis] = min(n_parts, sizes[axis], max_shards or n_parts)
        return parts

    return partitioner


def min_max_variable_partitioner(
    max_partitions: int = 1,
    axis: int = 0,
    min_slice_size: int = 256 << 10,
    bytes_per_string_element: int = 16,
) -> Partitioner:
    """Return a partitioner into at most `max_partitions` parts.

    Each has at least `min_slice_size` bytes.

    >>> min_max_variable_partitioner(8, min_slice_size=64)([20, 4], "float32")
    [5, 1]
    """

    def partitioner(shape: Any, dtype: Any) -> list[int]:
        sizes = _sizes(shape)
        if axis >= len(sizes):
            raise ValueError(
                f"Cannot partition variable along axis {axis} when shape is {sizes}."
            )
        n_bytes = math.prod(sizes) * _bytes(dtype, bytes_per_string_element)
        n_parts = max(1, math.ceil(n_bytes / min_slice_size))
        parts = [1] * len(sizes)
        parts[axis] = max(1, min(sizes[axis], max_partitions, n_parts))
        return parts

    return partitioner


def _sizes(shape: Any) -> list[int]:
    static_shape = TensorShape(shape)
    if not static_shape.is_fully_defined():
        raise ValueError(f"shape is not fully defined: {static_shape}")
    return [size or 0 for size in static_shape.as_list()]


def _bytes(dtype: Any, of_string: int) -> int:
    element_dtype = as_dtype(dtype)
    return of_string if element_dtype.name == "string" else element_dtype.size


class PartitionInfo:
    """The shape of the whole, and where in it the part begins.

    Raises `TypeError` for anything but sequences, `ValueError` for an offset that is
    not within the whole.

    >>> part = PartitionInfo([7, 2], [3, 0])
    >>> part.single_slice_dim([2, 2]), part.single_offset([2, 2])
    (0, 3)
    """

    def __init__(self, full_shape: Sequence[int], var_offset: Sequence[int]) -> None:
        whole = _sequence("full_shape", full_shape)
        offset = _sequence("var_offset", var_offset)
        is_within = len(whole) == len(offset) and all(
            0 <= begin < size for begin, size in zip(offset, whole, strict=True)
        )
        if not is_within:
            raise ValueError(
                f"Expected 0 <= offset < shape in each dimension, but found "
                f"var_offset={var_offset} and full_shape={full_shape}."
            )
        self.full_shape, self.var_offset = full_shape, var_offset

    def single_offset(self, shape: Sequence[int]) -> int:
        """Return where a part of this shape begins, in the dimension that is cut.

        0 if none is. Raises as `single_slice_dim` does.
        """
        cut = self.single_slice_dim(shape)
        return 0 if cut is None else self.var_offset[cut]

    def single_slice_dim(self, shape: Sequence[int]) -> int | None:
        """Return the dimension in which a part of this shape is cut; None if in none.

        Raises `TypeError` for anything that is not a sequence, `ValueError` for a part
        that is not within the whole, and for one that is cut in several dimensions.
        """
        sizes = _sequence("shape", shape)
        if len(sizes) != len(self.full_shape):
            raise ValueError(
                f"Expected equal length, but received shape={shape} and full_shape="
                f"{self.full_shape}."
            )
        places = list(zip(self.var_offset, sizes, self.full_shape, strict=True))
        if any(begin + size > whole for begin, size, whole in places):
            raise ValueError(
                f"With var_offset={self.var_offset}, a partition of shape={shape} "
                f"would exceed full_shape={self.full_shape}."
            )
        cut = [i for i, (_, size, whole) in enumerate(places) if size != whole]
        if len(cut) > 1:
            raise ValueError(
                f"Cannot use single_slice_dim() with shape={shape} and full_shape="
                f"{self.full_shape}: the dimensions {cut} are all cut."
            )
        return cut[0] if cut else None


def _sequence(name: str, numbers: Sequence[int]) -> Sequence[int]:
    if isinstance(numbers, str) or not isinstance(numbers, Sequence):
        raise TypeError(
            f"`{name}` must be a sequence (like tuple or list) instead of "
            f"{type(numbers).__name__}"
        )
    return numbers
