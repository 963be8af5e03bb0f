"""Tensors of values at places: made dense, and sums of rows of a table by them."""

from __future__ import annotations

from typing import Any

from kit.tf1 import logging
from kit.tf1.graph.control import control_dependencies
from kit.tf1.ops.arithmetic import cast, greater, less, sqrt, square
from kit.tf1.ops.checks import Assert
from kit.tf1.ops.composed import div_no_nan
from kit.tf1.ops.creation import fill, ones_like
from kit.tf1.ops.index import scatter_nd, where
from kit.tf1.ops.join import concat
from kit.tf1.ops.nn_layer import embedding_lookup
from kit.tf1.ops.reduce import cumprod, reduce_all, reduce_max, reduce_sum
from kit.tf1.ops.shape import expand_dims, reshape
from kit.tf1.ops.shape import shape as shape_of
from kit.tf1.tensor.convert import convert_to_tensor, op_scope
from kit.tf1.tensor.dtypes import int64
from kit.tf1.tensor.sparse import SparseTensor

_COMBINERS = ("mean", "sqrtn", "sum")


def sparse_to_dense(
    sparse_indices: Any,
    output_shape: Any,
    sparse_values: Any,
    default_value: Any = 0,
    validate_indices: bool = True,
    name: str | None = None,
) -> Any:
    """Return a tensor of `default_value`, with these values at these places.

    The places are one number, a list of them for a vector, or one row for each value.
    Raises in a run `InvalidArgumentError`, if `validate_indices`, for places that are
    not in order or come twice.
    """
    with op_scope(name, "SparseToDense", [sparse_indices, sparse_values]) as scope:
        places = cast(convert_to_tensor(sparse_indices, name="sparse_indices"), int64)
        sizes = cast(convert_to_tensor(output_shape, name="output_shape"), int64)
        values = convert_to_tensor(sparse_values, name="sparse_values")
        otherwise = convert_to_tensor(default_value, values.dtype, name="default_value")
        rows = reshape(places, [-1, 1]) if places.shape.ndims < 2 else places
        spread = fill(shape_of(rows)[:1], values) if not values.shape.ndims else values
        checks = [_in_order(rows, sizes)] if validate_indices else []
        with control_dependencies(checks):
            dense = scatter_nd(rows, spread, sizes)
        is_there = greater(scatter_nd(rows, ones_like(rows[:, 0]), sizes), 0)
        return where(is_there, dense, fill(sizes, otherwise), name=scope)


def _in_order(rows: Any, sizes: Any) -> Any:
    """Return an operation that fails unless each row comes after the one before."""
    strides = cumprod(sizes, exclusive=True, reverse=True)
    flat = reduce_sum(rows * strides, 1)
    return Assert(
        reduce_all(less(flat[:-1], flat[1:])),
        ["sparse_indices are out of order or repeated:", rows],
        summarize=12,
    )


def sparse_tensor_to_dense(
    sp_input: SparseTensor,
    default_value: Any = 0,
    validate_indices: bool = True,
    name: str | None = None,
) -> Any:
    """Return the tensor that a `SparseTensor` stands for; see `sparse_to_dense`."""
    parts = sp_input.indices, sp_input.dense_shape, sp_input.values
    return sparse_to_dense(*parts, default_value, validate_indices, name)


def embedding_lookup_sparse(
    params: Any,
    sp_ids: SparseTensor,
    sp_weights: SparseTensor | None,
    partition_strategy: str = "mod",
    name: str | None = None,
    combiner: str | None = None,
    max_norm: Any = None,
) -> Any:
    """Return, for each row of `sp_ids`, the sum or the mean of the rows it names.

    They are rows of a table, or of a list of its parts, as in `embedding_lookup`, times
    `sp_weights`. The combiner is "mean", "sqrtn" (the sum over the root of the sum of
    squared weights) or "sum". Raises `ValueError` for another.
    """
    if combiner is None:
        logging.warning('The default value of combiner is "mean".')
        combiner = "mean"
    if combiner not in _COMBINERS:
        raise ValueError("combiner must be one of 'mean', 'sqrtn' or 'sum'")
    with op_scope(name, "embedding_lookup_sparse", [sp_ids.values]):
        ids = sp_ids.values
        rows = embedding_lookup(params, ids, partition_strategy, max_norm=max_norm)
        factors = ones_like(ids) if sp_weights is None else sp_weights.values
        weights = cast(factors, rows.dtype)
        row = expand_dims(sp_ids.indices[:, 0], 1)
        count = cast(reduce_max(row) + 1, int64)
        sizes = expand_dims(count, 0)

        def summed(values: Any) -> Any:
            return scatter_nd(row, values, sizes)

        lead = [-1, *[1] * (rows.shape.ndims - 1)]
        width = cast(shape_of(rows)[1:], int64)
        total = scatter_nd(
            row, rows * reshape(weights, lead), concat([sizes, width], 0)
        )
        if combiner == "sum":
            return total
        divisor = (
            summed(weights) if combiner == "mean" else sqrt(summed(square(weights)))
        )
        return div_no_nan(total, reshape(divisor, lead))
