"""A tensor repeated along axes: by a shape, by another tensor, or a number of times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from kit.graph.arguments import Ints, given_or_input, numbers_or_input
from kit.graph.array_protocol import speaks
from kit.graph.convert import make, tensor
from kit.graph.fold import sizes_of
from kit.graph.op import Op, Tensor
from kit.graph.ops.math.elementwise import sum_like
from kit.graph.static import Shape, Static, broadcast, text
from kit.graph.table import Attrs, enter, infer_like, register_bound


@speaks(np.broadcast_to)
def broadcast_to(x: Any, shape: Any, name: str | None = None) -> Tensor:
    """Return the tensor repeated so that it has this shape; a copy of that size."""
    attr, extra = numbers_or_input(shape, "the shape")
    return make("BroadcastTo", tensor(x), *extra, shape=attr, name=name)


def tile(x: Any, multiples: Any, name: str | None = None) -> Tensor:
    """Return the tensor repeated a number of times along each axis.

    Raises `ValueError` unless there is a number for each axis.
    """
    attr, extra = numbers_or_input(multiples, "multiples")
    return make("Tile", tensor(x), *extra, multiples=attr, name=name)


def _infer_to(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    x, wanted = inputs[0], attrs["shape"]
    shape: Shape = sizes_of(inputs[1]) if wanted is None else wanted
    if shape is not None and x.shape is not None:
        common = broadcast(x.shape, shape, "a tensor and its new shape")
        if common is None or len(common) != len(shape) or _grows(shape, common):
            raise ValueError(
                f"a tensor of {text(x.shape)} cannot be repeated to {text(shape)}."
            )
    return [Static(shape, x.dtype)]


def _grows(shape: Sequence[int | None], common: Sequence[int | None]) -> bool:
    return any(
        a is not None and b is not None and a != b
        for a, b in zip(shape, common, strict=True)
    )


def _fill_out(xp: ModuleType, x: Any, shape: Ints) -> Any:
    # A copy, not a view of stride 0, on which a product of matrices is very slow.
    out = xp.empty(shape, x.dtype)
    out[...] = x
    return out


def _to(xp: ModuleType, attrs: Attrs) -> Callable[..., Any]:
    wanted = attrs["shape"]
    return lambda x, *extra: _fill_out(xp, x, given_or_input(wanted, extra))


def _to_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    return [sum_like(gradients[0], op.inputs[0]), *[None] * (len(op.inputs) - 1)]


def _like(xp: ModuleType, _: Attrs) -> Callable[..., Any]:
    return lambda g, x: g if g.shape == x.shape else _fill_out(xp, g, x.shape)


def _infer_tile(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    x, multiples = inputs[0], attrs["multiples"]
    times: Shape = sizes_of(inputs[1]) if multiples is None else multiples
    if x.shape is None or times is None:
        sizes = x.shape if times is None else times
        return [Static(sizes and (None,) * len(sizes), x.dtype)]
    if len(times) != len(x.shape):
        raise ValueError(
            f"multiples has {len(times)} numbers for the {len(x.shape)} axes of "
            f"{text(x.shape)}; give one for each."
        )
    if multiples is not None and any(size < 0 for size in multiples):
        raise ValueError(
            f"multiples is {list(multiples)}; nothing repeats less than 0 times."
        )
    shape = tuple(
        None if size is None or n is None else size * n
        for size, n in zip(x.shape, times, strict=True)
    )
    return [Static(shape, x.dtype)]


def _tile(xp: ModuleType, attrs: Attrs) -> Callable[..., Any]:
    times = attrs["multiples"]
    return lambda x, *extra: xp.tile(x, given_or_input(times, extra))


def _tile_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    folded = make("SumOfTiles", gradients[0], op.inputs[0])
    return [folded, *[None] * (len(op.inputs) - 1)]


def _sum_of_tiles(_: ModuleType, g: Any, x: Any) -> Any:
    parts: list[int] = []
    for all_of_it, size in zip(g.shape, x.shape, strict=True):
        parts += [all_of_it // max(size, 1), size]
    return g.reshape(parts).sum(axis=tuple(range(0, len(parts), 2)), dtype=g.dtype)


def _sum_of_tiles_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    return [make("TileLike", gradients[0], op.inputs[0]), None]


def _tile_like(xp: ModuleType, x: Any, whole: Any) -> Any:
    pairs = zip(whole.shape, x.shape, strict=True)
    return xp.tile(x, [total // max(size, 1) for total, size in pairs])


def _tile_like_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    return [make("SumOfTiles", gradients[0], op.inputs[0]), None]


register_bound("BroadcastTo", _infer_to, _to, _to_gradient, sizes_from=1)
register_bound("BroadcastLike", infer_like(1), _like, _to_gradient)
register_bound("Tile", _infer_tile, _tile, _tile_gradient, sizes_from=1)
enter("SumOfTiles", infer_like(1), _sum_of_tiles, _sum_of_tiles_gradient)
enter("TileLike", infer_like(1), _tile_like, _tile_like_gradient)
