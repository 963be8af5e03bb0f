"""How an element-wise op enters the table: one numpy ufunc with broadcasting.

The entries themselves stand in `arithmetic`, `unary` and `compare`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Protocol, TypeAlias

import numpy as np

from kit.bfloat16 import kind_of
from kit.graph.array_protocol import UFUNCS
from kit.graph.convert import make, resolved, tensor
from kit.graph.dtypes import STRING, name_of
from kit.graph.op import Op, Tensor
from kit.graph.static import Shape, Static, broadcast, is_known, same_dtype
from kit.graph.table import (
    Attrs,
    Bind,
    Gradient,
    Infer,
    enter,
    infer_like,
    register_bound,
)

# From the gradient of the result, the inputs and the result: the gradient by an input.
Rule2: TypeAlias = Callable[[Any, Any, Any, Any], Any]
Rule1: TypeAlias = Callable[[Any, Any, Any], Any]


class BinaryBuilder(Protocol):
    """Builds an element-wise op of two operands, in the dtype numpy would use."""

    def __call__(self, x: Any, y: Any, name: str | None = None) -> Tensor:
        """Return the op's result; operands are broadcast against each other."""


class UnaryBuilder(Protocol):
    """Builds an element-wise op of one operand, in the dtype numpy would use."""

    def __call__(self, x: Any, name: str | None = None) -> Tensor:
        """Return the op's result, which has the operand's shape."""


def sum_like(gradient: Any, x: Tensor, other: Tensor | None = None) -> Any:
    """Return `gradient` summed over the axes along which `x` was broadcast.

    `other` is the second of two operands, if there were two: where it cannot have
    broadcast `x`, nothing is summed and no op is made.
    """
    shape, wanted = gradient.static.shape, x.static.shape
    if is_known(shape) and shape == wanted:
        return gradient
    # An operand is not broadcast against itself.
    if other is x or (other is not None and _keeps(wanted, other.static.shape)):
        return gradient
    return make("SumLike", gradient, x)


def _keeps(shape: Shape, other: Shape) -> bool:
    """Whether broadcasting with `other` surely leaves a shape as it is."""
    if shape is None or other is None or len(other) > len(shape):
        return False
    pairs = zip(shape[len(shape) - len(other) :], other, strict=True)
    return all(b == 1 or (a is not None and a != 1) for a, b in pairs)


def zero_for(x: Tensor) -> Tensor:
    """Return a single zero in the dtype of `x`, in its graph."""
    return tensor(np.zeros((), x.static.dtype), graph=x.graph)


def conj(x: Tensor) -> Tensor:
    """Return the conjugate of a complex tensor, and any other as it is.

    Through a derivative f' of complex numbers a gradient is multiplied with conj(f').
    """
    return make("Conj", x) if x.static.dtype.kind == "c" else x


