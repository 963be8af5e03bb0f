"""Results that are the same on every device, where numpy's and cupy's are not.

numpy itself gives other integers for floats that fit into none by the processor and by
the length of an array; cupy gives others again. With infinite operands cupy divides
otherwise than numpy does.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from kit.graph.kernels.precision import widened

# Any: an array of whichever module computes.
Array = Any


def to_integers(xp: ModuleType, x: Array, dtype: np.dtype[Any]) -> Array:
    """Return floats without their fractions as integers of a dtype.

    NaN becomes 0, and what is too large or too small the nearest that there is.

    >>> to_integers(np, np.array([2.9, -2.9, np.nan, np.inf, -300]), np.dtype("int8"))
    array([   2,   -2,    0,  127, -128], dtype=int8)
    """
    x = widened(xp, x)  # the limits of large integers are no halves
    limits, number = np.iinfo(dtype), x.dtype.type
    fits = (x >= number(limits.min)) & (x < number(limits.max + 1))
    # Only here: on a device, to ask would be to wait.
    if xp is np and fits.all():
        return x.astype(dtype)
    least, most, zero = map(dtype.type, (limits.min, limits.max, 0))
    beyond = xp.where(x > 0, most, xp.where(x < 0, least, zero))
    return xp.where(fits, xp.where(fits, x, number(0)).astype(dtype), beyond)


def floor_divide(xp: ModuleType, x: Array, y: Array) -> Array:
    """Return floats divided and rounded down, by numpy's way to the last bit."""
    rest = xp.fmod(x, y)
    quotient = (x - rest) / y
    has_crossed = (rest != 0) & ((y < 0) != (rest < 0))
    quotient = xp.where(has_crossed, quotient - 1, quotient)
    lower = xp.floor(quotient)
    lower = xp.where(quotient - lower > 0.5, lower + 1, lower)
    zero = xp.copysign(xp.zeros_like(quotient), x / y)
    return xp.where(y == 0, x / y, xp.where(quotient != 0, lower, zero))


def remainder(xp: ModuleType, x: Array, y: Array) -> Array:
    """Return the rest of `floor_divide`, with the sign of y."""
    rest = xp.fmod(x, y)
    rest = xp.where((rest != 0) & ((y < 0) != (rest < 0)), rest + y, rest)
    zero = xp.copysign(xp.zeros_like(rest), y)
    return xp.where((rest != 0) | (y == 0), rest, zero)
