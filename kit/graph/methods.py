"""The methods and attributes of numpy's arrays, for tensors.

Pure. Each is the function of numpy by the same name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kit.graph.vocabulary import FUNCTIONS

if TYPE_CHECKING:
    from kit.graph.op import Tensor


class ArrayMethods:
    """Gives a class the methods of numpy's arrays; see `_as_tensor`."""

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
