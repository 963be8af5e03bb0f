"""Sums of products by letters for the axes, as `numpy.einsum` has them.

The attribute `equation` names the axes of each operand and of the result: "ab,bc->ac"
is a product of matrices. No operand has a letter twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from kit.bfloat16 import BFLOAT16
from kit.graph.convert import make
from kit.graph.op import Op
from kit.graph.ops.math.elementwise import conj
from kit.graph.static import Static, same_dtype, text
from kit.graph.table import Attrs, register_bound


def _infer(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    operands, result = attrs["equation"].split("->")
    sizes: dict[str, int | None] = {}
    for letters, x in zip(operands.split(","), inputs, strict=True):
        shape = (None,) * len(letters) if x.shape is None else x.shape
        if len(shape) != len(letters):
            raise ValueError(
                f"{letters!r} of {attrs['equation']!r} are the axes of an operand of "
                f"shape {text(shape)}."
            )
        for letter, size in zip(letters, shape, strict=True):
            expected = sizes.get(letter)
            if None not in (expected, size) and expected != size:
                raise ValueError(
                    f"axis {letter!r} of {attrs['equation']!r} has the sizes "
                    f"{expected} and {size}."
                )
            sizes[letter] = size if expected is None else expected
    dtype = same_dtype(inputs, "the operands of einsum")
    return [Static(tuple(sizes[letter] for letter in result), dtype)]


def _bind(xp: ModuleType, attrs: Attrs) -> Callable[..., Any]:
    equation = attrs["equation"]

    def compute(*xs: Any) -> Any:
        dtype = xs[0].dtype
        if dtype == BFLOAT16:  # which numpy's einsum does not take
            xs = tuple(x.astype(np.float32) for x in xs)
        return xp.einsum(equation, *xs, optimize=True).astype(dtype, copy=False)

    return compute


def _gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    operands, result = op.attrs["equation"].split("->")
    letters, made = operands.split(","), []
    for i, (own, x) in enumerate(zip(letters, op.inputs, strict=True)):
        others = [conj(y) for j, y in enumerate(op.inputs) if j != i]
        names = [letter for j, letter in enumerate(letters) if j != i]
        # Ones bring the axes over which only this operand was summed.
        alone = set(own) - {*result, *"".join(names)}
        ones = [make("OnesLike", x)] if alone else []
        equation = ",".join([result, *names, *[own] * len(ones)]) + "->" + own
        made.append(make("Einsum", gradients[0], *others, *ones, equation=equation))
    return made


register_bound("Einsum", _infer, _bind, _gradient)
