"""Arithmetic of two operands.

table row:  op type | numpy function | what it returns | gradient by each operand
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from kit.errors import InvalidArgumentError
from kit.graph.convert import make, resolved, tensor
from kit.graph.dtypes import STRING
from kit.graph.kernels import device_results
from kit.graph.op import Op, Tensor
from kit.graph.ops.math.elementwise import (
    BinaryBuilder,
    by_each,
    by_one,
    conj,
    enter_binary,
    infer_binary,
    infer_float,
    zero_for,
)
from kit.graph.static import Static, merge, same_dtype
from kit.graph.table import Attrs, enter, infer_like, missing


def _whole(
    function: str, of_floats: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """Make the `bind` of a division that refuses whole numbers divided by zero.

    `of_floats` is used on devices, where a float may divide otherwise than in numpy.
    """

    def bind(xp: ModuleType, _: Attrs) -> Callable[..., Any]:
        call = getattr(xp, function)
        own = None if xp is np else of_floats

        def divide(x: Any, y: Any) -> Any:
            if y.dtype.kind in "iu" and not y.all():
                raise InvalidArgumentError(
                    "whole numbers are divided by zero; use a divisor that is not 0, "
                    "or cast to a floating dtype for infinity."
                )
            if own is not None and y.dtype.kind == "f":
                return own(xp, x, y)
            return call(x, y)

        return divide

    return bind


def _squared_difference(xp: ModuleType, x: Any, y: Any) -> Any:
    d = xp.subtract(x, y)
    d *= d.conj() if d.dtype.kind == "c" else d
    return d


def _bind_power(xp: ModuleType, _: Attrs) -> Callable[..., Any]:
    def power(x: Any, y: Any) -> Any:
        if x.dtype.kind in "iu" and y.dtype.kind == "i" and bool((y < 0).any()):
            raise InvalidArgumentError(
                "whole numbers are raised to a negative power, which is not whole; "
                "cast them to a floating dtype."
            )
        return xp.power(x, y)

    return power


def _power_by_x(g: Any, x: Any, y: Any, _: Any) -> Any:
    # From the left: in half precision y * x ** (y - 1) may be infinite where g is 0.
    x, scaled = conj(x), multiply(g, conj(y))
    if y.static.value is not None and y.static.value.shape == ():
        exponent = y.static.value.item() - 1
        return multiply(scaled, x if exponent == 1 else power(x, exponent.conjugate()))
    return multiply(scaled, power(x, subtract(conj(y), 1)))


def _power_by_y(g: Any, x: Any, _: Any, z: Any) -> Any:
    return multiply(multiply(g, conj(z)), make("LogOrZero", conj(x)))


def _log_or_zero_gradient(g: Any, x: Any, _: Any) -> Any:
    has_log = make(
        "NotEqual" if x.static.dtype.kind == "c" else "Greater", x, zero_for(x)
    )
    return make("Select", has_log, divide(g, conj(x)), zero_for(g))


def _log_or_zero(xp: ModuleType, x: Any) -> Any:
    has_log = x != 0 if x.dtype.kind == "c" else x > 0
    return xp.where(has_log, xp.log(xp.where(has_log, x, 1)), 0)


def _chosen(first: str) -> Callable[..., Any]:
    """Return a gradient that goes to x where `first` holds, and to y elsewhere."""

    def by_x(g: Any, x: Any, y: Any, _: Any) -> Any:
        return make("Select", make(first, x, y), g, zero_for(g))

    def by_y(g: Any, x: Any, y: Any, _: Any) -> Any:
        return make("Select", make(first, x, y), zero_for(g), g)

    return by_each(by_x, by_y)


add: BinaryBuilder = enter_binary(
    "Add",
    np.add,
    "x + y; texts are joined",
    by_each(lambda g, x, y, z: g, lambda g, x, y, z: g),
    takes="iufcO",
)
subtract: BinaryBuilder = enter_binary(
    "Sub",
    np.subtract,
    "x - y",
    by_each(lambda g, x, y, z: g, lambda g, x, y, z: make("Neg", g)),
)
multiply: BinaryBuilder = enter_binary(
    "Mul",
    np.multiply,
    "x * y",
    by_each(
        lambda g, x, y, z: multiply(g, conj(y)), lambda g, x, y, z: multiply(g, conj(x))
    ),
)
multiply_no_nan: BinaryBuilder = enter_binary(
    "MulNoNan",
    np.multiply,
    "x * y, and 0 wherever y is 0, also where x is infinite",
    by_each(
        lambda g, x, y, z: multiply_no_nan(g, conj(y)),
        lambda g, x, y, z: multiply_no_nan(conj(x), g),
    ),
    bind=lambda xp, _: lambda x, y: xp.where(y == 0, 0, x) * y,
    call="",
)
divide: BinaryBuilder = enter_binary(
    "RealDiv",
    np.true_divide,
    "x / y, a floating point number also for integers",
    by_each(
        lambda g, x, y, z: divide(g, conj(y)),
        lambda g, x, y, z: make("Neg", divide(multiply(g, conj(z)), conj(y))),
    ),
    infer_float,
    call="realdiv(x, y)",
)
floor_divide: BinaryBuilder = enter_binary(
    "FloorDiv",
    np.floor_divide,
    "x // y, rounded down",
    bind=_whole("floor_divide", device_results.floor_divide),
    takes="iuf",
    call="floor_div(x, y)",
)
remainder = enter_binary(
    "FloorMod",
    np.remainder,
    "x % y, which has the sign of y",
    by_each(
        lambda g, x, y, z: g,
        lambda g, x, y, z: make("Neg", multiply(g, floor_divide(x, y))),
    ),
    bind=_whole("remainder", device_results.remainder),
    takes="iuf",
    call="floormod(x, y)",
)
fmod = enter_binary(
    "Mod",
    np.fmod,
    "the remainder of x / y, with the sign of x",
    missing,
    bind=_whole("fmod"),
    call="",
)
power: BinaryBuilder = enter_binary(
    "Pow",
    np.power,
    "x ** y",
    by_each(_power_by_x, _power_by_y),
    bind=_bind_power,
    call="pow(x, y)",
)
maximum = enter_binary(
    "Maximum",
    np.maximum,
    "the greater of the two",
    _chosen("GreaterEqual"),
    takes="iuf",
)
minimum = enter_binary(
    "Minimum", np.minimum, "the lesser of the two", _chosen("LessEqual"), takes="iuf"
)


def squared_difference(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Return (x - y)**2, element by element with broadcasting."""
    return make("SquaredDifference", *resolved(np.subtract, x, y), name=name)


