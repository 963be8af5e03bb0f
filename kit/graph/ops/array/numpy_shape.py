"""Shapes, joining and cutting by numpy's names and with its defaults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kit.graph.arguments import axes, numbers
from kit.graph.array_protocol import speaks
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
    for place, one in sorted(zip(new, old, strict=True)):
        order.insert(place, one)
    return transpose(x, order)


@speaks(np.ravel)
def ravel(x: Any) -> Tensor:
    """Return all elements in one axis, row by row."""
    return reshape(x, -1)


@speaks(np.shape)
def shape(x: Any) -> Any:
    """Return the shape: a tuple if every size is known, else a tensor."""
    found = tensor(x)
    known = found.static.shape
    return shape_of(found) if known is None or None in known else known


@speaks(np.ndim)
def ndim(x: Any) -> int:
    """Return the number of axes, which must be known."""
    return _rank(x)


@speaks(np.size)
def size(x: Any, axis: int | None = None) -> Any:
    """Return the number of elements, or along an axis: an int, a tensor if unknown."""
    found = tensor(x)
    if axis is None:
        total = n_elements(found.static.shape)
        return size_of(found) if total is None else total
    known = found.static.shape
    one = None if known is None else known[axis_of(axis, len(known))]
    return shape_of(found)[axis] if one is None else one


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
    found = tensor(x)
    place = axis_of(axis, _rank(found))
    if cuts is None:
        raise ValueError(
            "the indices of a split must be known when the line is written."
        )
    before = (slice(None),) * place
    edges = (*cuts, None)
    return [
        found[(*before, slice(a, b))] for a, b in zip((0, *cuts), edges, strict=True)
    ]


@speaks(np.take)
def take(x: Any, indices: Any, axis: int | None = None) -> Tensor:
    """Return the slices along an axis that integers name; without one, elements."""
    found = tensor(x) if axis is not None else ravel(x)
    place = axis_of(axis or 0, _rank(found))
    return gather(found, from_the_start(indices, found, place), place)


@speaks(np.tile)
def tiled(A: Any, reps: Any) -> Tensor:
    """Return the tensor repeated along its last axes, or along new first ones."""
    times, found = numbers(reps), tensor(A)
    if times is None:
        return tile(found, reps)
    rank = _rank(found)
    if len(times) > rank:
        found = expand_dims(found, list(range(len(times) - rank)))
    return tile(found, (1,) * (rank - len(times)) + times)


@speaks(np.pad)
def padded(
    x: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0
) -> Tensor:
    """Return the tensor with more elements at its edges."""
    found = tensor(x)
    if hasattr(pad_width, "_as_tensor"):
        return pad.pad(found, pad_width, mode, constant_values)
    rows = np.broadcast_to(np.asarray(pad_width), (_rank(found), 2))
    return pad.pad(found, rows, mode, constant_values)


@speaks(np.flip)
def flip(x: Any, axis: Any = None) -> Tensor:
    """Return the elements along some axes, or all, in reverse order."""
    return pad.reverse(x, range(_rank(x)) if axis is None else axis)


def _rank(x: Any) -> int:
    known = tensor(x).static.shape
    if known is None:
        raise ValueError(
            f"{x!r} has an unknown number of axes; set its shape with set_shape first."
        )
    return len(known)


def _at_least_2d(x: Tensor) -> Tensor:
    return x if _rank(x) > 1 else reshape(x, (1, -1))
