"""Shapes, joining and cutting by numpy's names and with its defaults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kit.graph.arguments import axes, numbers
from kit.graph.array_protocol import ArrayProtocol, speaks
from kit.graph.convert import operands, tensor
from kit.graph.op import Tensor
from kit.graph.ops.array import join, pad
from kit.graph.ops.array.broadcast import tile
from kit.graph.ops.array.rows import from_the_start, gather
from kit.graph.ops.array.shape import (
    expand_dims,
    reshape,
    shape_of,
    size_of,
    transpose,
)
from kit.graph.ops.math.cast import cast
from kit.graph.static import axis_of, n_elements


@speaks(np.transpose)
def transposed(x: Any, axes: Any = None) -> Tensor:
    """Return the tensor with its axes in another order, or reversed."""
    return transpose(x, axes)


@speaks(np.swapaxes)
def swapaxes(x: Any, axis1: int, axis2: int) -> Tensor:
    """Return the tensor with two axes exchanged."""
    order = list(range(_rank(x)))
    a, b = axis_of(axis1, len(order)), axis_of(axis2, len(order))
    order[a], order[b] = order[b], order[a]
    return transpose(x, order)


@speaks(np.moveaxis)
def moveaxis(x: Any, source: Any, destination: Any) -> Tensor:
    """Return the tensor with some axes moved to other places."""
    rank = _rank(x)
    old = [axis_of(axis, rank) for axis in axes(source) or ()]
    new = [axis_of(axis, rank) for axis in axes(destination) or ()]
    order = [i for i in range(rank) if i not in old]
    for target, axis in sorted(zip(new, old, strict=True)):
        order.insert(target, axis)
    return transpose(x, order)


@speaks(np.ravel)
def ravel(x: Any) -> Tensor:
    """Return all elements in one axis, row by row."""
    return reshape(x, -1)


@speaks(np.shape)
def shape(x: Any) -> Any:
    """Return the shape: a tuple if every size is known, else a tensor."""
    operand = tensor(x)
    sizes = operand.static.shape
    return shape_of(operand) if sizes is None or None in sizes else sizes


@speaks(np.ndim)
def ndim(x: Any) -> int:
    """Return the number of axes, which must be known."""
    return _rank(x)


@speaks(np.size)
def size(x: Any, axis: int | None = None) -> Any:
    """Return the number of elements, or along an axis: an int, a tensor if unknown."""
    operand = tensor(x)
    if axis is None:
        total = n_elements(operand.static.shape)
        return size_of(operand) if total is None else total
    sizes = operand.static.shape
    length = None if sizes is None else sizes[axis_of(axis, len(sizes))]
    return shape_of(operand)[axis] if length is None else length


@speaks(np.concatenate)
def concatenate(xs: Sequence[Any], axis: int | None = 0, dtype: Any = None) -> Tensor:
    """Return tensors joined along an axis; without one, all elements in a row."""
    parts = xs if axis is not None else [ravel(x) for x in xs]
    joined = join.concat(parts, 0 if axis is None else axis)
    return joined if dtype is None else cast(joined, dtype)


speaks(np.stack)(join.stack)


@speaks(np.vstack)
def vstack(xs: Sequence[Any]) -> Tensor:
    """Return tensors one below the other; vectors are rows."""
    return join.concat([_at_least_2d(x) for x in operands(*xs)], 0)


@speaks(np.hstack)
def hstack(xs: Sequence[Any]) -> Tensor:
    """Return tensors beside each other; vectors one after the other."""
    parts = [reshape(x, -1) if not _rank(x) else x for x in operands(*xs)]
    return join.concat(parts, 0 if _rank(parts[0]) == 1 else 1)


@speaks(np.split)
def split(x: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """Return a number of equal parts, or the parts between these indices."""
    if isinstance(indices_or_sections, int | np.integer):
        return join.split(x, int(indices_or_sections), axis)
    cuts = numbers(indices_or_sections)
    operand = tensor(x)
    position = axis_of(axis, _rank(operand))
    if cuts is None:
        raise ValueError(
            "the indices of a split must be known when the line is written."
        )
    before = (slice(None),) * position
    edges = (*cuts, None)
    return [
        operand[(*before, slice(a, b))] for a, b in zip((0, *cuts), edges, strict=True)
    ]


@speaks(np.take)
def take(x: Any, indices: Any, axis: int | None = None) -> Tensor:
    """Return the slices along an axis that integers name; without one, elements."""
    operand = tensor(x) if axis is not None else ravel(x)
    position = axis_of(axis or 0, _rank(operand))
    return gather(operand, from_the_start(indices, operand, position), position)


@speaks(np.tile)
def tiled(A: Any, reps: Any) -> Tensor:
    """Return the tensor repeated along its last axes, or along new first ones."""
    times, operand = numbers(reps), tensor(A)
    if times is None:
        return tile(operand, reps)
    rank = _rank(operand)
    if len(times) > rank:
        operand = expand_dims(operand, list(range(len(times) - rank)))
    return tile(operand, (1,) * (rank - len(times)) + times)


@speaks(np.pad)
def padded(
    x: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0
) -> Tensor:
    """Return the tensor with more elements at its edges."""
    operand = tensor(x)
    if isinstance(pad_width, ArrayProtocol):
        return pad.pad(operand, pad_width, mode, constant_values)
    rows = np.broadcast_to(np.asarray(pad_width), (_rank(operand), 2))
    return pad.pad(operand, rows, mode, constant_values)


@speaks(np.flip)
def flip(x: Any, axis: Any = None) -> Tensor:
    """Return the elements along some axes, or all, in reverse order."""
    return pad.reverse(x, range(_rank(x)) if axis is None else axis)


def _rank(x: Any) -> int:
    sizes = tensor(x).static.shape
    if sizes is None:
        raise ValueError(
            f"{x!r} has an unknown number of axes; set its shape with set_shape first."
        )
    return len(sizes)


def _at_least_2d(x: Tensor) -> Tensor:
    return x if _rank(x) > 1 else reshape(x, (1, -1))
