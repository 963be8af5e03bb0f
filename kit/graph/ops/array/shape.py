"""The same elements in another shape or order, and shapes as values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from kit.graph.arguments import Ints, axes, given_or_input, numbers_or_input
from kit.graph.array_protocol import speaks
from kit.graph.convert import make, tensor
from kit.graph.dtypes import dtype_of
from kit.graph.fold import sizes_of
from kit.graph.op import Op, Tensor
from kit.graph.static import Shape, Static, axis_of, n_elements, text
from kit.graph.table import Attrs, infer_like, register_bound


@speaks(np.reshape)
def reshape(x: Any, shape: Any, name: str | None = None) -> Tensor:
    """Return the elements, row by row, in another shape.

    `shape` is ints or a tensor of them; one may be -1, and is found from the others.
    Raises `ValueError` if the number of elements does not fit.
    """
    attr, extra = numbers_or_input(shape, "the shape")
    return make("Reshape", tensor(x), *extra, shape=attr, name=name)


def transpose(x: Any, perm: Any = None, name: str | None = None) -> Tensor:
    """Return the tensor with its axes in the order `perm`, or reversed."""
    return make("Transpose", tensor(x), perm=axes(perm), name=name)


@speaks(np.expand_dims)
def expand_dims(x: Any, axis: Any, name: str | None = None) -> Tensor:
    """Return the tensor with new axes of size 1, at these places of the result."""
    return make("ExpandDims", tensor(x), axis=axes(axis), name=name)


@speaks(np.squeeze)
def squeeze(x: Any, axis: Any = None, name: str | None = None) -> Tensor:
    """Return the tensor without these axes of size 1, or without all such axes."""
    return make("Squeeze", tensor(x), axis=axes(axis), name=name)


def shape_of(x: Any, dtype: Any = "int32", name: str | None = None) -> Tensor:
    """Return the shape as a tensor."""
    return make("Shape", tensor(x), dtype=dtype_of(dtype), name=name)


def size_of(x: Any, dtype: Any = "int32", name: str | None = None) -> Tensor:
    """Return the number of elements as a tensor."""
    return make("Size", tensor(x), dtype=dtype_of(dtype), name=name)


def rank_of(x: Any, name: str | None = None) -> Tensor:
    """Return the number of axes as a tensor of int32."""
    return make("Rank", tensor(x), dtype=np.dtype(np.int32), name=name)


def _infer_reshape(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    x, sizes = inputs[0], attrs["shape"]
    if sizes is None and inputs[1].value is not None:
        sizes = tuple(inputs[1].value.reshape(-1).tolist())
    if sizes is None:
        wanted = sizes_of(inputs[1])
        if wanted is not None and wanted.count(None) == 1:
            # One unknown size is found as -1 is.
            wanted = _filled(tuple(-1 if n is None else n for n in wanted), x.shape)
        return [Static(wanted, x.dtype)]
    return [Static(_filled(sizes, x.shape), x.dtype)]


def _filled(sizes: Ints, shape: Shape) -> Shape:
    """Return the wanted shape with -1 resolved as far as the number of elements is."""
    if any(size < -1 for size in sizes) or sizes.count(-1) > 1:
        raise ValueError(
            f"{list(sizes)} is not a shape: sizes are not negative, and -1, the size "
            f"to be found, stands once."
        )
    total, rest = n_elements(shape), 1
    for size in sizes:
        rest *= 1 if size == -1 else size
    fits = total is None or (
        total == rest if -1 not in sizes else _divides(rest, total)
    )
    if not fits:
        raise ValueError(
            f"a tensor of {text(shape)} has {total} elements and cannot have the shape "
            f"{list(sizes)}."
        )
    size_left = None if total is None else _missing(sizes, shape or ())
    return tuple(size_left if size == -1 else size for size in sizes)


def _missing(sizes: Sequence[Any], shape: Sequence[Any]) -> int | None:
    """Return the size that is -1; beside a size of 0, that of all others that are not.

    >>> _missing([2, -1], [6, 2]), _missing([0, -1, 3], [0, 6])
    (6, 2)
    """
    has_none = 0 in sizes
    rest = math.prod(size for size in sizes if size > 0)
    total = math.prod(size for size in shape if size or not has_none)
    return total // rest if rest else None


def _divides(part: int, total: int) -> bool:
    return total == 0 if part == 0 else total % part == 0


def _reshape(_: ModuleType, attrs: Attrs) -> Callable[..., Any]:
    shape = attrs["shape"]
    if shape is not None and not (0 in shape and -1 in shape):
        return lambda x: x.reshape(shape)
    return lambda x, *sizes: _reshaped(x, given_or_input(shape, sizes))


def _reshaped(x: Any, sizes: Ints) -> Any:
    if 0 in sizes and -1 in sizes:
        size_left = _missing(sizes, x.shape) or 0
        sizes = tuple(size_left if size == -1 else size for size in sizes)
    return x.reshape(sizes)


def like(g: Any, x: Tensor) -> Any:
    """Return `g` in the shape of `x`, which has as many elements."""
    return make("ReshapeLike", g, x)


def _like_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    return [like(gradients[0], op.inputs[0]), *[None] * (len(op.inputs) - 1)]


def _infer_transpose(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    x, perm = inputs[0], attrs["perm"]
    if x.shape is None:
        return [Static(None if perm is None else (None,) * len(perm), x.dtype)]
    order = tuple(reversed(range(len(x.shape)))) if perm is None else perm
    places = [axis_of(axis, len(x.shape), "a place in perm") for axis in order]
    if sorted(places) != list(range(len(x.shape))):
        raise ValueError(
            f"perm is {list(order)}, but it must name each of the {len(x.shape)} axes "
            f"of {text(x.shape)} once."
        )
    return [Static(tuple(x.shape[i] for i in places), x.dtype)]


def _transpose_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    perm = op.attrs["perm"]
    if perm is not None:
        positive = [i % len(perm) for i in perm]
        perm = tuple(positive.index(i) for i in range(len(perm)))
    return [make("Transpose", gradients[0], perm=perm)]


def _infer_expand(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    x, axis = inputs[0], attrs["axis"]
    if x.shape is None:
        return [Static(None, x.dtype)]
    rank = len(x.shape) + len(axis)
    places = {axis_of(number, rank) for number in axis}
    if len(places) != len(axis):
        raise ValueError(f"the axes {list(axis)} name one axis twice.")
    old = iter(x.shape)
    return [
        Static(tuple(1 if i in places else next(old) for i in range(rank)), x.dtype)
    ]


def _infer_squeeze(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    x, axis = inputs[0], attrs["axis"]
    if x.shape is None or (axis is None and None in x.shape):
        return [Static(None, x.dtype)]
    rank = len(x.shape)
    gone = {i for i in range(rank) if x.shape[i] == 1}
    if axis is not None:
        gone = {axis_of(number, rank) for number in axis}
    for i in gone:
        if x.shape[i] not in (1, None):
            raise ValueError(
                f"axis {i} of {text(x.shape)} has the size {x.shape[i]}; only axes of "
                f"size 1 can be squeezed."
            )
    return [Static(tuple(s for i, s in enumerate(x.shape) if i not in gone), x.dtype)]


def _infer_shape(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    shape, dtype = inputs[0].shape, attrs["dtype"]
    if shape is None:
        return [Static((None,), dtype)]
    if None not in shape:
        return [Static((len(shape),), dtype, np.array(shape, dtype))]
    sizes = np.array([np.nan if size is None else size for size in shape])
    return [Static((len(shape),), dtype, partial=sizes)]


def _infer_size(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    total = n_elements(inputs[0].shape)
    value = None if total is None else np.array(total, attrs["dtype"])
    return [Static((), attrs["dtype"], value)]


def _infer_rank(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    shape = inputs[0].shape
    value = None if shape is None else np.array(len(shape), attrs["dtype"])
    return [Static((), attrs["dtype"], value)]


def _number(ask: Callable[[Any], Any]) -> Callable[..., Any]:
    def bind(xp: ModuleType, attrs: Attrs) -> Callable[..., Any]:
        dtype = attrs["dtype"]
        return lambda x: xp.asarray(ask(x), dtype=dtype)

    return bind


register_bound("Reshape", _infer_reshape, _reshape, _like_gradient, sizes_from=1)
register_bound(
    "ReshapeLike",
    infer_like(1),
    lambda xp, _: lambda g, x: g.reshape(x.shape),
    _like_gradient,
)
register_bound(
    "Transpose",
    _infer_transpose,
    lambda xp, attrs: lambda x: x.transpose(attrs["perm"]),
    _transpose_gradient,
)
register_bound(
    "ExpandDims",
    _infer_expand,
    lambda xp, attrs: lambda x: xp.expand_dims(x, attrs["axis"]),
    _like_gradient,
)
register_bound(
    "Squeeze",
    _infer_squeeze,
    lambda xp, attrs: lambda x: xp.squeeze(x, attrs["axis"]),
    _like_gradient,
)
register_bound("Shape", _infer_shape, _number(lambda x: x.shape), of_shape=True)
register_bound("Size", _infer_size, _number(lambda x: x.size), of_shape=True)
register_bound("Rank", _infer_rank, _number(lambda x: x.ndim), of_shape=True)
