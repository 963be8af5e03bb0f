"""Tensors put together, and taken apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from kit.graph.array_protocol import ArrayProtocol
from kit.graph.op import Tensor
from kit.graph.static import axis_of
from kit.tf1.ops.arithmetic import identity
from kit.tf1.ops.shape import broadcast_to, reshape
from kit.tf1.ops.write import along, hinted, settled, whole
from kit.tf1.tensor.convert import (
    argument,
    convert_to_tensor,
    create,
    create_op,
    op_scope,
)
from kit.tf1.tensor.dtypes import int32


def concat(values: Any, axis: Any, name: str | None = "concat") -> Any:
    """Return tensors joined along an existing axis; other sizes must be equal."""
    tensors = list(values) if isinstance(values, list | tuple) else [values]
    if len(tensors) == 1:
        with op_scope(name, "concat", tensors):
            position = convert_to_tensor(axis, int32, name="concat_dim")
            position.shape.assert_is_compatible_with([])
            return identity(tensors[0], name=name)
    with op_scope(name, "concat", [tensors, axis]) as scope:
        parts = _alike("ConcatV2", "values", tensors)
        ranks = {part.shape.ndims for part in parts} - {None}
        if len(ranks) > 1:
            raise ValueError(f"tensors of {sorted(ranks)} axes cannot be joined.")
        rank = next(iter(ranks), None)
        if rank == 0:
            raise ValueError("Can't concatenate scalars (use tf.stack instead)")
        return along("ConcatV2", parts, axis, scope, rank).outputs[0]


def _alike(op_type: str, name: str, values: list[Any]) -> list[Any]:
    """Return the parts as tensors of the dtype of the first tensor among them."""
    tensors = [value for value in values if isinstance(value, Tensor)]
    dtype = tensors[0].static.dtype if tensors else None
    return [
        argument(op_type, f"{name}_{i}", value, dtype) for i, value in enumerate(values)
    ]


def stack(values: Any, axis: int = 0, name: str | None = "stack") -> Any:
    """Return tensors of one shape side by side along a new axis."""
    if axis == 0:
        try:
            return convert_to_tensor(values, name=name or "stack")
        except (TypeError, ValueError):
            pass  # the operation itself says what is wrong
    parts = list(values)
    first = convert_to_tensor(parts[0], name=name or "stack").static.shape
    if first is not None:
        axis_of(axis, len(first) + 1)
    with op_scope(name, "stack", parts) as scope:
        return create("Pack", *_alike("Pack", "values", parts), name=scope, axis=axis)


def parallel_stack(values: Any, name: str | None = "parallel_stack") -> Any:
    """Return tensors of one known shape side by side along a new first axis."""
    with op_scope(name, None, list(values)) as scope:
        parts = [convert_to_tensor(value) for value in values]
        if not parts[0].shape.is_fully_defined():
            raise ValueError("the shapes of what parallel_stack takes must be known.")
        return create("Pack", *_alike("Pack", "values", parts), name=scope, axis=0)


def unstack(
    value: Any, num: int | None = None, axis: int = 0, name: str | None = "unstack"
) -> list[Any]:
    """Return the parts along an axis, which they lose.

    Raises `ValueError` if their number is not known and `num` is not given.
    """
    tensor = convert_to_tensor(value)
    shape = tensor.static.shape
    if num is None and shape is not None:
        num = shape[axis_of(axis, len(shape))]
    if num is None:
        raise ValueError(f"Cannot infer num from shape {tensor.shape}")
    with op_scope(name, "unstack", [tensor]) as scope:
        op = create_op("Unpack", tensor, name=scope, num=num, axis=axis)
        return list(op.outputs)


def split(
    value: Any,
    num_or_size_splits: Any,
    axis: Any = 0,
    num: int | None = None,
    name: str | None = "split",
) -> list[Any]:
    """Return parts along an axis: a number of equal ones, or parts of these sizes.

    One size may be -1: the rest. Raises `ValueError` if they do not add up.
    """
    sizes_tensor = hinted(num_or_size_splits, "Const")
    is_number = isinstance(num_or_size_splits, int | np.integer)
    if sizes_tensor.shape.ndims == 0 and not is_number:
        raise ValueError(
            "Rank-0 tensors are not supported as the num_or_size_splits argument to "
            "split."
        )
    is_known = sizes_tensor.static.value is not None
    sizes = settled("Split", "size_splits", sizes_tensor) if is_known else sizes_tensor
    if not is_known and not isinstance(num_or_size_splits, ArrayProtocol):
        sizes = np.asarray(num_or_size_splits).tolist()  # more than a graph folds
    with op_scope(name, "split", [value, axis]) as scope:
        tensor = argument("Split", "value", value)
        if isinstance(sizes, int):
            rank = tensor.shape.ndims
            return list(along("Split", [tensor], axis, scope, rank, num=sizes).outputs)
        attrs: dict[str, Any] = {"axis": whole("Split", "axis", axis)}
        if isinstance(sizes, list):
            if num is not None and num != len(sizes):
                raise ValueError(f"num is {num}, but there are {len(sizes)} sizes.")
            op = create_op("SplitV", tensor, name=scope, sizes=tuple(sizes), **attrs)
        else:
            raise ValueError(f"Cannot infer num from shape {num_or_size_splits!r}")
        return list(op.outputs)


def meshgrid(*args: Any, **kwargs: Any) -> list[Any]:
    """Return for vectors x, y, ... the coordinates of all points of their grid.

    `indexing` is "xy" (the first two axes are exchanged) or "ij".
    """
    indexing, name = kwargs.pop("indexing", "xy"), kwargs.pop("name", None)
    if kwargs:
        raise TypeError(f"'{next(iter(kwargs))}' is an invalid keyword argument")
    if indexing not in ("xy", "ij"):
        raise ValueError("indexing parameter must be either 'xy' or 'ij'")
    with op_scope(name, "meshgrid", args):
        vectors = [convert_to_tensor(arg) for arg in args]
        places = list(range(len(vectors)))
        if indexing == "xy" and len(places) > 1:
            places[:2] = [1, 0]
        sizes = [item.shape.num_elements() for item in vectors]
        if None in sizes:
            raise ValueError("meshgrid needs to know the sizes of its vectors.")
        grid = [sizes[places.index(axis)] for axis in range(len(sizes))]
        grids = []
        for position, vector in zip(places, vectors, strict=True):
            lying = [1] * len(vectors)
            lying[position] = -1
            grids.append(broadcast_to(reshape(vector, lying), grid, name="mul"))
        return grids
