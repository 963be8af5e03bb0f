"""Parts of a tensor: by index, by coordinates and by condition."""

from __future__ import annotations

import builtins
from typing import Any

from kit.errors import InvalidArgumentError
from kit.graph.ops.array import blocks, slicing
from kit.graph.static import merge
from kit.tf1.ops.creation import fill
from kit.tf1.ops.creation import range as numbered
from kit.tf1.ops.join import concat
from kit.tf1.ops.reduce import cumsum, reduce_prod, reduce_sum
from kit.tf1.ops.shape import broadcast_to, expand_dims, reshape, squeeze, transpose
from kit.tf1.ops.shape import rank as rank_of
from kit.tf1.ops.shape import shape as shape_of
from kit.tf1.ops.write import along, axes, index, ints, vector, whole
from kit.tf1.tensor.convert import argument, convert_to_tensor, create, op_scope
from kit.tf1.tensor.dtypes import int32, numpy_of
from kit.tf1.tensor.operator_table import OPERATORS


def gather(
    params: Any,
    indices: Any,
    validate_indices: Any = None,
    name: str | None = None,
    axis: Any = None,
    batch_dims: int = 0,
) -> Any:
    """Return the slices along an axis, by default 0, that integers name.

    The first `batch_dims` axes of both are gone through together. In the run raises
    `InvalidArgumentError` for an index out of range.
    """
    if batch_dims:
        return _gathered_by_batch(params, indices, axis, batch_dims, name)
    with op_scope(name, "GatherV2", [params, indices, axis]) as scope:
        table = argument("GatherV2", "params", params)
        rows = index("GatherV2", "indices", indices)
        ranks = table.shape.ndims, rows.shape.ndims
        rank = None if None in ranks else max(sum(ranks) - 1, 0)
        position = 0 if axis is None else axis
        return along("GatherV2", [table, rows], position, scope, rank).outputs[0]


def gather_nd(
    params: Any, indices: Any, name: str | None = None, batch_dims: int = 0
) -> Any:
    """Return the slices at coordinates, which the last axis of `indices` holds.

    The first `batch_dims` axes of both are gone through together.
    """
    with op_scope(name, "GatherNd", [params, indices]) as scope:
        table = argument("GatherNd", "params", params)
        places = index("GatherNd", "indices", indices)
        numbers = axes("GatherNd", "batch_dims", batch_dims)
        if len(numbers) != 1:
            raise TypeError(f"batch_dims is {batch_dims!r}, which is not one number.")
        if numbers[0]:
            places = _with_batch(table, places, numbers[0])
        return create("GatherNd", table, places, name=scope)


def _gathered_by_batch(
    params: Any, indices: Any, axis: Any, batch_dims: int, name: str | None
) -> Any:
    with op_scope(name, "GatherV2", [params, indices, axis]) as scope:
        table = argument("GatherV2", "params", params)
        rows = index("GatherV2", "indices", indices)
        rank, depth = table.shape.ndims, rows.shape.ndims
        if rank is None or depth is None:
            raise ValueError("batch_dims needs known numbers of axes.")
        n = batch_dims + depth if batch_dims < 0 else batch_dims
        position = n if axis is None else whole("GatherV2", "axis", axis)
        position += rank if position < 0 else 0
        if not 0 <= n <= min(depth, position) or position >= rank:
            raise ValueError(
                f"batch_dims is {batch_dims}; it is at most the axis, {position}, and "
                f"the {depth} axes of the indices."
            )
        merge(table.static.shape[:n], rows.static.shape[:n], "batches and indices")
        order = [*range(n), position, *range(n, position), *range(position + 1, rank)]
        table = transpose(table, order)
        rows_gathered = gather_nd(table, expand_dims(rows, -1), None, n)
        # The axes of the indices go where the axis was.
        moved = [*range(depth, depth + position - n)]
        rest = range(depth + position - n, rows_gathered.shape.ndims)
        return transpose(
            rows_gathered, [*range(n), *moved, *range(n, depth), *rest], scope
        )


def _with_batch(table: Any, places: Any, n: int) -> Any:
    """Return coordinates with the numbers of their batches before them."""
    rank = places.shape.ndims
    if n < 0 or (rank is not None and n >= rank):
        raise ValueError(f"batch_dims is {n}, but the indices have {rank} axes.")
    in_run = None if rank is not None else fill(expand_dims(rank_of(places), 0), 1)
    sizes = shape_of(places, out_type=places.dtype.base_dtype)
    axes = []
    for i in range(n):
        numbers = numbered(sizes[i], dtype=places.dtype.base_dtype)
        if in_run is None:
            lengths: Any = [-1 if j == i else 1 for j in range(rank)]
        else:
            lengths = concat([in_run[:i], [-1], in_run[i + 1 :]], 0)
        column = reshape(numbers, lengths)
        axes.append(broadcast_to(column, concat([sizes[:-1], [1]], 0)))
    return concat([*axes, places], -1)


