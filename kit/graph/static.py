"""What is known of a tensor before a run: shape, dtype, sometimes the value.

Pure. A shape is a tuple with None for an unknown size, or None when not even the number
of axes is known. Rules that find two shapes in conflict raise `ValueError` with both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from kit.graph.dtypes import Array, DType

Shape: TypeAlias = tuple[int | None, ...] | None


class Static(NamedTuple):
    """Shape and dtype of a tensor, and its value where that is a known constant.

    `partial` is a small value of which only some elements are known: float64, with NaN
    for the others.
    """

    shape: Shape
    dtype: DType
    value: Array | None = None
    partial: Array | None = None


def text(shape: Shape) -> str:
    """Return a shape for messages.

    >>> text((2, None)), text(None)
    ('[2, ?]', '[unknown]')
    """
    if shape is None:
        return "[unknown]"
    return f"[{', '.join('?' if size is None else str(size) for size in shape)}]"


def as_shape(shape: Any) -> Shape:
    """Return the shape that a sequence of sizes, one size or None means.

    Negative sizes are unknown. Raises `TypeError` or `ValueError` for anything else.

    >>> as_shape([2, None]), as_shape(3), as_shape(None)
    ((2, None), (3,), None)
    """
    if shape is None:
        return None
    if hasattr(shape, "as_list"):
        shape = shape.as_list() if shape.ndims is not None else None
        return None if shape is None else tuple(shape)
    if isinstance(shape, str | bytes):
        raise TypeError(
            f"{shape!r} is not a shape; give a list of sizes, such as [2, 3]."
        )
    if not isinstance(shape, Iterable) or getattr(shape, "ndim", 1) == 0:
        shape = [shape]
    return tuple(_size(size) for size in shape)


def _size(length: Any) -> int | None:
    length = getattr(length, "value", length)
    if length is None:
        return None
    size = int(length.__index__() if hasattr(length, "__index__") else int(length))
    return None if size < 0 else size


def is_known(shape: Shape) -> bool:
    """Whether every size is known."""
    return shape is not None and None not in shape


def known_shape(shape: Shape) -> tuple[int, ...]:
    """Return a shape of which every size is known; raises `ValueError` otherwise."""
    if shape is None or None in shape:
        raise ValueError(f"the shape {text(shape)} is not fully known here.")
    return tuple(size for size in shape if size is not None)


def n_elements(shape: Shape) -> int | None:
    """Return the number of elements, None while a size is unknown.

    >>> n_elements((2, 3)), n_elements((2, None)), n_elements(())
    (6, None, 1)
    """
    return math.prod(known_shape(shape)) if is_known(shape) else None


def broadcast(a: Shape, b: Shape, what: str = "the operands") -> Shape:
    """Return the shape of an element-wise operation of two tensors.

    >>> broadcast((3, 1), (None, 4)), broadcast((2,), None)
    ((3, 4), None)
    """
    if a is None or b is None:
        return None
    rank = max(len(a), len(b))
    left = (1,) * (rank - len(a)) + a
    right = (1,) * (rank - len(b)) + b
    sizes = []
    for x, y in zip(left, right, strict=True):
        if x == 1:
            sizes.append(y)
        elif y == 1 or x == y:
            sizes.append(x)
        elif x is None or y is None:
            sizes.append(x if y is None else y)
        else:
            raise ValueError(
                f"{what} have the shapes {text(a)} and {text(b)}, which cannot be "
                f"broadcast: {x} is not {y}, and neither is 1."
            )
    return tuple(sizes)


def merge(a: Shape, b: Shape, what: str = "the values") -> Shape:
    """Return what is known if both shapes describe the same tensor.

    >>> merge((2, None), (None, 3)), merge(None, (4,))
    ((2, 3), (4,))
    """
    if a is None or b is None:
        return b if a is None else a
    if len(a) != len(b):
        raise ValueError(
            f"{what} have the shapes {text(a)} and {text(b)}: {len(a)} and {len(b)} "
            f"axes."
        )
    sizes = []
    for x, y in zip(a, b, strict=True):
        if x is not None and y is not None and x != y:
            raise ValueError(
                f"{what} have the shapes {text(a)} and {text(b)}: {x} is not {y}."
            )
        sizes.append(y if x is None else x)
    return tuple(sizes)


def agrees(shape: Shape, other: Shape) -> bool:
    """Whether one tensor can have both shapes.

    >>> agrees((None, 2), (5, 2)), agrees((3,), (4,))
    (True, False)
    """
    if shape is None or other is None:
        return True
    return len(shape) == len(other) and all(
        x is None or y is None or x == y for x, y in zip(shape, other, strict=True)
    )


def same_dtype(statics: Sequence[Static], what: str) -> DType:
    """Return the one dtype of some tensors; raises `TypeError` if they differ."""
    dtypes = [static.dtype for static in statics]
    if any(dtype != dtypes[0] for dtype in dtypes):
        names = " and ".join(str(dtype) for dtype in dtypes)
        raise TypeError(f"{what} needs tensors of one dtype, not of {names}; cast one.")
    return dtypes[0]


def axis_of(axis: int, rank: int, what: str = "axis") -> int:
    """Return an axis as a number from 0; negative ones count from the end.

    >>> axis_of(-1, 3)
    2
    """
    if not -rank <= axis < rank:
        raise ValueError(
            f"{what} is {axis}, but the tensor has {rank} axes: give {-rank} to "
            f"{rank - 1}."
        )
    return axis % rank
