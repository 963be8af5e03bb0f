"""Functions of one operand, element by element.

table row:  op type | numpy function | what it returns | gradient
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from kit.graph.array_protocol import speaks
from kit.graph.convert import make, resolved, tensor
from kit.graph.op import Tensor
from kit.graph.ops.math.arithmetic import (
    add,
    divide,
    multiply,
    multiply_no_nan,
    subtract,
)
from kit.graph.ops.math.cast import cast
from kit.graph.ops.math.elementwise import (
    UnaryBuilder,
    by_each,
    by_one,
    conj,
    enter_unary,
    infer_binary,
    infer_float,
    infer_test,
    infer_unary,
)
from kit.graph.table import Gradient, Infer, enter


def _zeros(g: Any, x: Any, y: Any) -> Any:
    return make("ZerosLike", g)


def _tanh_slope(xp: ModuleType, y: Any, g: Any) -> Any:
    # Without axes it is a scalar of numpy's, into which nothing can be written.
    slope = xp.multiply(y, y)
    slope = xp.subtract(1, slope, out=slope if slope.ndim else None)
    slope *= g
    return slope


def _rsqrt_slope(g: Any, x: Any, y: Any) -> Any:
    y = conj(y)
    return multiply_no_nan(multiply(y, y), multiply(multiply(g, -0.5), y))


def _rsqrt(xp: ModuleType, x: Any) -> Any:
    root = xp.sqrt(x)
    return xp.divide(1, root, out=root if root.ndim else None)


def _enter(
    op_type: str,
    ufunc: np.ufunc,
    doc: str,
    rule: Callable[[Any, Any, Any], Any] | None = None,
    infer: Infer = infer_unary,
    **more: Any,
) -> UnaryBuilder:
    gradient = None if rule is None else by_one(rule)
    return enter_unary(op_type, ufunc, doc, gradient, infer, **more)


_real = partial(_enter, infer=infer_float, takes="fc")
_rounds = partial(_enter, takes="f")
_tests = partial(enter_unary, infer=infer_test, takes="f")

negative: UnaryBuilder = _enter(
    "Neg", np.negative, "-x", lambda g, x, y: negative(g), call="negative(x)"
)
_enter("Abs", np.absolute, "|x|", lambda g, x, y: multiply(g, make("Sign", x)), call="")
square = _enter(
    "Square", np.square, "x * x", lambda g, x, y: multiply(g, multiply(conj(x), 2))
)
sign = _enter("Sign", np.sign, "-1, 0 or 1", _zeros)
exp = _real("Exp", np.exp, "e**x", lambda g, x, y: multiply(g, conj(y)))
expm1 = _real(
    "Expm1",
    np.expm1,
    "e**x - 1, exact for small x",
    lambda g, x, y: multiply(g, add(conj(y), 1)),
)
log = _real("Log", np.log, "the natural logarithm", lambda g, x, y: divide(g, conj(x)))
log1p = _real(
    "Log1p",
    np.log1p,
    "log(1 + x), exact for small x",
    lambda g, x, y: divide(g, add(conj(x), 1)),
)
sqrt = _real(
    "Sqrt",
    np.sqrt,
    "the square root",
    lambda g, x, y: multiply_no_nan(divide(0.5, conj(y)), g),
)
sin: UnaryBuilder = _real(
    "Sin", np.sin, "the sine", lambda g, x, y: multiply(g, cos(conj(x)))
)
cos: UnaryBuilder = _real(
    "Cos", np.cos, "the cosine", lambda g, x, y: negative(multiply(g, sin(conj(x))))
)
tan: UnaryBuilder = _real(
    "Tan",
    np.tan,
    "the tangent",
    lambda g, x, y: multiply(g, add(square(conj(y)), 1)),
)
asin = _real(
    "Asin",
    np.arcsin,
    "the angle that has this sine",
    lambda g, x, y: divide(g, sqrt(subtract(1, square(conj(x))))),
)
acos = _real(
    "Acos",
    np.arccos,
    "the angle that has this cosine",
    lambda g, x, y: negative(divide(g, sqrt(subtract(1, square(conj(x)))))),
)
atan = _real(
    "Atan",
    np.arctan,
    "the angle that has this tangent",
    lambda g, x, y: divide(g, add(square(conj(x)), 1)),
)
sinh: UnaryBuilder = _real(
    "Sinh",
    np.sinh,
    "the hyperbolic sine",
    lambda g, x, y: multiply(g, cosh(conj(x))),
)
cosh: UnaryBuilder = _real(
    "Cosh",
    np.cosh,
    "the hyperbolic cosine",
    lambda g, x, y: multiply(g, sinh(conj(x))),
)
asinh = _real(
    "Asinh",
    np.arcsinh,
    "the number that has this hyperbolic sine",
    lambda g, x, y: divide(g, cosh(conj(y))),
)
acosh = _real(
    "Acosh",
    np.arccosh,
    "the number that has this hyperbolic cosine",
    lambda g, x, y: divide(g, sinh(conj(y))),
)
atanh = _real(
    "Atanh",
    np.arctanh,
    "the number that has this hyperbolic tangent",
    lambda g, x, y: divide(g, subtract(1, square(conj(x)))),
)
tanh = _real(
    "Tanh",
    np.tanh,
    "the hyperbolic tangent",
    lambda g, x, y: make("TanhGrad", conj(y), g),
)
reciprocal = _real(
    "Reciprocal",
    np.reciprocal,
    "1 / x",
    lambda g, x, y: multiply_no_nan(square(conj(y)), negative(g)),
    call="",
)
floor = _rounds("Floor", np.floor, "x rounded down")
ceil = _rounds("Ceil", np.ceil, "x rounded up")
rint = _rounds(
    "Rint", np.rint, "the nearest whole number, even at halves", _zeros, call=""
)
is_finite = _tests("IsFinite", np.isfinite, "whether x is finite", call="is_finite(x)")
is_nan = _tests("IsNan", np.isnan, "whether x is not a number", call="is_nan(x)")
is_inf = _tests("IsInf", np.isinf, "whether x is infinite", call="is_inf(x)")


@speaks(np.absolute)
def absolute(x: Any, name: str | None = None) -> Tensor:
    """Return |x|, element by element; of a complex number it is a real one."""
    (operand,) = resolved(np.absolute, x)
    is_complex = operand.static.dtype.kind == "c"
    return make("ComplexAbs" if is_complex else "Abs", operand, name=name)


def rsqrt(x: Any, name: str | None = None) -> Tensor:
    """Return 1 / sqrt(x), element by element."""
    return make("Rsqrt", *resolved(np.sqrt, x), name=name)


@speaks(np.round, np.around)
def round_half_even(x: Any, decimals: int = 0, name: str | None = None) -> Tensor:
    """Return x rounded to some decimals, halves to the even neighbour."""
    operand = tensor(x)
    own = operand.static.dtype
    if own.kind in "iu":
        is_whole = decimals >= 0
        return operand if is_whole else cast(_rounded(operand, decimals, name), own)
    return _rounded(operand, decimals, name)


def _rounded(x: Tensor, decimals: int, name: str | None) -> Tensor:
    if not decimals:
        return rint(x, name=name)
    factor = 10.0 ** abs(decimals)
    there, back = (multiply, divide) if decimals > 0 else (divide, multiply)
    return back(rint(there(x, factor)), factor, name=name)


def _by_element(function: Callable[[float], float]) -> Callable[..., Any]:
    """Return the computation of a function that only Python has, on the host."""
    each = np.frompyfunc(function, 1, 1)

    def forward(xp: ModuleType, x: Any) -> Any:
        on_host = x.get() if hasattr(x, "get") else x
        return xp.asarray(np.asarray(each(on_host)).astype(x.dtype))

    return forward


def _erf_gradient(sign: int) -> Gradient:
    factor = sign * 2 / math.sqrt(math.pi)
    return by_one(lambda g, x, y: multiply(g, multiply(exp(-square(x)), factor)))


_E: dict[str, Any] = {"takes": "f", "doc": "the error function, element by element"}
_C: dict[str, Any] = {"takes": "f", "doc": "1 - erf(x), element by element"}
_R: dict[str, Any] = {"takes": "fc", "doc": "1 / sqrt(x), element by element"}
for _type, _forward, _gradient, _more in (
    ("Erf", _by_element(math.erf), _erf_gradient(1), _E),
    ("Erfc", _by_element(math.erfc), _erf_gradient(-1), _C),
    ("Rsqrt", _rsqrt, by_one(_rsqrt_slope), _R),
):
    _call = f"{_type.lower()}(x)"
    enter(_type, infer_float, _forward, _gradient, call=_call, **_more)
enter(
    "TanhGrad",
    infer_binary,
    _tanh_slope,
    by_each(
        lambda gg, y, g, z: multiply(multiply(gg, -2), conj(multiply(y, g))),
        lambda gg, y, g, z: multiply(gg, subtract(1, square(conj(y)))),
    ),
)