def batch_gather(params: Any, indices: Any, name: str | None = None) -> Any:
    """Return `gather` along the last axis of the indices, of which others are batches.

    That is, with `batch_dims` one less than `indices` has axes.
    """
    rows = convert_to_tensor(indices, name="indices")
    return gather(params, rows, name=name, batch_dims=rows.shape.ndims - 1)


def searchsorted(
    sorted_sequence: Any,
    values: Any,
    side: str = "left",
    out_type: Any = int32,
    name: str | None = None,
) -> Any:
    """Return where values belong in ascending rows, before equal ones or after them.

    Raises `ValueError` for a `side` but left and right.
    """
    if side not in ("left", "right"):
        raise ValueError(f"side must be either 'right' or 'left', not {side!r}.")
    with op_scope(name, "searchsorted", [sorted_sequence, values]) as scope:
        rows = convert_to_tensor(sorted_sequence, name="sorted_sequence")
        wanted = convert_to_tensor(values, rows.dtype.base_dtype, name="values")
        dtype = numpy_of(out_type)
        return create("SearchSorted", rows, wanted, name=scope, side=side, dtype=dtype)


def repeat(input: Any, repeats: Any, axis: Any = None, name: str | None = None) -> Any:
    """Return the tensor, flat without an axis, with each slice `repeats` times."""
    with op_scope(name, "Repeat", [input, repeats]):
        tensor = convert_to_tensor(input, name="input")
        flat = reshape(tensor, [-1]) if axis is None else tensor
        position = 0 if axis is None else axis
        times = convert_to_tensor(repeats, int32, name="repeats")
        if times.shape.ndims == 0:
            times = fill(shape_of(flat)[position : position + 1 or None], times)
        ends = cumsum(times)
        rows = searchsorted(ends, numbered(reduce_sum(times)), "right")
        return gather(flat, rows, axis=position)


def _tensor_scatter(kind: str) -> Any:
    def function(
        tensor: Any, indices: Any, updates: Any, name: str | None = None
    ) -> Any:
        op_type = f"TensorScatter{kind}"
        with op_scope(name, op_type, [tensor, indices, updates]) as scope:
            x = argument(op_type, "tensor", tensor)
            places = index(op_type, "indices", indices)
            values = argument(op_type, "updates", updates, x.dtype.base_dtype)
            return create(op_type, x, places, values, name=scope)

    function.__doc__ = f"Return a copy changed at coordinates: {kind.lower()}."
    return function


tensor_scatter_add = tensor_scatter_nd_add = _tensor_scatter("Add")
tensor_scatter_sub = tensor_scatter_nd_sub = _tensor_scatter("Sub")
tensor_scatter_update = tensor_scatter_nd_update = _tensor_scatter("Update")


def scatter_nd(indices: Any, updates: Any, shape: Any, name: str | None = None) -> Any:
    """Return zeros of this shape with updates added at coordinates."""
    with op_scope(name, "ScatterNd", [indices, updates, shape]) as scope:
        places = index("ScatterNd", "indices", indices)
        values = argument("ScatterNd", "updates", updates)
        sizes = ints("ScatterNd", "shape", shape)
        if isinstance(sizes, list):
            return create("ScatterNd", places, values, name=scope, shape=tuple(sizes))
        return create("ScatterNd", places, values, sizes, name=scope, shape=None)


def slice(input_: Any, begin: Any, size: Any, name: str | None = None) -> Any:
    """Return the block that begins at `begin` and has this size; -1 is the rest.

    Raises `ValueError` unless there is a number for each axis, `InvalidArgumentError`
    for a block that is not inside.
    """
    with op_scope(name, "Slice", [input_, begin, size]) as scope:
        tensor = argument("Slice", "input", input_)
        begins = vector("Slice", "begin", begin)
        sizes = vector("Slice", "size", size)
        rank = tensor.shape.ndims
        try:
            return blocks.slice_of(tensor, begins, sizes, name=scope)
        except ValueError as exc:
            counts = [len(part) for part in (begins, sizes) if isinstance(part, list)]
            if any(count != rank for count in counts):
                raise
            raise InvalidArgumentError(str(exc)) from exc


