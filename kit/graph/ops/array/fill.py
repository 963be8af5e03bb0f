"""Tensors made from few numbers: fills, sequences, one-hot rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from kit.bfloat16 import kind_of
from kit.graph.arguments import Ints, given_or_input, number, numbers, numbers_or_input
from kit.graph.array_protocol import ArrayProtocol, speaks
from kit.graph.convert import make, operands, tensor
from kit.graph.default import graph_of
from kit.graph.dtypes import STRING, DType, dtype_of, name_of
from kit.graph.fold import sizes_of
from kit.graph.op import Op, Tensor
from kit.graph.ops.math.cast import cast
from kit.graph.static import Static, axis_of
from kit.graph.table import Attrs, enter, register_bound


def fill(shape: Any, value: Any, name: str | None = None) -> Tensor:
    """Return a tensor of this shape with one value everywhere.

    `shape` is ints or a tensor of them, `value` has no axes.
    """
    attr, extra = numbers_or_input(shape, "the shape")
    return make("Fill", tensor(value), *extra, shape=attr, name=name)


def zeros(shape: Any, dtype: Any = "float32", name: str | None = None) -> Tensor:
    """Return a tensor of zeros; texts are empty."""
    wanted = dtype_of(dtype)
    return fill(shape, _of(0, wanted), name=name)


def ones(shape: Any, dtype: Any = "float32", name: str | None = None) -> Tensor:
    """Return a tensor of ones."""
    return fill(shape, _of(1, dtype_of(dtype)), name=name)


def _of(number: int, dtype: DType) -> Any:
    if dtype == STRING:
        return np.array(b"" if not number else b"1", object)
    return np.array(number, dtype)


@speaks(np.zeros_like)
def zeros_like(x: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """Return zeros in the shape and dtype of `x`, or in another dtype."""
    return _same_shape("ZerosLike", x, dtype, name)


@speaks(np.ones_like)
def ones_like(x: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """Return ones in the shape and dtype of `x`, or in another dtype."""
    return _same_shape("OnesLike", x, dtype, name)


@speaks(np.full_like)
def full_like(
    x: Any, fill_value: Any, dtype: Any = None, name: str | None = None
) -> Tensor:
    """Return a tensor in the shape of `x` with one value everywhere."""
    like = tensor(x)
    wanted = like.static.dtype if dtype is None else dtype_of(dtype)
    if isinstance(fill_value, ArrayProtocol):
        value = cast(fill_value, wanted)
    else:
        value = tensor(np.asarray(fill_value).astype(wanted))
    return make("BroadcastLike", value, like, name=name)


def arange(
    start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, name: Any = None
) -> Tensor:
    """Return start, start + step, ... below stop; with one bound it begins at 0."""
    if stop is None:
        start, stop = 0, start
    limits = [start, stop, step]
    if dtype is not None and kind_of(dtype_of(dtype)) == "f":
        # At once: a float32 in between would be another number in float64.
        graph = graph_of(limits)
        limits = [
            cast(bound, dtype)
            if isinstance(bound, ArrayProtocol)
            else tensor(np.asarray(bound, dtype_of(dtype)), graph=graph)
            for bound in limits
        ]
    bounds = operands(*limits)
    if dtype is not None:
        bounds = [cast(bound, dtype) for bound in bounds]
    return make("Range", *bounds, name=name)


def linspace(start: Any, stop: Any, num: Any, name: str | None = None) -> Tensor:
    """Return `num` numbers from start to stop, both included, equally far apart."""
    return make("LinSpace", *operands(start, stop), num=number(num, "num"), name=name)


def eye(
    rows: Any, columns: Any = None, dtype: Any = "float32", name: str | None = None
) -> Tensor:
    """Return a matrix with ones on the diagonal and zeros elsewhere."""
    n = number(rows, "the number of rows")
    m = n if columns is None else number(columns, "the number of columns")
    return make("Eye", shape=(n, m), dtype=dtype_of(dtype), name=name)


def one_hot(
    indices: Any,
    depth: Any,
    on_value: Any = 1,
    off_value: Any = 0,
    axis: int = -1,
    dtype: Any = "float32",
    name: str | None = None,
) -> Tensor:
    """Return `on_value` at each index along a new axis of size `depth`, else the other.

    An index that is out of range has no place: its row is off everywhere.
    """
    size = numbers(depth)
    extra = [] if size is not None else [tensor(depth)]
    attrs = {
        "depth": None if size is None else number(depth, "depth"),
        "axis": number(axis, "the axis"),
    }
    wanted = dtype_of(dtype)
    values = [
        cast(value, wanted)
        if isinstance(value, ArrayProtocol)
        else tensor(value, wanted)
        for value in (on_value, off_value)
    ]
    return make("OneHot", tensor(indices), *values, *extra, name=name, **attrs)


def _same_shape(op_type: str, x: Any, dtype: Any, name: str | None) -> Tensor:
    operand = tensor(x)
    wanted = operand.static.dtype if dtype is None else dtype_of(dtype)
    return make(op_type, operand, dtype=wanted, name=name)


def _infer_fill(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    sizes = attrs["shape"]
    if inputs[0].shape not in ((), None):
        raise ValueError("fill takes one value, without axes; use broadcast_to.")
    if sizes is not None and any(size < 0 for size in sizes):
        raise ValueError(f"{list(sizes)} is not a shape: sizes are not negative.")
    return [Static(sizes_of(inputs[1]) if sizes is None else sizes, inputs[0].dtype)]


def _fill(xp: ModuleType, value: Any, *extra: Any, shape: Ints | None) -> Any:
    out = xp.empty(given_or_input(shape, extra), value.dtype)
    out[...] = value
    return out


def _fill_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    whole = make("Sum", gradients[0], axis=None, keepdims=False)
    return [whole, *[None] * (len(op.inputs) - 1)]


def _infer_like(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    return [Static(inputs[0].shape, attrs.get("dtype", inputs[0].dtype))]


def _all(number: int) -> Callable[..., Any]:
    def bind(xp: ModuleType, attrs: Attrs) -> Callable[..., Any]:
        make_all = xp.ones if number else xp.zeros
        wanted = attrs.get("dtype")
        if wanted == STRING:
            return lambda x: np.full(x.shape, b"1" if number else b"", object)
        return lambda x: make_all(x.shape, x.dtype if wanted is None else wanted)

    return bind


def _infer_range(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    dtype = inputs[0].dtype
    if any(static.shape not in ((), None) for static in inputs):
        raise ValueError("the bounds of a range are numbers, without axes.")
    if kind_of(dtype) not in "iuf":
        raise TypeError(f"a range is of numbers, not of {name_of(dtype)}.")
    values = [static.value for static in inputs]
    if any(value is None for value in values):
        return [Static((None,), dtype)]
    first, last, by = _bounds(*values)
    # Not by making it: it may be too long for the memory of this process.
    is_whole = dtype.kind in "iu"
    size = -((first - last) // by) if is_whole else math.ceil((last - first) / by)
    return [Static((size,), dtype)]


def _range(xp: ModuleType, start: Any, stop: Any, step: Any) -> Any:
    return xp.arange(*_bounds(start, stop, step), dtype=start.dtype)


def _bounds(start: Any, stop: Any, step: Any) -> tuple[Any, Any, Any]:
    first, last, by = start.item(), stop.item(), step.item()
    if by == 0 or (first > last and by > 0) or (first < last and by < 0):
        raise ValueError(
            f"a range from {first} to {last} cannot go by {by}; the step must lead "
            f"from the first to the last."
        )
    if not math.isfinite((last - first) / by):
        raise ValueError(f"a range from {first} to {last} by {by} has no end.")
    return first, last, by


def _infer_linspace(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    if kind_of(inputs[0].dtype) != "f":
        raise TypeError(f"linspace makes floats, not {name_of(inputs[0].dtype)}.")
    if attrs["num"] < 1:
        raise ValueError(f"num is {attrs['num']}; linspace has at least one number.")
    return [Static((attrs["num"],), inputs[0].dtype)]


def _linspace(xp: ModuleType, start: Any, stop: Any, *, num: int) -> Any:
    return xp.linspace(start.item(), stop.item(), num, dtype=start.dtype)


def _infer_one_hot(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    indices, on, depth = inputs[0], inputs[1], attrs["depth"]
    if indices.dtype.kind not in "iu":
        raise TypeError(f"indices are integers, not {name_of(indices.dtype)}.")
    if depth is None and inputs[3].value is not None:
        depth = int(inputs[3].value)
    if depth is not None and depth < 0:
        raise ValueError(f"depth is {depth}; it cannot be negative.")
    if indices.shape is None:
        return [Static(None, on.dtype)]
    position = axis_of(attrs["axis"], len(indices.shape) + 1)
    shape = (*indices.shape[:position], depth, *indices.shape[position:])
    return [Static(shape, on.dtype)]


def _one_hot(
    xp: ModuleType,
    indices: Any,
    on: Any,
    off: Any,
    *extra: Any,
    depth: int | None,
    axis: int,
) -> Any:
    classes = xp.arange(int(extra[0]) if depth is None else depth)
    position = axis % (indices.ndim + 1)
    shape = [1] * (indices.ndim + 1)
    shape[position] = -1
    is_on = xp.expand_dims(indices, position) == classes.reshape(shape)
    return xp.where(is_on, on, off)


def _eye(xp: ModuleType, *, shape: Ints, dtype: DType) -> Any:
    return xp.eye(*shape, dtype=dtype)


enter("Fill", _infer_fill, _fill, _fill_gradient, sizes_from=1)
register_bound("ZerosLike", _infer_like, _all(0))
register_bound("OnesLike", _infer_like, _all(1))
register_bound(
    "Range", _infer_range, lambda xp, _: lambda *b: _range(xp, *b), sizes_from=0
)
enter("LinSpace", _infer_linspace, _linspace, sizes_from=0)
enter("OneHot", _infer_one_hot, _one_hot, sizes_from=3)
enter("Eye", lambda _, attrs: [Static(attrs["shape"], attrs["dtype"])], _eye)
