"""Python's operators on tensors and variables, by a table that `operators` fills.

Pure. Unlike in `kit.graph` nothing is promoted, and `==` asks whether two are one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

# By the name of the method; those of the right operand begin with r.
OPERATORS: dict[str, Callable[..., Any]] = {}

# An array on the left asks its ufunc, which asks us: the method that answers.
_FROM_ARRAY: dict[np.ufunc, tuple[str, str]] = {
    np.add: ("add", "radd"),
    np.subtract: ("sub", "rsub"),
    np.multiply: ("mul", "rmul"),
    np.true_divide: ("truediv", "rtruediv"),
    np.floor_divide: ("floordiv", "rfloordiv"),
    np.remainder: ("mod", "rmod"),
    np.power: ("pow", "rpow"),
    np.matmul: ("matmul", "rmatmul"),
    np.less: ("lt", "gt"),
    np.less_equal: ("le", "ge"),
    np.greater: ("gt", "lt"),
    np.greater_equal: ("ge", "le"),
    np.bitwise_and: ("and", "rand"),
    np.bitwise_or: ("or", "ror"),
    np.bitwise_xor: ("xor", "rxor"),
}


class Operators:
    """Gives a class the strict operators of the original."""

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any
    ) -> Any:
        if method != "__call__" or options or ufunc not in _FROM_ARRAY:
            return super().__array_ufunc__(  # type: ignore[misc]
                ufunc, method, *inputs, **options
            )
        left, right = inputs
        mine, reflected = _FROM_ARRAY[ufunc]
        if isinstance(left, Operators):
            return OPERATORS[mine](left, right)
        return OPERATORS[reflected](right, left)

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(
            f"Cannot convert a symbolic Tensor ({self}) to a numpy array; run it in a "
            f"session first."
        )

    def __add__(self, other: Any) -> Any:
        return OPERATORS["add"](self, other)

    def __radd__(self, other: Any) -> Any:
        return OPERATORS["radd"](self, other)

    def __sub__(self, other: Any) -> Any:
        return OPERATORS["sub"](self, other)

    def __rsub__(self, other: Any) -> Any:
        return OPERATORS["rsub"](self, other)

    def __mul__(self, other: Any) -> Any:
        return OPERATORS["mul"](self, other)

    def __rmul__(self, other: Any) -> Any:
        return OPERATORS["rmul"](self, other)

    def __truediv__(self, other: Any) -> Any:
        return OPERATORS["truediv"](self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return OPERATORS["rtruediv"](self, other)

    def __floordiv__(self, other: Any) -> Any:
        return OPERATORS["floordiv"](self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return OPERATORS["rfloordiv"](self, other)

    def __mod__(self, other: Any) -> Any:
        return OPERATORS["mod"](self, other)

    def __rmod__(self, other: Any) -> Any:
        return OPERATORS["rmod"](self, other)

    def __pow__(self, other: Any) -> Any:
        return OPERATORS["pow"](self, other)

    def __rpow__(self, other: Any) -> Any:
        return OPERATORS["rpow"](self, other)

    def __matmul__(self, other: Any) -> Any:
        return OPERATORS["matmul"](self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return OPERATORS["rmatmul"](self, other)

    def __lt__(self, other: Any) -> Any:
        return OPERATORS["lt"](self, other)

    def __le__(self, other: Any) -> Any:
        return OPERATORS["le"](self, other)

    def __gt__(self, other: Any) -> Any:
        return OPERATORS["gt"](self, other)

    def __ge__(self, other: Any) -> Any:
        return OPERATORS["ge"](self, other)

    def __and__(self, other: Any) -> Any:
        return OPERATORS["and"](self, other)

    def __rand__(self, other: Any) -> Any:
        return OPERATORS["rand"](self, other)

    def __or__(self, other: Any) -> Any:
        return OPERATORS["or"](self, other)

    def __ror__(self, other: Any) -> Any:
        return OPERATORS["ror"](self, other)

    def __xor__(self, other: Any) -> Any:
        return OPERATORS["xor"](self, other)

    def __rxor__(self, other: Any) -> Any:
        return OPERATORS["rxor"](self, other)

    def __neg__(self) -> Any:
        return OPERATORS["neg"](self)

    def __abs__(self) -> Any:
        return OPERATORS["abs"](self)

    def __invert__(self) -> Any:
        return OPERATORS["invert"](self)

    def __getitem__(self, key: Any) -> Any:
        return OPERATORS["getitem"](self, key)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return id(self)
