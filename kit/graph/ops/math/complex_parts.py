"""Complex numbers from two real ones, and their parts, conjugates and absolute values.

The gradient of a real number that is computed from a complex x + iy is the complex one
of both slopes, d/dx + i d/dy. So through an ordinary function f it is multiplied with
the conjugate of f's derivative, as in TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from kit.graph.array_protocol import speaks
from kit.graph.convert import make, operands, tensor
from kit.graph.dtypes import name_of
from kit.graph.op import Tensor
from kit.graph.ops.math.arithmetic import divide, multiply
from kit.graph.ops.math.elementwise import (
    UnaryBuilder,
    by_each,
    by_one,
    enter_unary,
    zero_for,
)
from kit.graph.static import Static, broadcast, same_dtype
from kit.graph.table import Attrs, Bind, register_bound


def _infer_part(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    shape, dtype = inputs[0].shape, inputs[0].dtype
    if dtype.kind != "c":
        raise TypeError(f"parts are those of complex numbers, not of {name_of(dtype)}.")
    return [Static(shape, np.empty(0, dtype).real.dtype)]


def _infer_complex(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    dtype = same_dtype(inputs, "complex")
    if dtype not in (np.float32, np.float64):
        raise TypeError(
            f"a complex number has parts of float32 or float64, not of "
            f"{name_of(dtype)}; cast them."
        )
    return [
        Static(
            broadcast(inputs[0].shape, inputs[1].shape),
            np.result_type(dtype, np.csingle),
        )
    ]


def _bind_complex(xp: ModuleType, _: Attrs) -> Callable[..., Any]:
    def join(re: Any, im: Any) -> Any:
        re, im = xp.broadcast_arrays(re, im)
        joined = xp.empty(re.shape, xp.result_type(re.dtype, np.csingle))
        joined.real[...], joined.imag[...] = re, im
        return joined

    return join


def _bind_part(function: str) -> Bind:
    # `real` and `imag` give views, and a view would keep the other half in memory.
    return lambda xp, _: lambda x: getattr(xp, function)(x).copy()


def complex_of(re: Any, im: Any, name: str | None = None) -> Tensor:
    """Return the complex numbers with these real and imaginary parts."""
    return make("Complex", *operands(re, im), name=name)


@speaks(np.real)
def real(x: Any, name: str | None = None) -> Tensor:
    """Return the real parts; real numbers as they are."""
    operand = tensor(x)
    return (
        operand
        if operand.static.dtype.kind != "c"
        else make("Real", operand, name=name)
    )


@speaks(np.imag)
def imag(x: Any, name: str | None = None) -> Tensor:
    """Return the imaginary parts, which are zeros for real numbers."""
    operand = tensor(x)
    is_complex = operand.static.dtype.kind == "c"
    return make("Imag" if is_complex else "ZerosLike", operand, name=name)


def _without_imaginary(g: Any) -> Any:
    return complex_of(g, make("ZerosLike", g))


def _absolute_gradient(g: Any, x: Any, y: Any) -> Any:
    # At 0, which has no direction, the gradient is 0.
    length = make("Select", make("Equal", y, zero_for(y)), make("OnesLike", y), y)
    return divide(multiply(_without_imaginary(g), x), _without_imaginary(length))


def _angle_gradient(g: Any, x: Any, _: Any) -> Any:
    turned = complex_of(make("Imag", x), make("Real", x))
    return make("Neg", divide(_without_imaginary(g), turned))


conjugate: UnaryBuilder = enter_unary(
    "Conj",
    np.conjugate,
    "the complex conjugate",
    by_one(lambda g, x, y: conjugate(g)),
    call="",
)
register_bound(
    "ComplexAbs",
    _infer_part,
    lambda xp, _: xp.absolute,
    by_one(_absolute_gradient),
)
register_bound(
    "Real",
    _infer_part,
    _bind_part("real"),
    by_one(lambda g, x, y: _without_imaginary(g)),
)
register_bound(
    "Imag",
    _infer_part,
    _bind_part("imag"),
    by_one(lambda g, x, y: complex_of(make("ZerosLike", g), g)),
)
register_bound("Angle", _infer_part, lambda xp, _: xp.angle, by_one(_angle_gradient))
register_bound(
    "Complex",
    _infer_complex,
    _bind_complex,
    by_each(lambda g, re, im, z: real(g), lambda g, re, im, z: imag(g)),
)
