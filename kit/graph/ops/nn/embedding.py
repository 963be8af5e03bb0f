"""Rows of a table that may be cut into parts, each on a different task.

how:  the ids are split by part | each part gathers its rows | the rows are merged
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final

import numpy as np

from kit.errors import InvalidArgumentError
from kit.graph.convert import make, make_op, tensor
from kit.graph.kernels.bounds import check_indices
from kit.graph.op import Op, Tensor
from kit.graph.ops.array.choose import select
from kit.graph.ops.array.fill import arange
from kit.graph.ops.array.join import concat, filled
from kit.graph.ops.array.rows import check_whole, gather
from kit.graph.ops.array.shape import reshape, shape_of
from kit.graph.ops.array.slicing import strided_slice
from kit.graph.ops.math.arithmetic import (
    add,
    floor_divide,
    maximum,
    remainder,
    subtract,
)
from kit.graph.ops.math.cast import cast
from kit.graph.ops.math.compare import less
from kit.graph.static import Shape, Static, agrees, is_known, merge, same_dtype, text
from kit.graph.table import Attrs, enter

STRATEGIES: Final = ("mod", "div")


def embedding_lookup(
    params: Any, ids: Any, strategy: str = "mod", name: str | None = None
) -> Tensor:
    """Return the rows of a table that integers name, [*shape of ids, *shape of a row].

    Only the rows that are asked for travel, and gradients are rows of each part.

    Parameters
    ----------
    params : Variable, Tensor, or list of these
        The table, or its parts, such as variables on several parameter servers.
    ids : Tensor or array of int
        Numbers of rows. A run raises `InvalidArgumentError` for one that is not a row.
    strategy : {"mod", "div"}
        With "mod" row i is in part i % n. With "div" the parts are ranges of rows, and
        the first ones have one row more where it does not come out even.
    name : str, optional
        The name of the op.

    Raises
    ------
    ValueError
        There are no parts, or the strategy is unknown.
    TypeError
        The ids are not integers.
    """
    parts = list(params) if isinstance(params, list | tuple) else [params]
    if not parts or any(part is None for part in parts):
        raise ValueError(
            f"an embedding needs a table: params is {params!r}; give a variable, or a "
            f"list of its parts."
        )
    tables, wanted = [tensor(part) for part in parts], tensor(ids)
    check_whole(wanted.static, "ids")
    if strategy not in STRATEGIES:
        raise ValueError(
            f"the strategy is {strategy!r}; give one of {', '.join(STRATEGIES)}."
        )
    graph = wanted.graph
    if len(tables) == 1:
        with graph.colocate_with(tables[0].op):
            return gather(tables[0], wanted, name=name)
    with graph.as_default(), graph.name_scope(name or "embedding_lookup"):
        return _from_parts(tables, wanted, strategy)


def dynamic_partition(
    x: Any, partitions: Any, num: int, name: str | None = None
) -> list[Tensor]:
    """Return the rows of x, distributed over several tensors.

    Parameters
    ----------
    x : Tensor or array
        Its rows are distributed.
    partitions : Tensor or array of int
        The number of the tensor for each row, from 0.
    num : int
        The number of tensors.
    name : str, optional
        The name of the op.

    Returns
    -------
    list of Tensor
    """
    inputs = tensor(x), tensor(partitions)
    return list(make_op("DynamicPartition", *inputs, name=name, num=num).outputs)


def dynamic_stitch(
    indices: Sequence[Any], rows: Sequence[Any], name: str | None = None
) -> Tensor:
    """Return rows merged by their indices; undoes `dynamic_partition`.

    Parameters
    ----------
    indices : sequence of Tensor or array of int
        The index of each row; the result has as many rows as the greatest one needs.
    rows : sequence of Tensor or array
        The rows; the i-th items of both lists belong together. Of several rows with the
        same index the last one wins.
    name : str, optional
        The name of the op.
    """
    inputs = [tensor(index) for index in (*indices, *rows)]
    return make("DynamicStitch", *inputs, name=name, num=len(indices))


def _from_parts(tables: Sequence[Tensor], ids: Tensor, strategy: str) -> Tensor:
    n = len(tables)
    flat = reshape(ids, [-1])
    which, inside = _spread(tables, flat, strategy)
    places = dynamic_partition(_count_like(flat), which, n)
    rows = []
    for table, mine in zip(tables, dynamic_partition(inside, which, n), strict=True):
        with ids.graph.colocate_with(table.op):
            rows.append(gather(table, mine))
    rows_joined = dynamic_stitch(places, rows)
    shape, row = ids.static.shape, _row_of(tables)
    if row is not None and is_known(row) and is_known(shape):
        return reshape(rows_joined, (*(shape or ()), *row))
    sizes = [shape_of(ids), strided_slice(shape_of(tables[0]), slice(1, None))]
    return reshape(rows_joined, concat(sizes))


def _row_of(tables: Sequence[Tensor]) -> Shape:
    row: Shape = None
    for table in tables:
        shape = table.static.shape
        if shape is not None:
            row = merge(row, shape[1:], "rows of the parts")
    return row


def _spread(
    tables: Sequence[Tensor], ids: Tensor, strategy: str
) -> tuple[Tensor, Tensor]:
    """Return the part of each id, and its row there."""
    n, dtype = len(tables), ids.static.dtype
    if strategy == "mod":
        return cast(remainder(ids, n), np.int32), floor_divide(ids, n)
    total = _total(tables, dtype)
    least, more = floor_divide(total, n), remainder(total, n)
    # The first `more` parts have a row in addition to `least`, which is 0 if there are
    # more parts than rows: nothing must be divided by it.
    long, short, start = add(least, 1), maximum(least, 1), subtract(ids, more)
    which = maximum(floor_divide(ids, long), floor_divide(start, short))
    is_long = less(which, more)
    inside = select(is_long, remainder(ids, long), remainder(start, short))
    return cast(which, np.int32), inside


def _total(tables: Sequence[Tensor], dtype: Any) -> Any:
    shapes = [table.static.shape for table in tables]
    if all(shape is not None and shape[0] is not None for shape in shapes):
        return tensor(sum(shape[0] for shape in shapes if shape), dtype)
    sizes = [cast(shape_of(table)[0], dtype) for table in tables]
    return make("AddN", *sizes)


def _count_like(ids: Tensor) -> Tensor:
    """Return 0, 1, 2, ..., one for each id."""
    return arange(shape_of(ids)[0])


def _infer_partition(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    x, partitions = inputs
    check_whole(partitions, "partitions")
    if x.shape is None or partitions.shape is None:
        return [Static(None, x.dtype)] * attrs["num"]
    rank = len(partitions.shape)
    if not agrees(x.shape[:rank], partitions.shape):
        raise ValueError(
            f"partitions of {text(partitions.shape)} do not lead x of "
            f"{text(x.shape)}; give one number for each row."
        )
    return [Static((None, *x.shape[rank:]), x.dtype)] * attrs["num"]


def _partition(xp: ModuleType, x: Any, partitions: Any, *, num: int) -> Any:
    check_indices(xp, partitions, num, "partitions")
    parts = tuple(x[partitions == k] for k in range(num))
    return parts if num != 1 else parts[0]


def _partition_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    x, partitions = op.inputs
    rows = filled(op, gradients)
    every = reshape(_count_like(reshape(partitions, [-1])), shape_of(partitions))
    places = dynamic_partition(every, partitions, len(rows))
    return [reshape(dynamic_stitch(places, rows), shape_of(x)), None]


def _infer_stitch(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    indices, rows = inputs[: attrs["num"]], inputs[attrs["num"] :]
    dtype, row = same_dtype(rows, "rows that are put together"), None
    for index, row_static in zip(indices, rows, strict=True):
        check_whole(index)
        if row_static.shape is not None and index.shape is not None:
            row = merge(row, row_static.shape[len(index.shape) :], "the rows")
    values = [index.value for index in indices if index.value is not None]
    size = None
    if len(values) == len(indices):
        size = max((int(value.max()) + 1 for value in values if value.size), default=0)
    return [Static(None if row is None else (size, *row), dtype)]


def _stitch(xp: ModuleType, *inputs: Any, num: int) -> Any:
    indices, rows = inputs[:num], inputs[num:]
    row = rows[0].shape[indices[0].ndim :]
    if any(r.shape != i.shape + row for i, r in zip(indices, rows, strict=True)):
        raise InvalidArgumentError(
            f"rows of {[list(array.shape) for array in rows]} do not belong to indices "
            f"of {[list(array.shape) for array in indices]}; give one row for each "
            "index."
        )
    n = max((int(array.max()) + 1 for array in indices if array.size), default=0)
    whole = xp.zeros((n, *row), rows[0].dtype)
    for index, rows_of in zip(indices, rows, strict=True):
        check_indices(xp, index, n)
        whole[index] = rows_of
    return whole


def _stitch_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    num = op.attrs["num"]
    rows = [gather(gradients[0], index) for index in op.inputs[:num]]
    return [None] * num + rows


enter(
    "DynamicPartition",
    _infer_partition,
    _partition,
    _partition_gradient,
    n_outputs=lambda attrs: int(attrs["num"]),
)
enter("DynamicStitch", _infer_stitch, _stitch, _stitch_gradient)
