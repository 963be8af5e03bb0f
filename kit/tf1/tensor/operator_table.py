"""Python's operators on tensors and variables, from a table that `operators` fills.

Pure. Unlike in `kit.graph`, nothing is promoted, and `==` compares identity.
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


def _asks(name: str) -> Any:
    """Return a method that looks in the table when it is called: it is filled later."""
    return lambda self, *other: OPERATORS[name](self, *other)


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

    __add__, __radd__ = _asks("add"), _asks("radd")
    __sub__, __rsub__ = _asks("sub"), _asks("rsub")
    __mul__, __rmul__ = _asks("mul"), _asks("rmul")
    __truediv__, __rtruediv__ = _asks("truediv"), _asks("rtruediv")
    __floordiv__, __rfloordiv__ = _asks("floordiv"), _asks("rfloordiv")
    __mod__, __rmod__ = _asks("mod"), _asks("rmod")
    __pow__, __rpow__ = _asks("pow"), _asks("rpow")
    __matmul__, __rmatmul__ = _asks("matmul"), _asks("rmatmul")
    __lt__, __le__, __gt__, __ge__ = map(_asks, ("lt", "le", "gt", "ge"))
    __and__, __rand__ = _asks("and"), _asks("rand")
    __or__, __ror__ = _asks("or"), _asks("ror")
    __xor__, __rxor__ = _asks("xor"), _asks("rxor")
    __neg__, __abs__, __invert__ = map(_asks, ("neg", "abs", "invert"))
    __getitem__ = _asks("getitem")

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return id(self)