def strided_slice(
    input_: Any,
    begin: Any,
    end: Any,
    strides: Any = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    var: Any = None,
    name: str | None = None,
) -> Any:
    """Return `input_[begin:end:strides]` along the first axes.

    Bit i of a mask: axis i has no begin, no end, is all axes between, is a new one, or
    is one index. Raises `ValueError` for an unknown number of axes.
    """
    with op_scope(name, "StridedSlice", [input_, begin, end, strides]) as scope:
        begins, ends = (
            _numbers(what, values) for what, values in (("begin", begin), ("end", end))
        )
        steps = [1] * len(begins) if strides is None else _numbers("strides", strides)
        key: list[Any] = []
        for axis, (low, high, step) in enumerate(zip(begins, ends, steps, strict=True)):
            bit = 1 << axis
            if ellipsis_mask & bit:
                key.append(...)
            elif new_axis_mask & bit:
                key.append(None)
            elif shrink_axis_mask & bit:
                key.append(low)
            else:
                low = None if begin_mask & bit else low
                high = None if end_mask & bit else high
                key.append(builtins.slice(low, high, step))
        return slicing.strided_slice(
            convert_to_tensor(input_, name="input"), tuple(key), name=scope
        )


def _numbers(what: str, values: Any) -> list[Any]:
    """Return a vector of known length as numbers, or as tensors without axes."""
    if isinstance(values, list | tuple):
        return list(values)
    tensor = convert_to_tensor(values, name=what)
    numbers = tensor.static.value
    if numbers is not None:
        return [int(number) for number in numbers]
    (count,) = tensor.shape.as_list()
    if count is None:
        raise ValueError(f"the number of axes of `{what}` must be known.")
    return [tensor[i] for i in range(count)]


def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """Return x where the condition holds, else y; or the coordinates where it holds.

    x and y are of one shape; the condition is of that shape, without axes, or a vector
    that chooses among rows. Without x and y the result has a row for each true place.
    Raises `ValueError` for one of x and y alone, and for shapes that do not fit.
    """
    if x is None and y is None:
        with op_scope(name, "Where", [condition]) as scope:
            return create(
                "Where", argument("Where", "condition", condition), name=scope
            )
    if x is None or y is None:
        raise ValueError("x and y must both be non-None or both be None.")
    with op_scope(name, "Select", [condition, x, y]) as scope:
        test = argument("Select", "condition", condition)
        first = argument("Select", "t", x)
        other = argument("Select", "e", y, first.dtype.base_dtype)
        by_rows = _check_choice(
            test.static.shape, first.static.shape, other.static.shape
        )
        made = create("Select", test, first, other, name=scope, rows=by_rows)
        # Nothing is broadcast, so what is known of one shape holds for the other.
        shape = merge(first.static.shape, other.static.shape)
        if shape is not None and test.shape.ndims and not by_rows:
            shape = merge(shape, test.static.shape)
        made.static = made.static._replace(shape=shape)
        return made


def _check_choice(condition: Any, x: Any, y: Any) -> bool:
    """Raise `ValueError` unless shapes fit; return whether whole rows are chosen."""
    shape = merge(x, y, "x and y")
    if shape is None or condition is None:
        return True
    if len(condition) == 1 and len(shape) != 1:
        merge(condition, shape[:1], "the condition and the rows of x")
        return True
    if condition:
        merge(condition, shape, "the condition and x")
    return False


def boolean_mask(
    tensor: Any, mask: Any, name: str | None = "boolean_mask", axis: Any = None
) -> Any:
    """Return the slices along the first axes, or from `axis` on, where `mask` is true.

    Raises `ValueError` for a mask without axes, of unknown rank, or of other sizes.
    """
    with op_scope(name, "boolean_mask", [tensor, mask]):
        values = convert_to_tensor(tensor, name="tensor")
        test = convert_to_tensor(mask, name="mask")
        begin = 0 if axis is None else int(axis)
        mask_shape, whole = test.static.shape, values.static.shape
        if mask_shape is None:
            raise ValueError(
                "Number of mask dimensions must be specified, even if some dimensions "
                "are None."
            )
        if not mask_shape:
            raise ValueError("mask cannot be scalar.")
        end = begin + len(mask_shape)
        if whole is not None:
            merge(mask_shape, whole[begin:end], "the mask and the axes that it is for")
        total = reduce_prod(shape_of(values)[begin:end])
        if whole is None:
            sizes = shape_of(values)
            flat = reshape(values, concat([sizes[:begin], [total], sizes[end:]], 0))
        else:
            lead, tail = _around(values, begin, end)
            flat = reshape(values, [*lead, total, *tail])
        rows = squeeze(create("Where", reshape(test, [-1]), name="Where"), axis=[1])
        return gather(flat, rows, axis=begin)


OPERATORS["mask"] = boolean_mask  # what `t[mask]` gives


def _around(x: Any, begin: int, end: int) -> tuple[list[Any], list[Any]]:
    """Return the sizes before and after some axes, as numbers where they are known."""
    in_run = shape_of(x)
    sizes = [
        in_run[i] if size is None else size for i, size in enumerate(x.static.shape)
    ]
    return sizes[:begin], sizes[end:]
