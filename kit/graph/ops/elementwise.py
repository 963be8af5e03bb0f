"""Element-wise arithmetic: each op is one numpy ufunc with broadcasting.

table row:  op type | numpy function | gradient by each input
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from kit.graph.convert import make, operands, tensor
from kit.graph.op import Op, Tensor
from kit.graph.speak import UFUNCS
from kit.graph.static import Static, broadcast, is_known, same_dtype
from kit.graph.table import Attrs, OpDef, register


def binary(op_type: str, x: Any, y: Any, name: str | None = None) -> Tensor:
    """Return an element-wise op of two operands, in the dtype numpy would use."""
    made: Tensor = make(op_type, *operands(x, y), name=name)
    return made


def unary(op_type: str, x: Any, name: str | None = None) -> Tensor:
    """Return an element-wise op of one operand."""
    made: Tensor = make(op_type, tensor(x), name=name)
    return made


def sum_like(gradient: Any, x: Tensor) -> Any:
    """Return `gradient` summed over the axes along which `x` was broadcast."""
    shape, wanted = gradient.static.shape, x.static.shape
    if is_known(shape) and shape == wanted:
        return gradient
    return make("SumLike", gradient, x)


def _infer_binary(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    dtype = same_dtype(inputs, "an element-wise op")
    return [Static(broadcast(inputs[0].shape, inputs[1].shape), dtype)]


def _infer_compare(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    return [_infer_binary(inputs, attrs)[0]._replace(dtype=np.dtype(bool))]


def _infer_unary(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    return [Static(inputs[0].shape, inputs[0].dtype)]


Rule = Callable[[Any, Any, Any], Any]


def _by_each(*rules: Rule | None) -> Callable[[Op, Sequence[Any]], Sequence[Any]]:
    """Make a gradient of two inputs from rules (g, x, y) -> gradient by one of them."""

    def gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
        g, (x, y) = gradients[0], op.inputs
        found = []
        for rule, one in zip(rules, (x, y), strict=True):
            found.append(None if rule is None else sum_like(rule(g, x, y), one))
        return found

    return gradient


def _forward(name: str) -> Callable[..., Any]:
    def forward(xp: ModuleType, *xs: Any) -> Any:
        return getattr(xp, name)(*xs)

    return forward


def _sum_like(xp: ModuleType, g: Any, x: Any) -> Any:
    if g.shape == x.shape:
        return g
    extra = g.ndim - x.ndim
    axes = tuple(range(extra)) + tuple(
        i + extra
        for i, size in enumerate(x.shape)
        if size == 1 and g.shape[i + extra] != 1
    )
    return xp.sum(g, axis=axes, keepdims=False).reshape(x.shape)


def _infer_sum_like(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    return [Static(inputs[1].shape, inputs[0].dtype)]


_BINARY: list[tuple[str, str, Callable[..., Any] | None]] = [
    ("Add", "add", _by_each(lambda g, x, y: g, lambda g, x, y: g)),
    ("Sub", "subtract", _by_each(lambda g, x, y: g, lambda g, x, y: -g)),
    ("Mul", "multiply", _by_each(lambda g, x, y: g * y, lambda g, x, y: g * x)),
    (
        "RealDiv",
        "true_divide",
        _by_each(lambda g, x, y: g / y, lambda g, x, y: -g * x / (y * y)),
    ),
]


def _enter_binary(op_type: str, numpy_name: str, gradient: Any, infer: Any) -> None:
    register(OpDef(op_type, infer, _forward(numpy_name), gradient))
    UFUNCS[getattr(np, numpy_name)] = lambda x, y, name=None: binary(
        op_type, x, y, name
    )


for _row in _BINARY:
    _enter_binary(*_row, _infer_binary)

register(OpDef("SumLike", _infer_sum_like, _sum_like))
