"""Where the greatest or least element of an axis is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from kit.graph.arguments import number
from kit.graph.array_protocol import speaks
from kit.graph.convert import make, tensor
from kit.graph.dtypes import STRING, dtype_of
from kit.graph.op import Tensor
from kit.graph.ops.math.reduce import reduced
from kit.graph.static import Static
from kit.graph.table import Attrs, register_bound


@speaks(np.argmax)
def argmax(
    x: Any,
    axis: Any = None,
    dtype: Any = "int64",
    keepdims: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return the index of the first greatest element; without axis of all elements."""
    return _build("ArgMax", x, axis, dtype, keepdims, name)


@speaks(np.argmin)
def argmin(
    x: Any,
    axis: Any = None,
    dtype: Any = "int64",
    keepdims: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return the index of the first least element; without axis of all elements."""
    return _build("ArgMin", x, axis, dtype, keepdims, name)


def _build(
    op_type: str, x: Any, axis: Any, dtype: Any, keepdims: bool, name: str | None
) -> Tensor:
    attrs = {
        "axis": None if axis is None else number(axis, "the axis"),
        "dtype": dtype_of(dtype),
        "keepdims": bool(keepdims),
    }
    return make(op_type, tensor(x), name=name, **attrs)


def _infer(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    if inputs[0].dtype == STRING:
        raise TypeError("texts have no greatest and no least element here.")
    axis = None if attrs["axis"] is None else (attrs["axis"],)
    shape = reduced(inputs[0].shape, axis, attrs.get("keepdims", False))
    return [Static(shape, attrs["dtype"])]


def _binder(function: str) -> Callable[..., Any]:
    def bind(xp: ModuleType, attrs: Attrs) -> Callable[..., Any]:
        find, axis = getattr(xp, function), attrs["axis"]
        dtype, keep = attrs["dtype"], attrs.get("keepdims", False)
        return lambda x: find(x, axis=axis, keepdims=keep).astype(dtype, copy=False)

    return bind


register_bound("ArgMax", _infer, _binder("argmax"))
register_bound("ArgMin", _infer, _binder("argmin"))
