"""Into how many parts a variable is cut, along one axis.

Pure. A partitioner is a function of shape and dtype that returns the number of parts of
each axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable
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
    known = TensorShape(shape)
    if not known.is_fully_defined():
        raise ValueError(f"shape is not fully defined: {known}")
    return [size or 0 for size in known.as_list()]


def _bytes(dtype: Any, of_string: int) -> int:
    found = as_dtype(dtype)
    return of_string if found.name == "string" else found.size
