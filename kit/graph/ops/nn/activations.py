"""Activations: relu and its relatives, the logistic function, softplus.

table row:  op type | what it returns | its computation | its gradient
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from kit.bfloat16 import kind_of
from kit.graph.convert import make, resolved, tensor
from kit.graph.dtypes import name_of
from kit.graph.kernels import sigmoid as sigmoids
from kit.graph.op import Op, Tensor
from kit.graph.ops.math.arithmetic import multiply, subtract
from kit.graph.ops.math.compare import less
from kit.graph.ops.math.elementwise import UnaryBuilder, conj, infer_float
from kit.graph.static import Static, merge, same_dtype
from kit.graph.table import Attrs, Bind, Forward, Gradient, Infer, enter

# From the gradient g of the result and what the op was given and made.
Rule: TypeAlias = Callable[..., Any]


def infer_real(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    """Infer shape and dtype from the operand, which must be floating point."""
    _refuse_unless(inputs[0], "f", "floating point numbers")
    return [Static(inputs[0].shape, inputs[0].dtype)]


def infer_alike(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    """Infer shape and dtype from operands that are floats of the same shape."""
    dtype, shape = same_dtype(inputs, "this op"), inputs[0].shape
    _refuse_unless(inputs[0], "f", "floating point numbers")
    for static in inputs[1:]:
        shape = merge(shape, static.shape)
    return [Static(shape, dtype)]


def _infer_ordered(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    _refuse_unless(inputs[0], "iuf", "real numbers")
    return [Static(inputs[0].shape, inputs[0].dtype)]


def _refuse_unless(static: Static, kinds: str, what: str) -> None:
    if kind_of(static.dtype) not in kinds:
        raise TypeError(
            f"this op is of {what}, not of {name_of(static.dtype)}; cast them first."
        )


def _slope(op_type: str, rule: Rule) -> Gradient:
    """Make the gradient of an activation: one op of the gradient and of a known value.

    `rule` chooses the known value: from the op, its input or its output.
    """

    def gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
        return [make(op_type, gradients[0], rule(op), **op.attrs)]

    return gradient


def _input_of(op: Op) -> Tensor:
    return op.inputs[0]


def _output_of(op: Op) -> Any:
    return op.outputs[0]


def _elu(xp: ModuleType, x: Any) -> Any:
    # One of the two terms is always 0, so the sum is exact.
    y = xp.expm1(xp.minimum(x, 0))
    y += xp.maximum(x, 0)
    return y


def _leaky_relu(xp: ModuleType, x: Any, *, alpha: float) -> Any:
    # For a slope of at most 1 the greater of the two is right, without a branch.
    return xp.maximum(x, x * alpha) if 0 < alpha <= 1 else xp.where(x > 0, x, x * alpha)


def _relu_grad(_: ModuleType, dy: Any, y: Any) -> Any:
    slope = (y > 0).astype(dy.dtype)  # a product of floats and bools takes longer
    slope *= dy
    return slope


def _sigmoid_grad(xp: ModuleType, y: Any, dy: Any) -> Any:
    slope = xp.subtract(1, y)
    slope *= y
    slope *= dy
    return slope


def _softplus_grad(xp: ModuleType, dy: Any, x: Any) -> Any:
    slope = sigmoids.sigmoid(xp, x)
    slope *= dy
    return slope


def _bind_relu(xp: ModuleType, _: Attrs) -> Callable[..., Any]:
    maximum = xp.maximum  # looked up once: that took a twentieth of a small one's time
    return lambda x: maximum(x, 0)


def _relu_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    (g,), y = gradients, op.outputs[0]
    if g.op.type == "MaxPoolGrad" and g.op.inputs[0] is y:
        # A pool's gradient is 0 but at the largest numbers, so its few windows tell the
        # slope as well as all elements do.
        y, largest, by_pool = g.op.inputs
        slope = make("ReluGrad", by_pool, largest)
        return [make("MaxPoolGrad", y, largest, slope, **g.op.attrs)]
    return [make("ReluGrad", g, y)]


def _linear(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    """Differentiate a slope whose second input only chooses among constant slopes."""
    return [make(op.type, gradients[0], op.inputs[1], **op.attrs), None]


def _sigmoid_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    return [make("SigmoidGrad", conj(op.outputs[0]), gradients[0])]


def _sigmoid_grad_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    (y, dy), g = map(conj, op.inputs), gradients[0]
    by_y = multiply(multiply(g, dy), subtract(1, multiply(y, 2)))
    return [by_y, make("SigmoidGrad", y, g)]


def _softplus_grad_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    (dy, x), g = op.inputs, gradients[0]
    by_x = make("SigmoidGrad", make("Sigmoid", x), multiply(g, dy))
    return [make("SoftplusGrad", g, x), by_x]


def _elu_grad_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    (dy, y), g = op.inputs, gradients[0]
    by_y = make("Select", less(y, 0), multiply(g, dy), make("ZerosLike", g))
    return [make("EluGrad", g, y), by_y]


_PARAMETERS = """

    Parameters
    ----------
    x : Tensor or array
        The operand.
    name : str, optional
        The name of the op.
    """


def _enter(
    op_type: str,
    doc: str,
    forward: Forward,
    gradient: Gradient,
    infer: Infer = infer_real,
    bind: Bind | None = None,
    call: str = "",
) -> UnaryBuilder:
    """Enter an activation into the table and return its builder."""
    more: dict[str, Any] = {"doc": f"{doc}, element by element"}
    kinds: dict[Any, str] = {infer_real: "f", infer_float: "fc"}
    more["takes"] = kinds.get(infer, "")
    more["call"] = call or f"nn.{op_type.lower()}(features)"
    enter(op_type, infer, forward, gradient, bind=bind, **more)

    def builder(x: Any, name: str | None = None) -> Tensor:
        floats = infer is not _infer_ordered
        return make(
            op_type, *(resolved(np.exp, x) if floats else [tensor(x)]), name=name
        )

    builder.__name__ = builder.__qualname__ = op_type.lower()
    builder.__doc__ = f"Return {doc}, element by element.{_PARAMETERS}"
    return builder


relu = _enter(
    "Relu",
    "max(x, 0)",
    lambda xp, x: xp.maximum(x, 0),
    _relu_gradient,
    _infer_ordered,
    _bind_relu,
)
relu6 = _enter(
    "Relu6",
    "min(max(x, 0), 6)",
    lambda xp, x: xp.minimum(xp.maximum(x, 0), 6),
    _slope("Relu6Grad", _output_of),
    _infer_ordered,
)
elu = _enter(
    "Elu", "x above 0 and exp(x) - 1 below", _elu, _slope("EluGrad", _output_of)
)
sigmoid = _enter(
    "Sigmoid",
    "1 / (1 + exp(-x))",
    sigmoids.sigmoid,
    _sigmoid_gradient,
    infer_float,
    call="sigmoid(x)",
)
softplus = _enter(
    "Softplus", "log(1 + exp(x))", sigmoids.softplus, _slope("SoftplusGrad", _input_of)
)


def leaky_relu(x: Any, alpha: float = 0.2, name: str | None = None) -> Tensor:
    """Return x above 0 and `alpha` times x below, element by element.

    Parameters
    ----------
    x : Tensor or array
        Floating point.
    alpha : float, default 0.2
        The slope below 0.
    name : str, optional
        The name of the op.
    """
    inputs = resolved(np.exp, x)
    return make("LeakyRelu", *inputs, name=name, alpha=float(alpha))


_leak = _slope("LeakyReluGrad", _input_of)
enter("LeakyRelu", infer_real, _leaky_relu, _leak)
_SLOPES: list[tuple[str, Forward, Gradient]] = [
    ("ReluGrad", _relu_grad, _linear),
    ("Relu6Grad", lambda xp, dy, y: xp.multiply(dy, (y > 0) & (y < 6)), _linear),
    (
        "LeakyReluGrad",
        lambda xp, dy, x, alpha: xp.where(x > 0, dy, dy * alpha),
        _linear,
    ),
    # Above 0 the slope is 1: the part of y that is above is left out.
    (
        "EluGrad",
        lambda xp, dy, y: xp.multiply(dy, xp.minimum(y, 0) + 1),
        _elu_grad_gradient,
    ),
    ("SoftplusGrad", _softplus_grad, _softplus_grad_gradient),
]
for _name, _forward, _gradient in _SLOPES:
    enter(_name, infer_alike, _forward, _gradient)
enter("SigmoidGrad", infer_float, _sigmoid_grad, _sigmoid_grad_gradient)
