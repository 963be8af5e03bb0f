"""Slices by index: gathered from a tensor, and added up in one.

The gradient of rows taken from the first axis is an `IndexedSlices`: only these rows.
An index that is out of range is an error in a run; nothing wraps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from kit.errors import InvalidArgumentError
from kit.graph.arguments import Ints, given_or_input, number, numbers_or_input
from kit.graph.array_protocol import ArrayProtocol
from kit.graph.convert import make, make_op, tensor
from kit.graph.dtypes import STRING, name_of
from kit.graph.fold import sizes_of
from kit.graph.kernels import segments
from kit.graph.kernels.bounds import check_indices
from kit.graph.op import IndexedSlices, Op, Tensor
from kit.graph.ops.array.shape import reshape, shape_of
from kit.graph.ops.math.arithmetic import add, multiply
from kit.graph.static import Shape, Static, axis_of, is_known, n_elements, text
from kit.graph.table import Attrs, enter, infer_like, missing, register_bound


def gather(x: Any, indices: Any, axis: Any = 0, name: str | None = None) -> Tensor:
    """Return the slices of `x` along an axis that integers name.

    The shape of `indices` takes the axis' place. Negative indices are errors.
    """
    position = number(axis, "the axis")
    return make("GatherV2", tensor(x), tensor(indices), axis=position, name=name)


def from_the_start(indices: Any, x: Tensor, axis: int) -> Any:
    """Return indices as Python counts them, but all from the start of an axis.

    Only constants can be negative: an op refuses negative indices on every device.
    """
    if isinstance(indices, ArrayProtocol):
        return indices
    values = np.asarray(indices)
    below = values < 0
    if not below.any():
        return values
    size = x.static.shape[axis] if x.static.shape else None
    if size is not None:
        return np.where(below, values + size, values)
    return add(values, multiply(below.astype(values.dtype), shape_of(x)[axis]))


def gather_nd(x: Any, indices: Any, name: str | None = None) -> Tensor:
    """Return the slices at the indices that the last axis of `indices` holds."""
    return make("GatherNd", tensor(x), tensor(indices), name=name)


def scatter_nd(
    indices: Any, updates: Any, shape: Any, name: str | None = None
) -> Tensor:
    """Return zeros of this shape with updates added at coordinates."""
    attr, extra = numbers_or_input(shape, "the shape")
    return make(
        "ScatterNd", tensor(indices), tensor(updates), *extra, shape=attr, name=name
    )


def sum_rows(rows: IndexedSlices, name: str | None = None) -> IndexedSlices:
    """Return slices with unique, ascending indices; rows of one index are added up."""
    op = make_op("SumByIndex", rows.indices, rows.values, name=name)
    indices, values = op.outputs
    return IndexedSlices(values, indices, rows.dense_shape)


def check_whole(static: Static, what: str = "indices") -> None:
    """Raise `TypeError` unless these are integers."""
    if static.dtype.kind not in "iu":
        raise TypeError(f"{what} are integers, not {name_of(static.dtype)}; cast them.")


def _infer_gather(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    x, indices = inputs
    check_whole(indices)
    if x.shape is None or indices.shape is None:
        return [Static(None, x.dtype)]
    if not x.shape:
        raise ValueError("a number without axes has no rows to gather.")
    position = axis_of(attrs["axis"], len(x.shape))
    return [
        Static((*x.shape[:position], *indices.shape, *x.shape[position + 1 :]), x.dtype)
    ]


def _gather(xp: ModuleType, attrs: Attrs) -> Callable[..., Any]:
    axis = attrs["axis"]
    return lambda x, indices: segments.gather(xp, x, indices, axis)


def _gather_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    (g,), (x, indices) = gradients, op.inputs
    shape = x.static.shape
    if shape is None or axis_of(op.attrs["axis"], len(shape)) != 0:
        return [make("GatherGrad", g, indices, x, axis=op.attrs["axis"]), None]
    # Set beside the rows' owner, so that only rows travel there.
    if is_known(shape):
        # Not computed from x: of a variable the shape is known before any value is.
        whole = tensor(np.array(shape, np.int32), name="Shape")
        row: Any = (-1, *shape[1:])
    else:
        whole = shape_of(x)
        row = make("ConcatV2", tensor([-1], np.int32), whole[1:], axis=0)
    return [IndexedSlices(reshape(g, row), reshape(indices, -1), whole), None]


def _gather_back(xp: ModuleType, g: Any, indices: Any, x: Any, *, axis: int) -> Any:
    position = axis % x.ndim
    turned = xp.moveaxis(xp.zeros(x.shape, g.dtype), position, 0)
    flat = g.reshape((*g.shape[:position], -1, *g.shape[position + indices.ndim :]))
    rows = xp.moveaxis(flat, position, 0)
    total = segments.scatter("add", xp, turned, indices.reshape(-1), rows)
    return xp.moveaxis(total, 0, position)


def _gather_back_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    again = make("GatherV2", gradients[0], op.inputs[1], axis=op.attrs["axis"])
    return [again, None, None]


def places(x: Shape, indices: Static) -> tuple[Shape, int | None]:
    """Return the shape of the list of indices, and how many axes of `x` each names."""
    check_whole(indices)
    if indices.shape is None:
        return None, None
    if not indices.shape:
        raise ValueError("the indices need an axis: each one is a list of numbers.")
    depth = indices.shape[-1]
    if x is not None and depth is not None and depth > len(x):
        raise ValueError(
            f"an index of {depth} numbers is too long for the {len(x)} axes of "
            f"{text(x)}."
        )
    return indices.shape[:-1], depth


def _infer_gather_nd(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    x, indices = inputs
    lead, depth = places(x.shape, indices)
    if lead is None or depth is None or x.shape is None:
        return [Static(None, x.dtype)]
    return [Static((*lead, *x.shape[depth:]), x.dtype)]


def flat_places(xp: ModuleType, indices: Any, shape: Sequence[int]) -> Any:
    """Return each index as one row number, counted through the leading axes."""
    flat = xp.zeros(indices.shape[:-1], dtype=np.int64)
    for i in range(indices.shape[-1]):
        part = indices[..., i]
        check_indices(xp, part, shape[i])
        flat = flat * shape[i] + part
    return flat


def _gather_nd(xp: ModuleType, x: Any, indices: Any) -> Any:
    depth = indices.shape[-1]
    rows = x.reshape((math.prod(x.shape[:depth]), *x.shape[depth:]))
    return xp.take(rows, flat_places(xp, indices, x.shape), axis=0)


def _gather_nd_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    x, indices = op.inputs
    shape = x.static.shape
    sizes: Any = shape if is_known(shape) else shape_of(x)
    if indices.static.shape is not None and indices.static.shape[1:] == (1,):
        whole = tensor(np.array(sizes, np.int32)) if is_known(shape) else sizes
        return [IndexedSlices(gradients[0], reshape(indices, -1), whole), None]
    return [scatter_nd(indices, gradients[0], sizes), None]


def _infer_scatter_nd(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    indices, updates, sizes = inputs[0], inputs[1], attrs["shape"]
    shape: Shape = sizes_of(inputs[2]) if sizes is None else sizes
    lead, depth = places(shape, indices)
    counts = n_elements(indices.shape), n_elements(updates.shape)
    if 0 in (shape or ()) and None not in counts and 0 not in counts:
        raise ValueError(f"Indices and updates specified for empty output {shape}.")
    if lead is not None and updates.shape is not None:
        n = len(lead)
        tail = None if shape is None or depth is None else shape[depth:]
        wanted = None if tail is None else (*lead, *tail)
        fits = wanted is None or len(wanted) == len(updates.shape)
        pairs = zip(wanted or updates.shape[:n], updates.shape, strict=False)
        if not fits or any(a != b for a, b in pairs if None not in (a, b)):
            raise ValueError(
                f"updates of {text(updates.shape)} do not fit indices of "
                f"{text(indices.shape)} into {text(shape)}."
            )
    return [Static(shape, updates.dtype)]


def _scatter_nd(
    xp: ModuleType, indices: Any, updates: Any, *extra: Any, shape: Ints | None
) -> Any:
    shape = given_or_input(shape, extra)
    depth = indices.shape[-1]
    flat = flat_places(xp, indices, shape).reshape(-1)
    tail = tuple(shape[depth:])
    if updates.shape != (*indices.shape[:-1], *tail):
        raise InvalidArgumentError(
            f"updates of {list(updates.shape)} do not fit indices of "
            f"{list(indices.shape)} into {list(shape)}."
        )
    rows = updates.reshape((flat.size, *tail))
    nothing = b"" if updates.dtype == STRING else 0  # texts are joined
    zeros = xp.full((math.prod(shape[:depth]), *tail), nothing, updates.dtype)
    total = segments.scatter("add", xp, zeros, flat, rows, in_place=True)
    return total.reshape(shape)


def _scatter_nd_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    back = make("GatherNd", gradients[0], op.inputs[0])
    return [None, back, *[None] * (len(op.inputs) - 2)]


def _infer_sum_by_index(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    indices, values = inputs
    check_whole(indices)
    tail = None if values.shape is None else (None, *values.shape[1:])
    return [Static((None,), indices.dtype), Static(tail, values.dtype)]


def _sum_by_index(xp: ModuleType, indices: Any, values: Any) -> Any:
    return segments.sum_by_index(xp, values, indices)


register_bound("GatherV2", _infer_gather, _gather, _gather_gradient)
enter("GatherGrad", infer_like(2), _gather_back, _gather_back_gradient)
enter("GatherNd", _infer_gather_nd, _gather_nd, _gather_nd_gradient)
enter(
    *("ScatterNd", _infer_scatter_nd, _scatter_nd, _scatter_nd_gradient), sizes_from=2
)
enter("SumByIndex", _infer_sum_by_index, _sum_by_index, missing, n_outputs=2)
