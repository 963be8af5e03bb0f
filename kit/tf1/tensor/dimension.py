"""One size of a static shape: a number, or unknown.

Pure. Arithmetic with an unknown size gives an unknown size, a comparison None.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any


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

    def _with(self, other: Any, combine: Callable[[Any, Any], Any]) -> Any:
        try:
            there = as_dimension(other).value
        except (TypeError, ValueError):
            return NotImplemented
        known = self._value is not None and there is not None
        return Dimension(combine(self._value, there) if known else None)

    def _compared(self, other: Any, compare: Callable[[Any, Any], Any]) -> Any:
        try:
            there = as_dimension(other).value
        except (TypeError, ValueError):
            return NotImplemented
        if self._value is None or there is None:
            return None
        return compare(self._value, there)

    def __add__(self, other: Any) -> Any:
        return self._with(other, operator.add)

    def __radd__(self, other: Any) -> Any:
        return self._with(other, operator.add)

    def __sub__(self, other: Any) -> Any:
        return self._with(other, operator.sub)

    def __rsub__(self, other: Any) -> Any:
        return self._with(other, lambda mine, there: there - mine)

    def __mul__(self, other: Any) -> Any:
        return self._with(other, operator.mul)

    def __rmul__(self, other: Any) -> Any:
        return self._with(other, operator.mul)

    def __floordiv__(self, other: Any) -> Any:
        return self._with(other, operator.floordiv)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._with(other, lambda mine, there: there // mine)

    def __mod__(self, other: Any) -> Any:
        return self._with(other, operator.mod)

    def __rmod__(self, other: Any) -> Any:
        return self._with(other, lambda mine, there: there % mine)

    def __eq__(self, other: object) -> Any:
        return self._compared(other, operator.eq)

    def __ne__(self, other: object) -> Any:
        return self._compared(other, operator.ne)

    def __lt__(self, other: Any) -> Any:
        return self._compared(other, operator.lt)

    def __le__(self, other: Any) -> Any:
        return self._compared(other, operator.le)

    def __gt__(self, other: Any) -> Any:
        return self._compared(other, operator.gt)

    def __ge__(self, other: Any) -> Any:
        return self._compared(other, operator.ge)

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
