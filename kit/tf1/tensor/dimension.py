"""One size of a static shape: a number, or unknown.

Pure. Arithmetic with an unknown size gives an unknown size, a comparison None.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any


def _known(combine: Callable[[Any, Any], Any]) -> Any:
    """Return a method for two sizes, which gives None while one is unknown."""

    def method(self: Dimension, other: Any) -> Any:
        try:
            sizes = self.value, as_dimension(other).value
        except (TypeError, ValueError):
            return NotImplemented
        return None if None in sizes else combine(*sizes)

    return method


def _sized(combine: Callable[[Any, Any], Any]) -> Any:
    """Return a method for two sizes, which gives another size."""
    found = _known(combine)

    def method(self: Dimension, other: Any) -> Any:
        result = found(self, other)
        return result if result is NotImplemented else Dimension(result)

    return method


class Dimension:
    """A size of an axis; `value` is None while it is unknown.

    >>> Dimension(2) * 3, Dimension(None) + 1, Dimension(2) == Dimension(None)
    (Dimension(6), Dimension(None), None)
    """

    def __init__(self, value: Any) -> None:
        """Take a number, another size, or None."""
        self._value: int | None = None
        if isinstance(value, Dimension):
            self._value = value.value
        elif value is not None:
            try:
                self._value = operator.index(value)
            except TypeError:
                raise TypeError(
                    f"a Dimension must be a whole number or None, not {value!r}."
                ) from None
            if self._value < 0:
                raise ValueError(f"Dimension {self._value} must be >= 0")

    @property
    def value(self) -> int | None:
        """The size, None if unknown."""
        return self._value

    def is_compatible_with(self, other: Any) -> bool:
        """Whether one axis may have both sizes."""
        other = as_dimension(other)
        return None in (self._value, other.value) or self._value == other.value

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raise `ValueError` unless one axis may have both sizes."""
        if not self.is_compatible_with(other):
            raise ValueError(f"Dimensions {self} and {other} are not compatible")

    def merge_with(self, other: Any) -> Dimension:
        """Return the size that is known; raises `ValueError` if they differ."""
        self.assert_is_compatible_with(other)
        return as_dimension(other) if self._value is None else self

    __add__ = __radd__ = _sized(operator.add)
    __sub__, __rsub__ = _sized(operator.sub), _sized(lambda x, y: y - x)
    __mul__ = __rmul__ = _sized(operator.mul)
    __floordiv__, __rfloordiv__ = _sized(operator.floordiv), _sized(lambda x, y: y // x)
    __mod__, __rmod__ = _sized(operator.mod), _sized(lambda x, y: y % x)
    __eq__, __ne__ = _known(operator.eq), _known(operator.ne)
    __lt__, __le__ = _known(operator.lt), _known(operator.le)
    __gt__, __ge__ = _known(operator.gt), _known(operator.ge)
    # Two unknown sizes are neither equal nor unequal.
    __hash__ = None  # type: ignore[assignment]

    def __index__(self) -> Any:
        # Python itself refuses None here, which is what an unknown size deserves.
        return self._value

    def __int__(self) -> Any:
        return self._value

    def __str__(self) -> str:
        return "?" if self._value is None else str(self._value)

    def __repr__(self) -> str:
        return f"Dimension({self._value})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Dimension, (self._value,)


def as_dimension(value: Any) -> Dimension:
    """Return a size as it is, and anything else as a new `Dimension`."""
    return value if isinstance(value, Dimension) else Dimension(value)


def dimension_value(dimension: Any) -> Any:
    """Return the number of a `Dimension`, and anything else as it is."""
    return dimension.value if isinstance(dimension, Dimension) else dimension
