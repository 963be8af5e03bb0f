"""Sums of all elements up to each one, along an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from kit.graph.arguments import number
from kit.graph.array_protocol import speaks
from kit.graph.convert import make, tensor
from kit.graph.dtypes import name_of
from kit.graph.op import Op, Tensor
from kit.graph.ops.array.shape import reshape
from kit.graph.ops.math.cast import cast
from kit.graph.static import Static, axis_of
from kit.graph.table import Attrs, register_bound


@speaks(np.cumsum)
def cumsum_of(x: Any, axis: Any = None, dtype: Any = None) -> Tensor:
    """Return the sums up to each element, in the dtype of numpy's; None: of a row."""
    found = tensor(x)
    wanted = dtype or np.add.reduce(np.zeros(1, found.static.dtype)).dtype
    found = cast(found, wanted)
    return cumsum(reshape(found, [-1]), 0) if axis is None else cumsum(found, axis)


def cumsum(
    x: Any,
    axis: Any = 0,
    exclusive: bool = False,
    reverse: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return the running sums along an axis.

    `exclusive` leaves the element itself out; `reverse` adds from the end.
    """
    attrs = {"axis": number(axis, "the axis")}
    attrs |= {"exclusive": bool(exclusive), "reverse": bool(reverse)}
    return make("Cumsum", tensor(x), name=name, **attrs)


def _infer(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    shape, dtype = inputs[0].shape, inputs[0].dtype
    if dtype.kind not in "iufc":
        raise TypeError(f"{name_of(dtype)} cannot be added up; cast it first.")
    if shape is not None:
        axis_of(attrs["axis"], len(shape))
    return [Static(shape, dtype)]


def _bind(xp: ModuleType, attrs: Attrs) -> Callable[..., Any]:
    axis, is_exclusive = attrs["axis"], attrs["exclusive"]

    def forwards(x: Any) -> Any:
        found = xp.cumsum(x, axis=axis, dtype=x.dtype)
        if not is_exclusive or not found.shape[axis]:
            return found
        # Not found - x: what is infinite or rounded off would stay in it.
        shifted, whole = xp.zeros_like(found), [slice(None)] * found.ndim
        from_second, to_last = list(whole), list(whole)
        from_second[axis], to_last[axis] = slice(1, None), slice(None, -1)
        shifted[tuple(from_second)] = found[tuple(to_last)]
        return shifted

    if not attrs["reverse"]:
        return forwards
    return lambda x: xp.flip(forwards(xp.flip(x, axis)), axis)


def _gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    attrs = {**op.attrs, "reverse": not op.attrs["reverse"]}
    return [make("Cumsum", gradients[0], **attrs)]


register_bound("Cumsum", _infer, _bind, _gradient)
