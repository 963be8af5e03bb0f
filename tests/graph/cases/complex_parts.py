"""Cases of complex numbers, made of two real inputs: a slope is that of a real number.

The gradient by the complex number in between has to be the conjugated one, or the
slopes by its two parts come out wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kit.graph.array_protocol import UFUNCS
from kit.graph.convert import make
from kit.graph.ops.array import join
from kit.graph.ops.array.shape import transpose
from kit.graph.ops.math import arithmetic, linear, reduce, unary
from kit.graph.ops.math.complex_parts import complex_of, conjugate, imag, real
from tests.graph.cases.case import Case, Host, flat, numbers, sloped

PARTS = numbers(20, 2, 3), numbers(21, 2, 3)
MORE = *PARTS, numbers(22, 2, 3), numbers(23, 2, 3)
ROW = *PARTS, numbers(22, 3), numbers(23, 3)
MATRICES = *PARTS, numbers(24, 3, 2), numbers(25, 3, 2)
INFINITE = np.array([np.inf, 2.0, np.nan]), np.array([0.0, 3.0, 0.0])


def of_one(op: str, build: Callable[..., Any], expect: Callable[..., Any]) -> Case:
    """Return the case of a function of one complex number."""
    return sloped(
        op,
        lambda a, b: parts(build(complex_of(a, b))),
        lambda a, b: host_parts(expect(a + 1j * b)),
        PARTS,
    )


def of_two(
    op: str,
    build: Callable[..., Any],
    expect: Callable[..., Any],
    inputs: tuple[Host, ...] = MORE,
) -> Case:
    """Return the case of a function of two complex numbers."""
    return sloped(
        op,
        lambda a, b, c, d: parts(build(complex_of(a, b), complex_of(c, d))),
        lambda a, b, c, d: host_parts(expect(a + 1j * b, c + 1j * d)),
        inputs,
    )


def parts(z: Any) -> list[Any]:
    return [real(z), imag(z)]


def host_parts(z: Any) -> list[Host]:
    return [np.real(z), np.imag(z)]


def by_ufunc(op: str, ufunc: np.ufunc) -> Case:
    return of_one(op, UFUNCS[ufunc], ufunc)


CASES = [
    flat("Complex", complex_of, lambda a, b: a + 1j * b, PARTS),
    sloped("Complex", lambda a, b: parts(complex_of(a, b)), lambda a, b: [a, b], PARTS),
    of_one("Conj", conjugate, np.conj),
    of_one("Real", lambda z: real(z) * z, lambda z: z.real * z),
    of_one("Imag", lambda z: imag(z) * z, lambda z: z.imag * z),
    of_one("ComplexAbs", lambda z: unary.absolute(z) * z, lambda z: abs(z) * z),
    of_one("Angle", lambda z: make("Angle", z) * z, lambda z: np.angle(z) * z),
    *[
        by_ufunc(op, ufunc)
        for op, ufunc in (
            *(("Neg", np.negative), ("Square", np.square), ("Exp", np.exp)),
            *(("Expm1", np.expm1), ("Log", np.log), ("Log1p", np.log1p)),
            *(("Sqrt", np.sqrt), ("Sin", np.sin), ("Cos", np.cos)),
            *(("Tanh", np.tanh), ("Reciprocal", np.reciprocal)),
        )
    ],
    of_one("Rsqrt", unary.rsqrt, lambda z: 1 / np.sqrt(z)),
    of_one("Pow", lambda z: z**2, lambda z: z**2),
    of_one("Pow", lambda z: z ** (1.5 + 2j), lambda z: z ** (1.5 + 2j)),
    of_one("Prod", lambda z: reduce.reduce_prod(z, 1), lambda z: z.prod(1)),
    of_one("Mean", lambda z: reduce.reduce_mean(z * z), lambda z: (z * z).mean()),
    of_one("Transpose", lambda z: transpose(z) * 2j, lambda z: z.T * 2j),
    of_one(
        "ConcatV2",
        lambda z: join.concat([z, z * z], 1),
        lambda z: np.concatenate([z, z * z], 1),
    ),
    of_one(
        "TanhGrad",
        lambda z: make("TanhGrad", z, z * z),
        lambda z: (1 - z**2) * z * z,
    ),
    of_two("Add", arithmetic.add, np.add, ROW),
    of_two("Sub", arithmetic.subtract, np.subtract, ROW),
    of_two("Mul", arithmetic.multiply, np.multiply, ROW),
    of_two("RealDiv", arithmetic.divide, np.divide, ROW),
    of_two("Pow", arithmetic.power, np.power, ROW),
    of_two("MulNoNan", arithmetic.multiply_no_nan, np.multiply, ROW),
    of_two(
        "Einsum",
        lambda x, y: make("Einsum", x, y, equation="ij,jk->k"),
        lambda x, y: (x @ y).sum(axis=0),
        MATRICES,
    ),
    of_two("MatMul", linear.matmul, np.matmul, MATRICES),
    flat(
        "MulNoNan",
        arithmetic.multiply_no_nan,
        lambda x, y: np.array([0.0, 6.0, 0.0]),
        INFINITE,
    ),
    flat(
        "SquaredDifference",
        lambda a, b: arithmetic.squared_difference(complex_of(a, b), 1j),
        lambda a, b: (a**2 + (b - 1) ** 2).astype(complex),
        PARTS,
    ),
]
