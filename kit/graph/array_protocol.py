"""How tensors take part in numpy: operators, ufuncs, array functions, slices.

Pure. What numpy does with arrays, it writes down with tensors: `np.tanh(x) @ w + 1`
adds ops to the graph. Which function becomes which op stands in two tables that
`kit.graph.ops` fills. Dtypes mix as numpy mixes them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np

from kit.graph.extension_points import DaskCollection

if TYPE_CHECKING:
    from kit.graph.op import Tensor


# --------------------------------------------------------------------------------------
# From numpy's functions to ops: two tables that `kit.graph.ops` fills.


B = TypeVar("B", bound=Callable[..., Any])

UFUNCS: dict[np.ufunc, Callable[..., Any]] = {}
FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {}


def speaks(*functions: Callable[..., Any]) -> Callable[[B], B]:
    """Use the decorated builder for these numpy functions when given tensors."""

    def enter(builder: B) -> B:
        for function in functions:
            if isinstance(function, np.ufunc):
                UFUNCS[function] = builder
            else:
                FUNCTIONS[function] = builder
        return builder

    return enter


class OperatorNotAllowedInGraphError(TypeError):
    """A tensor was used where Python needs its value now: `if t:`, `for x in t:`.

    Raised while the graph is built. The caller computes with ops instead, or runs the
    tensor first and uses its value. A retry fails again.
    """


def _left(ufunc: np.ufunc) -> Any:
    """Return the method of an operator, for the left or only operand."""
    return lambda self, *other: UFUNCS[ufunc](self, *other)


def _right(ufunc: np.ufunc) -> Any:
    return lambda self, other: UFUNCS[ufunc](other, self)


class ArrayProtocol(DaskCollection):
    """Gives a class the operators, functions and methods of numpy; see `_as_tensor`."""

    __array_priority__ = 1000.0

    def _as_tensor(self) -> Tensor:
        """Return the tensor that stands for this object in an expression."""
        raise NotImplementedError

    @property
    def ndim(self) -> int | None:
        """The number of axes; None if unknown."""
        shape = self._as_tensor().static.shape
        return None if shape is None else len(shape)

    @property
    def size(self) -> Any:
        """The number of elements: an int, or a tensor while it is unknown."""
        return FUNCTIONS[np.size](self)

    @property
    def T(self) -> Any:
        """The tensor with its axes in reverse order."""
        return FUNCTIONS[np.transpose](self)

    def reshape(self, *shape: Any) -> Any:
        """Return the same elements in another shape, as `np.reshape`."""
        wanted = shape[0] if len(shape) == 1 else shape
        return FUNCTIONS[np.reshape](self, wanted)

    def transpose(self, *axes: Any) -> Any:
        """Return the tensor with its axes in another order, or reversed."""
        order = axes[0] if len(axes) == 1 else (axes or None)
        return FUNCTIONS[np.transpose](self, order)

    def swapaxes(self, axis1: int, axis2: int) -> Any:
        """Return the tensor with two axes exchanged."""
        return FUNCTIONS[np.swapaxes](self, axis1, axis2)

    def squeeze(self, axis: Any = None) -> Any:
        """Return the tensor without axes of size 1."""
        return FUNCTIONS[np.squeeze](self, axis=axis)

    def ravel(self) -> Any:
        """Return all elements in one axis, row by row."""
        return FUNCTIONS[np.ravel](self)

    def flatten(self) -> Any:
        """Return all elements in one axis, row by row."""
        return FUNCTIONS[np.ravel](self)

    def astype(self, dtype: Any) -> Any:
        """Return the tensor cast to a dtype."""
        return FUNCTIONS[np.astype](self, dtype)

    def dot(self, other: Any) -> Any:
        """Return the product of matrices or vectors."""
        return FUNCTIONS[np.dot](self, other)

    def take(self, indices: Any, axis: int | None = None) -> Any:
        """Return the slices along an axis that integers name."""
        return FUNCTIONS[np.take](self, indices, axis=axis)

    def clip(self, min: Any = None, max: Any = None) -> Any:
        """Return the elements raised and lowered to bounds."""
        return FUNCTIONS[np.clip](self, min, max)

    def round(self, decimals: int = 0) -> Any:
        """Return the elements rounded, halves to the even neighbour."""
        return FUNCTIONS[np.round](self, decimals)

    def sum(self, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        """Return the sum over some axes, or over all."""
        return FUNCTIONS[np.sum](self, axis=axis, dtype=dtype, keepdims=keepdims)

    def prod(self, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        """Return the product over some axes, or over all."""
        return FUNCTIONS[np.prod](self, axis=axis, dtype=dtype, keepdims=keepdims)

    def mean(self, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        """Return the mean over some axes, or over all."""
        return FUNCTIONS[np.mean](self, axis=axis, dtype=dtype, keepdims=keepdims)

    def var(self, axis: Any = None, ddof: float = 0, keepdims: bool = False) -> Any:
        """Return the variance over some axes, or over all."""
        return FUNCTIONS[np.var](self, axis=axis, ddof=ddof, keepdims=keepdims)

    def std(self, axis: Any = None, ddof: float = 0, keepdims: bool = False) -> Any:
        """Return the standard deviation over some axes, or over all."""
        return FUNCTIONS[np.std](self, axis=axis, ddof=ddof, keepdims=keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> Any:
        """Return the largest element along some axes, or of all."""
        return FUNCTIONS[np.max](self, axis=axis, keepdims=keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> Any:
        """Return the smallest element along some axes, or of all."""
        return FUNCTIONS[np.min](self, axis=axis, keepdims=keepdims)

    def argmax(self, axis: Any = None) -> Any:
        """Return where the largest element is, along an axis or of all."""
        return FUNCTIONS[np.argmax](self, axis=axis)

    def argmin(self, axis: Any = None) -> Any:
        """Return where the smallest element is, along an axis or of all."""
        return FUNCTIONS[np.argmin](self, axis=axis)

    def all(self, axis: Any = None, keepdims: bool = False) -> Any:
        """Return whether all elements are true, along some axes or of all."""
        return FUNCTIONS[np.all](self, axis=axis, keepdims=keepdims)

    def any(self, axis: Any = None, keepdims: bool = False) -> Any:
        """Return whether any element is true, along some axes or of all."""
        return FUNCTIONS[np.any](self, axis=axis, keepdims=keepdims)

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any
    ) -> Any:
        # `np.add.reduce` is along the first axis by default, `np.sum` along all.
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

    def __cupy_override_elementwise_kernel__(self, kernel: Any, *inputs: Any) -> Any:
        """Take part in what a cupy array on the left does: `x * tensor`."""
        name = kernel.name.removeprefix("cupy_")
        return self.__array_ufunc__(getattr(np, name), "__call__", *inputs)

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
        raise TypeError(f"{self!r} has no value until a session runs it: {_RUN}")

    __int__ = __float__
    __index__ = __float__

    def __getitem__(self, key: Any) -> Any:
        return FUNCTIONS[operator.getitem](self, key)

    __add__, __radd__ = _left(np.add), _right(np.add)
    __sub__, __rsub__ = _left(np.subtract), _right(np.subtract)
    __mul__, __rmul__ = _left(np.multiply), _right(np.multiply)
    __truediv__, __rtruediv__ = _left(np.true_divide), _right(np.true_divide)
    __floordiv__, __rfloordiv__ = _left(np.floor_divide), _right(np.floor_divide)
    __mod__, __rmod__ = _left(np.remainder), _right(np.remainder)
    __pow__, __rpow__ = _left(np.power), _right(np.power)
    __matmul__, __rmatmul__ = _left(np.matmul), _right(np.matmul)
    __lt__, __le__ = _left(np.less), _left(np.less_equal)
    __gt__, __ge__ = _left(np.greater), _left(np.greater_equal)
    __and__, __rand__ = _left(np.logical_and), _right(np.logical_and)
    __or__, __ror__ = _left(np.logical_or), _right(np.logical_or)
    __xor__, __rxor__ = _left(np.logical_xor), _right(np.logical_xor)
    __neg__, __abs__ = _left(np.negative), _left(np.absolute)
    __invert__ = _left(np.logical_not)


_RUN = "session.run(tensor) gives its value."
_REDUCTIONS: dict[np.ufunc, Callable[..., Any]] = {
    np.add: np.sum,
    np.multiply: np.prod,
    np.maximum: np.max,
    np.minimum: np.min,
    np.logical_and: np.all,
    np.logical_or: np.any,
}


def tensor_of(x: ArrayProtocol) -> Tensor:
    """Return the tensor that stands for a tensor, a variable or their like."""
    return x._as_tensor()