def add_n(xs: Sequence[Any], name: str | None = None) -> Tensor:
    """Return the sum of tensors of one shape and dtype, added in their order.

    Raises `ValueError` for an empty list and for unequal shapes.
    """
    if not isinstance(xs, list | tuple) or not xs:
        raise ValueError(f"add_n adds a list of at least one tensor, not {xs!r}.")
    return make("AddN", *[tensor(x) for x in xs], name=name)


def _infer_add_n(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    dtype, shape = same_dtype(inputs, "add_n"), inputs[0].shape
    for static in inputs[1:]:
        shape = merge(shape, static.shape, "the terms of add_n")
    if dtype == STRING:
        raise TypeError("add_n adds numbers, not texts.")
    return [Static(shape, dtype)]


def _add_n(xp: ModuleType, *xs: Any) -> Any:
    if any(x.shape != xs[0].shape for x in xs):
        raise InvalidArgumentError(
            f"the terms of add_n have the shapes "
            f"{', '.join(str(list(x.shape)) for x in xs)}; they must be equal."
        )
    if len(xs) == 1:
        return xs[0]
    total = xp.add(xs[0], xs[1])
    for x in xs[2:]:
        total += x
    return total


def _add_n_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    return [gradients[0]] * len(op.inputs)


def _squares(y: Any, x: Any) -> Any:
    return add(multiply(y, y), multiply(x, x))


atan2: BinaryBuilder = enter_binary(
    "Atan2",
    np.arctan2,
    "the angle of the point (y, x)",
    by_each(
        lambda g, y, x, z: divide(multiply(g, x), _squares(y, x)),
        lambda g, y, x, z: make("Neg", divide(multiply(g, y), _squares(y, x))),
    ),
    infer_float,
    takes="f",
    call="atan2(y, x)",
)

_difference_gradient = by_each(
    lambda g, x, y, z: multiply(multiply(g, 2), subtract(x, y)),
    lambda g, x, y, z: multiply(multiply(g, -2), subtract(x, y)),
)

_SQUARED: dict[str, Any] = {
    **{"takes": "iufc", "call": "squared_difference(x, y)"},
    "doc": "(x - y)**2, element by element",
}
_of_difference = _squared_difference, _difference_gradient
enter("SquaredDifference", infer_binary, *_of_difference, **_SQUARED)
enter("AddN", _infer_add_n, _add_n, _add_n_gradient, takes="iufc")
enter("LogOrZero", infer_like(0), _log_or_zero, by_one(_log_or_zero_gradient))
