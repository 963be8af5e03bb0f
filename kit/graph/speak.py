"""How tensors speak numpy: operators, ufuncs, array functions, slices.

Pure. What numpy does with arrays, it writes down with tensors: `np.tanh(x) @ w + 1`
adds ops to the graph. Which function becomes which op stands in two tables that
`kit.graph.ops` fills. Dtypes mix as numpy mixes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

from kit.graph.lent import Collected
from kit.graph.methods import ArrayMethods
from kit.graph.vocabulary import FUNCTIONS as FUNCTIONS
from kit.graph.vocabulary import SLICING as SLICING
from kit.graph.vocabulary import UFUNCS as UFUNCS
from kit.graph.vocabulary import speaks as speaks


class OperatorNotAllowedInGraphError(TypeError):
    """A tensor was used where Python needs its value now: `if t:`, `for x in t:`."""


def _call(ufunc: np.ufunc, *operands: Any) -> Any:
    return UFUNCS[ufunc](*operands)


class Speaker(ArrayMethods, Collected):
    """Gives a class the operators and functions of numpy; see `_as_tensor`."""

    __array_priority__ = 1000.0

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any
    ) -> Any:
        if method == "reduce" and ufunc in _REDUCTIONS:
            return FUNCTIONS[_REDUCTIONS[ufunc]](*inputs, **{"axis": 0, **options})
        if method != "__call__" or options or ufunc not in UFUNCS:
            how = "" if method == "__call__" else f".{method}"
            extra = f" with {', '.join(options)}" if options else ""
            raise TypeError(
                f"np.{ufunc.__name__}{how}{extra} cannot be written into a graph; use "
                f"kit.py_function for what has no op of its own."
            )
        return UFUNCS[ufunc](*inputs)

    def __array_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        if func not in FUNCTIONS:
            raise TypeError(
                f"numpy.{func.__name__} cannot be written into a graph; use "
                f"kit.py_function for what has no op of its own."
            )
        return FUNCTIONS[func](*args, **kwargs)

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(f"{self!r} has no value until a session runs it: {_RUN}")

    def __bool__(self) -> NoReturn:
        raise OperatorNotAllowedInGraphError(
            f"{self!r} is neither true nor false before a session runs it: {_RUN} To "
            f"choose between two tensors use np.where(condition, a, b)."
        )

    def __iter__(self) -> Iterator[Any]:
        raise OperatorNotAllowedInGraphError(
            f"{self!r} cannot be iterated before a session runs it: {_RUN} To take it "
            f"apart use np.split or slices."
        )

    def __float__(self) -> NoReturn:
        raise TypeError(f"{self!r} is no number until a session runs it: {_RUN}")

    __int__ = __float__
    __index__ = __float__

    def __getitem__(self, key: Any) -> Any:
        return SLICING[0](self, key)

    def __add__(self, other: Any) -> Any:
        return _call(np.add, self, other)

    def __radd__(self, other: Any) -> Any:
        return _call(np.add, other, self)

    def __sub__(self, other: Any) -> Any:
        return _call(np.subtract, self, other)

    def __rsub__(self, other: Any) -> Any:
        return _call(np.subtract, other, self)

    def __mul__(self, other: Any) -> Any:
        return _call(np.multiply, self, other)

    def __rmul__(self, other: Any) -> Any:
        return _call(np.multiply, other, self)

    def __truediv__(self, other: Any) -> Any:
        return _call(np.true_divide, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _call(np.true_divide, other, self)

    def __floordiv__(self, other: Any) -> Any:
        return _call(np.floor_divide, self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _call(np.floor_divide, other, self)

    def __mod__(self, other: Any) -> Any:
        return _call(np.remainder, self, other)

    def __rmod__(self, other: Any) -> Any:
        return _call(np.remainder, other, self)

    def __pow__(self, other: Any) -> Any:
        return _call(np.power, self, other)

    def __rpow__(self, other: Any) -> Any:
        return _call(np.power, other, self)

    def __matmul__(self, other: Any) -> Any:
        return _call(np.matmul, self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return _call(np.matmul, other, self)

    def __lt__(self, other: Any) -> Any:
        return _call(np.less, self, other)

    def __le__(self, other: Any) -> Any:
        return _call(np.less_equal, self, other)

    def __gt__(self, other: Any) -> Any:
        return _call(np.greater, self, other)

    def __ge__(self, other: Any) -> Any:
        return _call(np.greater_equal, self, other)

    def __and__(self, other: Any) -> Any:
        return _call(np.logical_and, self, other)

    def __rand__(self, other: Any) -> Any:
        return _call(np.logical_and, other, self)

    def __or__(self, other: Any) -> Any:
        return _call(np.logical_or, self, other)

    def __ror__(self, other: Any) -> Any:
        return _call(np.logical_or, other, self)

    def __xor__(self, other: Any) -> Any:
        return _call(np.logical_xor, self, other)

    def __rxor__(self, other: Any) -> Any:
        return _call(np.logical_xor, other, self)

    def __neg__(self) -> Any:
        return UFUNCS[np.negative](self)

    def __abs__(self) -> Any:
        return UFUNCS[np.absolute](self)

    def __invert__(self) -> Any:
        return UFUNCS[np.logical_not](self)


_RUN = "session.run(tensor) gives its value."
_REDUCTIONS: dict[np.ufunc, Callable[..., Any]] = {
    np.add: np.sum,
    np.multiply: np.prod,
    np.maximum: np.max,
    np.minimum: np.min,
    np.logical_and: np.all,
    np.logical_or: np.any,
}
