"""Padding, and elements in reverse order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from kit.graph.arguments import Ints, axes, given_or_input, numbers_or_input
from kit.graph.convert import make, tensor
from kit.graph.dtypes import STRING, Array, DType, to_array
from kit.graph.fold import sizes_of
from kit.graph.op import Op, Tensor
from kit.graph.static import Shape, Static, axis_of, text
from kit.graph.table import Attrs, enter, infer_like, register_bound

# Least number of elements that must be left for an edge of 0 to be mirrored.
_MIRRORS = {"reflect": 1, "symmetric": 0}


def pad(
    x: Any,
    paddings: Any,
    mode: str = "constant",
    constant_values: Any = 0,
    name: str | None = None,
) -> Tensor:
    """Return the tensor with more elements before and after it along each axis.

    `paddings` has a row (before, after) for each axis: ints, or a tensor [axes, 2].
    `mode` is constant, reflect (without the edge) or symmetric (with the edge).
    """
    mode = mode.lower()
    if mode not in ("constant", *_MIRRORS):
        raise ValueError(f"mode is {mode!r}; give constant, reflect or symmetric.")
    operand = tensor(x)
    attr, extra = numbers_or_input(_flat(paddings), "paddings")
    if extra and extra[0].static.shape not in (None, (None, 2)):
        _check_rows(extra[0].static.shape, operand.static.shape)
    fill = _fill(constant_values, operand.static.dtype)
    return make("Pad", operand, *extra, name=name, paddings=attr, mode=mode, fill=fill)


def reverse(x: Any, axis: Any, name: str | None = None) -> Tensor:
    """Return the tensor with the elements along some axes in reverse order."""
    return make("ReverseV2", tensor(x), axis=axes(axis) or (), name=name)


def _fill(value: Any, dtype: DType) -> Array:
    if dtype == STRING and value == 0:
        value = b""
    return to_array(value, STRING) if dtype == STRING else np.asarray(value, dtype)


def _flat(paddings: Any) -> Any:
    if isinstance(paddings, list | tuple | np.ndarray):
        rows = [list(padding) for padding in paddings]
        if any(len(row) != 2 for row in rows):
            raise ValueError(
                f"paddings is {paddings!r}; give (before, after) per axis."
            )
        return [number for row in rows for number in row]
    return paddings


def _check_rows(shape: Shape, x: Shape) -> None:
    rank = None if x is None else len(x)
    if shape is None or len(shape) == 1:
        return
    if len(shape) != 2 or shape[1] != 2 or (rank is not None and shape[0] != rank):
        raise ValueError(f"paddings of {text(shape)} do not fit {text(x)}: [axes, 2].")


def _infer(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    x, paddings = inputs[0], attrs["paddings"]
    flat: Shape = sizes_of(inputs[1]) if paddings is None else paddings
    if x.shape is None:
        return [Static(None if flat is None else (None,) * (len(flat) // 2), x.dtype)]
    if flat is None or (paddings is None and len(flat) != 2 * len(x.shape)):
        return [Static((None,) * len(x.shape), x.dtype)]
    if len(flat) != 2 * len(x.shape):
        raise ValueError(
            f"paddings has {len(flat) // 2} rows for the {len(x.shape)} axes of "
            f"{text(x.shape)}."
        )
    edges = zip(flat[::2], flat[1::2], x.shape, strict=True)
    return [Static(tuple(_grown(*edge, attrs["mode"]) for edge in edges), x.dtype)]


def _grown(
    before: int | None, after: int | None, size: int | None, mode: str
) -> int | None:
    for amount in (before, after):
        if amount is not None and amount < 0:
            raise ValueError(f"an axis cannot be padded by {amount} elements.")
        if None not in (amount, size) and mode in _MIRRORS:
            most = (size or 0) - _MIRRORS[mode]
            if amount is not None and amount > most:
                raise ValueError(
                    f"{amount} elements cannot be mirrored ({mode}) from an axis of "
                    f"{size}; at most {most} can."
                )
    return (
        None
        if None in (before, after, size)
        else (before or 0) + (after or 0) + (size or 0)
    )


def _rows(paddings: Ints | None, extra: Sequence[Any]) -> list[tuple[int, int]]:
    flat = given_or_input(paddings, extra)
    return list(zip(flat[::2], flat[1::2], strict=True))


def _pad(xp: ModuleType, attrs: Attrs) -> Callable[..., Any]:
    mode, fill = attrs["mode"], attrs["fill"].item()

    def compute(x: Any, *extra: Any) -> Any:
        rows = _rows(attrs["paddings"], extra)
        if mode != "constant":
            for edges, size in zip(rows, x.shape, strict=True):
                _grown(*edges, size, mode)
            return xp.pad(x, rows, mode)
        sizes = [a + n + b for (a, b), n in zip(rows, x.shape, strict=True)]
        out = xp.full(sizes, fill, x.dtype)
        out[_inside(rows, x.shape)] = x
        return out

    return compute


def _inside(rows: Sequence[tuple[int, int]], shape: Sequence[int]) -> tuple[Any, ...]:
    return tuple(
        slice(before, before + size)
        for (before, _), size in zip(rows, shape, strict=True)
    )


def _gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    attrs = {key: op.attrs[key] for key in ("paddings", "mode")}
    back = make("PadGrad", gradients[0], *op.inputs, **attrs)
    return [back, *[None] * (len(op.inputs) - 1)]


def _pad_back(
    xp: ModuleType, g: Any, x: Any, *extra: Any, paddings: Ints | None, mode: str
) -> Any:
    rows = _rows(paddings, extra)
    for axis, (before, after) in enumerate(rows):
        turned = xp.moveaxis(g, axis, 0)
        size = x.shape[axis]
        part = turned[before : before + size]
        if mode in _MIRRORS and (before or after):
            part, skip = part.copy(), _MIRRORS[mode]
            part[skip : skip + before] += turned[:before][::-1]
            end = size - skip
            part[end - after : end] += turned[before + size :][::-1]
        g = xp.moveaxis(part, 0, axis)
    return g


def _pad_back_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    fill = np.zeros((), op.inputs[0].static.dtype)
    attrs = {key: op.attrs[key] for key in ("paddings", "mode")}
    again = make("Pad", gradients[0], *op.inputs[2:], fill=fill, **attrs)
    return [again, *[None] * (len(op.inputs) - 1)]


def _infer_reverse(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    shape = inputs[0].shape
    if shape is not None:
        places = [axis_of(axis, len(shape)) for axis in attrs["axis"]]
        if len(set(places)) != len(places):
            raise ValueError(f"the axes {list(attrs['axis'])} name one axis twice.")
    return [Static(shape, inputs[0].dtype)]


def _reverse(_: ModuleType, x: Any, *, axis: Ints) -> Any:
    gone = {item % x.ndim for item in axis}
    turn = slice(None, None, -1)
    return x[tuple(turn if i in gone else slice(None) for i in range(x.ndim))]


def _reverse_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    return [make("ReverseV2", gradients[0], axis=op.attrs["axis"])]


register_bound("Pad", _infer, _pad, _gradient, sizes_from=1)
enter("PadGrad", infer_like(1), _pad_back, _pad_back_gradient)
enter("ReverseV2", _infer_reverse, _reverse, _reverse_gradient)