def infer_binary(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    """Infer the common shape of two operands of one dtype."""
    dtype = same_dtype(inputs, "an element-wise op")
    _refuse_texts(dtype)
    return [Static(broadcast(inputs[0].shape, inputs[1].shape), dtype)]


def infer_compare(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    """Infer the common shape of two operands of one dtype; the result is bool."""
    same_dtype(inputs, "a comparison")
    return [Static(broadcast(inputs[0].shape, inputs[1].shape), np.dtype(bool))]


def infer_unary(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    """Infer shape and dtype from the operand."""
    _refuse_texts(inputs[0].dtype)
    return [Static(inputs[0].shape, inputs[0].dtype)]


def infer_float(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    """Infer shape and dtype from the operands, which must not be integers."""
    for static in inputs:
        if kind_of(static.dtype) not in "fc":
            raise TypeError(
                f"an op of real numbers got {name_of(static.dtype)}; cast it to a "
                f"floating dtype first."
            )
    return (infer_unary if len(inputs) == 1 else infer_binary)(inputs, attrs)


def infer_test(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    """Infer the shape from the operand; the result is bool."""
    _refuse_texts(inputs[0].dtype)
    return [Static(inputs[0].shape, np.dtype(bool))]


def _refuse_texts(dtype: Any) -> None:
    if dtype == STRING:
        raise TypeError("texts are not numbers; they can only be compared and joined.")


def by_each(*rules: Rule2 | None) -> Gradient:
    """Make a gradient of two inputs from rules (g, x, y, result)."""

    def gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
        g, (x, y), z = gradients[0], op.inputs, op.outputs[0]
        results = []
        for rule, operand in zip(rules, (x, y), strict=True):
            other = y if operand is x else x
            by = None if rule is None else sum_like(rule(g, x, y, z), operand, other)
            results.append(by)
        return results

    return gradient


def by_one(rule: Rule1) -> Gradient:
    """Make the gradient of an op with one input from a rule (g, x, result)."""

    def gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
        return [rule(gradients[0], op.inputs[0], op.outputs[0])]

    return gradient


def named(function: str) -> Bind:
    """Return a `bind` that is the array module's own function of this name."""

    def bind(xp: ModuleType, _: Attrs) -> Callable[..., Any]:
        ufunc: Callable[..., Any] = getattr(xp, function)
        return ufunc

    return bind


def enter_binary(
    op_type: str,
    ufunc: np.ufunc,
    doc: str,
    gradient: Gradient | None = None,
    infer: Infer = infer_binary,
    bind: Bind | None = None,
    takes: str = "iufc",
    call: str | None = None,
) -> BinaryBuilder:
    """Enter an op of two operands into the tables and return its builder.

    TensorFlow's `call` is by default named as numpy's function; see `OpDef`.
    """
    bind, doc = bind or named(ufunc.__name__), f"{doc}, element by element"
    call = f"{ufunc.__name__}(x, y)" if call is None else call
    register_bound(op_type, infer, bind, gradient, takes=takes, call=call, doc=doc)

    def builder(x: Any, y: Any, name: str | None = None) -> Tensor:
        inputs = resolved(ufunc, x, y)
        joins = ufunc is np.add and inputs[0].static.dtype == STRING
        return make("StringJoin" if joins else op_type, *inputs, name=name)

    builder.__name__ = builder.__qualname__ = ufunc.__name__
    builder.__doc__ = f"Return {doc} with broadcasting."
    UFUNCS.setdefault(ufunc, builder)
    return builder


def enter_unary(
    op_type: str,
    ufunc: np.ufunc,
    doc: str,
    gradient: Gradient | None = None,
    infer: Infer = infer_unary,
    bind: Bind | None = None,
    takes: str = "iufc",
    call: str | None = None,
) -> UnaryBuilder:
    """Enter an op of one operand into the tables and return its builder.

    TensorFlow's `call` is by default named as the op; see `OpDef`.
    """
    bind, doc = bind or named(ufunc.__name__), f"{doc}, element by element"
    call = f"{op_type.lower()}(x)" if call is None else call
    register_bound(op_type, infer, bind, gradient, takes=takes, call=call, doc=doc)

    def builder(x: Any, name: str | None = None) -> Tensor:
        return make(op_type, *resolved(ufunc, x), name=name)

    builder.__name__ = builder.__qualname__ = ufunc.__name__
    builder.__doc__ = f"Return {doc}."
    UFUNCS.setdefault(ufunc, builder)
    return builder


def _sum_like(_: ModuleType, g: Any, x: Any) -> Any:
    if g.shape == x.shape:
        return g
    while g.ndim > x.ndim > 0:  # one by one: numpy is four times as fast on long rows
        g = g.sum(axis=0, dtype=g.dtype)
    axes = tuple(i for i, n in enumerate(g.shape) if not x.ndim or n != x.shape[i])
    return g.sum(axis=axes, dtype=g.dtype).reshape(x.shape) if axes else g


def _sum_like_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    return [make("BroadcastLike", gradients[0], op.inputs[0]), None]


enter("SumLike", infer_like(1), _sum_like, _sum_like_gradient)
