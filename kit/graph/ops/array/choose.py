"""One of two values, element by element: by a condition, or by bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from kit.bfloat16 import kind_of
from kit.graph.array_protocol import speaks
from kit.graph.convert import make, operands, tensor
from kit.graph.dtypes import name_of
from kit.graph.op import Op, Tensor
from kit.graph.ops.math.arithmetic import maximum, minimum
from kit.graph.ops.math.elementwise import sum_like, zero_for
from kit.graph.static import Shape, Static, broadcast, same_dtype, text
from kit.graph.table import Attrs, enter, register_bound


@speaks(np.where)
def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """Return x where the condition holds and y elsewhere, all broadcast.

    Without x and y, return the places where the condition holds, as `argwhere`.
    """
    if x is None and y is None:
        return argwhere(condition, name=name)
    return select(condition, x, y, name=name)


def select(
    condition: Any, x: Any, y: Any, rows: bool = False, name: str | None = None
) -> Tensor:
    """Return x where the condition holds and y elsewhere.

    With `rows` a condition of shape [n] chooses among the n rows of x and y. Raises
    `TypeError` for a condition that is not bool.
    """
    return make("Select", tensor(condition), *operands(x, y), rows=rows, name=name)


@speaks(np.argwhere)
def argwhere(condition: Any, name: str | None = None) -> Tensor:
    """Return the indices of all true elements, an int64 matrix with one row each."""
    return make("Where", tensor(condition), name=name)


@speaks(np.clip)
def clip(
    x: Any,
    a_min: Any = None,
    a_max: Any = None,
    name: str | None = None,
    **keywords: Any,
) -> Tensor:
    """Return x with all below `a_min` raised to it, and all above `a_max` lowered.

    A bound of None bounds nothing. `min` and `max` are other names of the bounds.
    """
    low, high = keywords.pop("min", a_min), keywords.pop("max", a_max)
    if keywords:
        raise TypeError(f"clip does not take {', '.join(keywords)}.")
    if low is None and high is None:
        return tensor(x)
    if low is None:
        return minimum(x, high, name=name)
    if high is None:
        return maximum(x, low, name=name)
    return make("ClipByValue", *operands(x, low, high), name=name)


def _aligned(condition: Shape, x: Shape, rows: bool) -> Shape:
    """Return the shape of the condition when it is set beside x."""
    if not rows or condition is None or x is None or len(condition) != 1:
        return condition
    return (*condition, *(1,) * (len(x) - 1))


def _infer_select(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    condition, x, y = inputs
    if condition.dtype.kind != "b":
        raise TypeError(
            f"the condition is {name_of(condition.dtype)}; compare it first, for "
            f"example x > 0."
        )
    dtype, rows = same_dtype(inputs[1:], "a choice"), attrs.get("rows", False)
    if rows and condition.shape is not None and x.shape is not None:
        n = condition.shape[0] if condition.shape else None
        if len(condition.shape) == 1 and x.shape[:1] not in ((n,), (None,)) and n:
            raise ValueError(
                f"a condition of {text(condition.shape)} cannot choose among the rows "
                f"of {text(x.shape)}."
            )
    shape = broadcast(x.shape, y.shape, "the two choices")
    aligned = _aligned(condition.shape, shape, rows)
    return [Static(broadcast(aligned, shape, "condition and choices"), dtype)]


# Unsigned integers by the bytes of an element.
_WORDS = {2: np.uint16, 4: np.uint32, 8: np.uint64}


def _select_or_zero(condition: Any, x: Any, y: Any) -> Any:
    """Return `np.where`; quicker by far where y is one zero, as in many gradients.

    The bits of an element times 0 or 1: no branch to be guessed wrong.
    """
    word = _WORDS.get(x.dtype.itemsize)
    if y.size != 1 or word is None or condition.shape != x.shape or not x.ndim:
        return np.where(condition, x, y)
    if kind_of(x.dtype) not in "fiu" or y.ndim > x.ndim or y.reshape(1).view(word)[0]:
        return np.where(condition, x, y)
    bits = np.multiply(x.view(word), condition.view(np.uint8), dtype=word)
    return bits.view(x.dtype)


def _select(xp: ModuleType, attrs: Attrs) -> Callable[..., Any]:
    if not attrs.get("rows", False):
        call: Callable[..., Any] = _select_or_zero if xp is np else xp.where
        return call

    def by_rows(condition: Any, x: Any, y: Any) -> Any:
        if condition.ndim == 1 and x.ndim > 1:
            condition = condition.reshape((-1,) + (1,) * (x.ndim - 1))
        return xp.where(condition, x, y)

    return by_rows


def _select_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    (g,), (condition, x, y), rows = gradients, op.inputs, op.attrs.get("rows", False)
    zeros = make("ZerosLike", g) if rows else zero_for(g)
    to_x = make("Select", condition, g, zeros, rows=rows)
    to_y = make("Select", condition, zeros, g, rows=rows)
    return [None, sum_like(to_x, x), sum_like(to_y, y)]


def _infer_where(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    rank = None if inputs[0].shape is None else len(inputs[0].shape)
    return [Static((None, rank), np.dtype(np.int64))]


def _where(xp: ModuleType, condition: Any) -> Any:
    return xp.argwhere(condition).astype(np.int64, copy=False)


def _infer_clip(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    dtype, shape = same_dtype(inputs, "clip"), inputs[0].shape
    for bound in inputs[1:]:
        shape = broadcast(shape, bound.shape, "a tensor and its bounds")
    return [Static(shape, dtype)]


def _clip(xp: ModuleType, x: Any, low: Any, high: Any) -> Any:
    # Twice as quick as xp.clip for small arrays.
    return xp.minimum(xp.maximum(x, low), high)


def _clip_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    (g,), (x, low, high) = gradients, op.inputs
    below, above = make("Less", x, low), make("Greater", x, high)
    zeros = zero_for(g)
    inside = make("LogicalNot", make("LogicalOr", below, above))
    return [
        sum_like(make("Select", inside, g, zeros), x),
        sum_like(make("Select", below, g, zeros), low),
        sum_like(make("Select", above, g, zeros), high),
    ]


register_bound("Select", _infer_select, _select, _select_gradient)
enter("Where", _infer_where, _where, takes="iufcb")
enter("ClipByValue", _infer_clip, _clip, _clip_gradient)
