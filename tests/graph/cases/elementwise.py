"""Cases of the ops that work element by element."""

from __future__ import annotations

import numpy as np

from kit.graph.ops.array import choose
from kit.graph.ops.math import arithmetic, cast, compare, unary
from tests.graph.cases.case import Case, Host, bare, flat, numbers, positive, sloped

A, B, ROW = numbers(1, 2, 3), numbers(2, 2, 3), numbers(3, 3)
POS, COLUMN, ONE = positive(4, 2, 3), positive(5, 2, 1), np.float64(1.7)
SMALL = np.tanh(A) * 0.9
INTS, MORE = np.array([[7, -7, 5]], np.int32), np.array([[2], [-3]], np.int32)
YES, NO = np.array([[True], [False]]), np.array([True, False, False])
NOT_NUMBERS = np.array([1.0, np.nan, np.inf, -np.inf])
TIES = np.array([1.0, 2.0, 3.0]), np.array([1.0, 5.0, 0.0])


def erf(x: Host) -> Host:
    """The integral of the bell curve, by its series."""
    n = np.arange(60)
    terms = np.cumprod(np.where(n > 0, -(x[..., None] ** 2) / np.maximum(n, 1), 1), -1)
    return np.asarray(2 / np.sqrt(np.pi) * x * (terms / (2 * n + 1)).sum(-1))


def c_remainder(x: Host, y: Host) -> Host:
    return np.asarray(x - y * np.trunc(x / y))


def summed_back(g: Host, x: Host) -> Host:
    """The sum over the leading axis and over those of size 1, for the shapes below."""
    return np.asarray(g.sum(axis=0).sum(axis=-1, keepdims=True))


BINARY = [
    sloped("Add", arithmetic.add, lambda x, y: x + y, (A, ROW)),
    sloped("Add", arithmetic.add, lambda x, y: x + y, (ONE, A)),
    flat("Add", arithmetic.add, lambda x, y: x + y, (INTS, MORE)),
    sloped("Sub", arithmetic.subtract, lambda x, y: x - y, (COLUMN, ROW)),
    sloped("Mul", arithmetic.multiply, lambda x, y: x * y, (A, COLUMN)),
    sloped("Mul", lambda x: x * x, lambda x: x**2, A),
    sloped("RealDiv", arithmetic.divide, lambda x, y: x / y, (ROW, POS)),
    flat("RealDiv", arithmetic.divide, lambda x, y: x.astype(float) / y, (INTS, MORE)),
    flat(
        "FloorDiv",
        arithmetic.floor_divide,
        lambda x, y: np.floor(x / y).astype(np.int32),
        (INTS, MORE),
    ),
    flat("FloorDiv", arithmetic.floor_divide, lambda x, y: np.floor(x / y), (A, POS)),
    flat(
        "FloorMod",
        arithmetic.remainder,
        lambda x, y: (x - y * np.floor(x / y)).astype(x.dtype),
        (INTS, MORE),
    ),
    sloped(
        "FloorMod", arithmetic.remainder, lambda x, y: x - y * np.floor(x / y), (A, POS)
    ),
    flat("Mod", arithmetic.fmod, c_remainder, (A, POS)),
    sloped("Pow", arithmetic.power, lambda x, y: np.exp(y * np.log(x)), (POS, ROW)),
    sloped("Pow", lambda x: x**2, lambda x: x * x, A),
    sloped("Pow", lambda x: x**3.0, lambda x: x * x * x, A),
    sloped("Pow", lambda y: 2.0**y, np.exp2, A),
    sloped("Maximum", arithmetic.maximum, lambda x, y: np.where(x > y, x, y), (A, ROW)),
    sloped("Minimum", arithmetic.minimum, lambda x, y: np.where(x < y, x, y), (A, ROW)),
    sloped(
        "SquaredDifference",
        arithmetic.squared_difference,
        lambda x, y: (x - y) ** 2,
        (A, COLUMN),
    ),
    sloped(
        "AddN", lambda x, y: arithmetic.add_n([x, y, x]), lambda x, y: x + y + x, (A, B)
    ),
]


