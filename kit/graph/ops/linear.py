"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from kit.graph.convert import make, operands
from kit.graph.op import Op, Tensor
from kit.graph.ops.elementwise import sum_like
from kit.graph.speak import speaks
from kit.graph.static import Shape, Static, broadcast, same_dtype, text
from kit.graph.table import Attrs, OpDef, register


@speaks(np.matmul, np.dot)
def matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return the matrix product over the last two axes, leading axes broadcast.

    With `transpose_a`, `transpose_b` the last two axes of an operand are exchanged
    first, without a copy. Raises `ValueError` when columns and rows differ in number.
    """
    x, y = operands(a, b)
    made: Tensor = make(
        "MatMul", x, y, name=name, transpose_a=transpose_a, transpose_b=transpose_b
    )
    return made


def _infer(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    dtype = same_dtype(inputs, "matmul")
    a = _turned(inputs[0].shape, attrs["transpose_a"])
    b = _turned(inputs[1].shape, attrs["transpose_b"])
    if a is None or b is None:
        return [Static(None, dtype)]
    if len(a) < 2 or len(b) < 2:
        raise ValueError(
            f"matmul multiplies matrices, but got the shapes {text(a)} and {text(b)}; "
            f"reshape a vector to one row or one column first."
        )
    if a[-1] is not None and b[-2] is not None and a[-1] != b[-2]:
        raise ValueError(
            f"matmul of {text(a)} and {text(b)}: the first has {a[-1]} columns and the "
            f"second {b[-2]} rows."
        )
    lead = broadcast(a[:-2], b[:-2], "the leading axes of matmul")
    return [Static((*(lead or ()), a[-2], b[-1]), dtype)]


def _turned(shape: Shape, turn: bool) -> Shape:
    if shape is None or not turn or len(shape) < 2:
        return shape
    return (*shape[:-2], shape[-1], shape[-2])


def _forward(
    xp: ModuleType, a: Any, b: Any, *, transpose_a: bool, transpose_b: bool
) -> Any:
    if transpose_a:
        a = a.swapaxes(-1, -2)
    if transpose_b:
        b = b.swapaxes(-1, -2)
    return xp.matmul(a, b)


def _gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    (g,), (a, b) = gradients, op.inputs
    match op.attrs["transpose_a"], op.attrs["transpose_b"]:
        case False, False:
            by_a, by_b = matmul(g, b, False, True), matmul(a, g, True, False)
        case False, True:
            by_a, by_b = matmul(g, b), matmul(g, a, True, False)
        case True, False:
            by_a, by_b = matmul(b, g, False, True), matmul(a, g)
        case _:
            by_a, by_b = matmul(b, g, True, True), matmul(g, a, True, True)
    return [sum_like(by_a, a), sum_like(by_b, b)]


register(OpDef("MatMul", _infer, _forward, _gradient))