UNARY = [
    sloped("Neg", unary.negative, lambda x: 0 - x, A),
    sloped("Abs", unary.absolute, lambda x: np.where(x < 0, -x, x), A),
    flat("Abs", unary.absolute, lambda x: np.where(x < 0, -x, x), INTS),
    sloped("Exp", unary.exp, lambda x: np.e**x, A),
    sloped("Expm1", unary.expm1, lambda x: np.exp(x) - 1, A),
    sloped("Log", unary.log, np.log, POS),
    sloped("Log1p", unary.log1p, lambda x: np.log(1 + x), POS),
    sloped("Sqrt", unary.sqrt, lambda x: x**0.5, POS),
    sloped("Rsqrt", unary.rsqrt, lambda x: x**-0.5, POS),
    sloped("Rsqrt", unary.rsqrt, lambda x: x**-0.5, ONE),
    sloped("Square", unary.square, lambda x: x**2, A),
    sloped("Sign", unary.sign, lambda x: (x > 0) * 1.0 - (x < 0), A),
    sloped("Sin", unary.sin, np.sin, A),
    sloped("Cos", unary.cos, np.cos, A),
    sloped("Tan", unary.tan, lambda x: np.sin(x) / np.cos(x), SMALL),
    sloped("Asin", unary.asin, np.arcsin, SMALL),
    sloped("Acos", unary.acos, lambda x: np.pi / 2 - np.arcsin(x), SMALL),
    sloped("Atan", unary.atan, lambda x: np.arcsin(x / np.sqrt(1 + x * x)), A),
    sloped("Sinh", unary.sinh, lambda x: (np.exp(x) - np.exp(-x)) / 2, A),
    sloped("Cosh", unary.cosh, lambda x: (np.exp(x) + np.exp(-x)) / 2, A),
    sloped("Asinh", unary.asinh, lambda x: np.log(x + np.sqrt(x * x + 1)), A),
    sloped(
        "Acosh", unary.acosh, lambda x: np.log(x + np.sqrt(x * x - 1)), 1.5 + np.abs(A)
    ),
    sloped("Atanh", unary.atanh, lambda x: np.log((1 + x) / (1 - x)) / 2, SMALL),
    bare("Erf", erf, A),
    bare("Erfc", lambda x: 1 - erf(x), A),
    sloped("Atan2", arithmetic.atan2, lambda y, x: np.angle(x + 1j * y), (A, ROW)),
    sloped("Tanh", unary.tanh, lambda x: 1 - 2 / (np.exp(2 * x) + 1), A),
    sloped("Reciprocal", unary.reciprocal, lambda x: 1 / x, POS),
    flat("Floor", unary.floor, lambda x: x // 1, A),
    flat("Ceil", unary.ceil, lambda x: -((-x) // 1), A),
    flat("Rint", unary.rint, np.round, np.array([0.5, 1.5, -2.6])),
    sloped("Rint", unary.rint, lambda x: (x + 0.5) // 1, A),
    flat("Rint", lambda x: np.round(x, 2), lambda x: np.around(x, 2), A),
    flat("IsFinite", unary.is_finite, lambda x: abs(x) < np.inf, NOT_NUMBERS),
    flat("IsNan", unary.is_nan, lambda x: x != x, NOT_NUMBERS),
    flat("IsInf", unary.is_inf, lambda x: abs(x) == np.inf, NOT_NUMBERS),
    bare("TanhGrad", lambda y, g: (1 - y**2) * g, (A, B)),
    bare("LogOrZero", lambda x: np.where(x > 0, np.log(np.abs(x)), 0), A),
    bare("SumLike", summed_back, (numbers(6, 4, 2, 3), COLUMN)),
]

CHOICES = [
    flat("Equal", compare.equal, lambda x, y: x == y, TIES),
    flat("NotEqual", compare.not_equal, lambda x, y: x != y, TIES),
    flat("Less", compare.less, lambda x, y: x < y, TIES),
    flat("LessEqual", compare.less_equal, lambda x, y: x <= y, TIES),
    flat("Greater", compare.greater, lambda x, y: x > y, TIES),
    flat("GreaterEqual", compare.greater_equal, lambda x, y: x >= y, TIES),
    flat("LogicalAnd", compare.logical_and, lambda x, y: x & y, (YES, NO)),
    flat("LogicalOr", compare.logical_or, lambda x, y: x | y, (YES, NO)),
    flat("LogicalXor", compare.logical_xor, lambda x, y: x ^ y, (YES, NO)),
    flat("LogicalNot", compare.logical_not, lambda x: ~x, YES),
    sloped("Select", choose.select, lambda c, x, y: c * x + ~c * y, (YES, A, ROW)),
    sloped("Select", choose.select, lambda c, x, y: c * x + ~c * y, (NO, ONE, A)),
    sloped(
        "Select",
        lambda c, x, y: choose.select(c, x, y, rows=True),
        lambda c, x, y: np.array([x[i] if c[i] else y[i] for i in range(2)]),
        (np.array([False, True]), A, B),
    ),
    Case(
        "Where",
        choose.argwhere,
        lambda c: np.array([[0, 0]]),
        (YES,),
        has_slope=False,
        is_dynamic=True,
    ),
    sloped(
        "ClipByValue",
        choose.clip,
        lambda x, lo, hi: np.where(x < lo, lo, np.where(x > hi, hi, x)),
        (A * 2, np.float64(-0.5), np.array([0.3, 0.5, 0.7])),
    ),
    bare(
        "Bitcast",
        lambda x: x.view("uint8").reshape(*x.shape, -1),
        A,
        has_slope=False,
        dtype=np.dtype("uint8"),
    ),
    flat("Cast", lambda x: cast.cast(x, "float32"), np.float32, A),
    flat(
        "Cast", lambda x: cast.cast(x, "float64") * 1.0, lambda x: x.astype(float), INTS
    ),
    bare("Cast", lambda x: x, A, dtype=np.dtype(float)),
    flat("Cast", lambda x: cast.cast(x, "bool"), lambda x: x != 0, INTS),
    flat(
        "Cast",
        lambda x: cast.cast(x, "int32"),
        lambda x: np.trunc(x).astype(np.int32),
        A * 3,
    ),
]

CASES = BINARY + UNARY + CHOICES
