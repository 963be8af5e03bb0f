"""Static shapes, as the original's `TensorShape`, `Dimension` and message objects.

Pure. `kit.graph` itself keeps shapes as plain tuples; these are their public face.
Arithmetic with an unknown size gives an unknown size, a comparison None.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from kit.tf1.graph.message import CheckedMessage, Repeated


def _if_both(combine: Callable[[Any, Any], Any]) -> Any:
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
    merge = _if_both(combine)

    def method(self: Dimension, other: Any) -> Any:
        result = merge(self, other)
        return result if result is NotImplemented else Dimension(result)

    return method


class Dimension:
    """A size of an axis; `value` is None while it is unknown.

    >>> Dimension(2) * 3, Dimension(None) + 1, Dimension(2) == Dimension(None)
    (Dimension(6), Dimension(None), None)
    """

    def __init__(self, value: Any) -> None:
        """Take a number, another size, or None.

        A float that is whole is taken, because `n / 2` gave a whole number in Python 2.
        Raises `ValueError` for another one, and `TypeError` for what is no number.
        """
        self._value: int | None = None
        if isinstance(value, Dimension):
            self._value = value.value
        elif value is not None:
            if isinstance(value, float | np.floating):
                if not value.is_integer():
                    raise ValueError(f"Ambiguous dimension: {value}")
                value = int(value)
            try:
                is_text = isinstance(value, str)
                self._value = int(value) if is_text else operator.index(value)
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
        """Whether one axis can have both sizes."""
        other = as_dimension(other)
        return None in (self._value, other.value) or self._value == other.value

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raise `ValueError` unless one axis can have both sizes."""
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
    __eq__, __ne__ = _if_both(operator.eq), _if_both(operator.ne)
    __lt__, __le__ = _if_both(operator.lt), _if_both(operator.le)
    __gt__, __ge__ = _if_both(operator.gt), _if_both(operator.ge)
    # Two unknown sizes are neither equal nor unequal.
    __hash__ = None  # type: ignore[assignment]

    def __index__(self) -> Any:
        # Python itself refuses None here, as it should for an unknown size.
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


class Dim(CheckedMessage):
    """One size; -1 if it is unknown."""

    size: int
    name: str


class TensorShapeProto(CheckedMessage):
    """A shape."""

    dim: Repeated[Dim]
    unknown_rank: bool
    Dim = Dim


def shape_proto(shape: tuple[int | None, ...] | None) -> TensorShapeProto:
    """Return a static shape as a message."""
    if shape is None:
        return TensorShapeProto(unknown_rank=True)
    sizes = (-1 if size is None else size for size in shape)
    return TensorShapeProto(dim=[Dim(size=size) for size in sizes])


class TensorShape:
    """The sizes of a tensor's axes, as far as they are known.

    >>> TensorShape([2, None]), TensorShape(None)
    (TensorShape([Dimension(2), Dimension(None)]), TensorShape(None))
    """

    def __init__(self, dims: Any) -> None:
        """Take sizes, one size, another shape, or None for an unknown rank."""
        self._dims: list[Dimension] | None
        if dims is None:
            self._dims = None
        elif isinstance(dims, TensorShape):
            self._dims = dims.dims
        elif isinstance(dims, TensorShapeProto):
            sizes = [
                None if dimension.size == -1 else dimension.size
                for dimension in dims.dim
            ]
            dimensions = [as_dimension(size) for size in sizes]
            self._dims = None if dims.unknown_rank else dimensions
        elif isinstance(dims, Iterable) and not isinstance(dims, str | bytes):
            self._dims = [as_dimension(dim) for dim in dims]
        else:
            self._dims = [as_dimension(dims)]

    @property
    def dims(self) -> list[Dimension] | None:
        """The sizes, None if the rank is unknown."""
        return None if self._dims is None else list(self._dims)

    @property
    def ndims(self) -> int | None:
        """The number of axes, None if unknown."""
        return None if self._dims is None else len(self._dims)

    rank = ndims

    def as_list(self) -> list[int | None]:
        """Return the sizes; raises `ValueError` if the rank is unknown."""
        if self._dims is None:
            raise ValueError("as_list() is not defined on an unknown TensorShape.")
        return [dim.value for dim in self._dims]

    def num_elements(self) -> int | None:
        """Return the number of elements, None while a size is unknown."""
        if not self.is_fully_defined():
            return None
        total = 1
        for size in self.as_list():
            total *= size or 0
        return total

    def is_fully_defined(self) -> bool:
        """Whether every size is known."""
        return self._dims is not None and all(
            dim.value is not None for dim in self._dims
        )

    def is_compatible_with(self, other: Any) -> bool:
        """Whether one tensor can have both shapes."""
        other = as_shape(other)
        if self._dims is None or other._dims is None:
            return True
        return len(self._dims) == len(other._dims) and all(
            x.is_compatible_with(y)
            for x, y in zip(self._dims, other._dims, strict=True)
        )

    def merge_with(self, other: Any) -> TensorShape:
        """Return the merged shape; raises `ValueError` if the two contradict."""
        shape = as_shape(other)
        if self._dims is None:
            return shape
        if shape._dims is None:
            return self
        self.assert_same_rank(shape)
        try:
            return TensorShape(
                [x.merge_with(y) for x, y in zip(self._dims, shape._dims, strict=True)]
            )
        except ValueError:
            raise ValueError(f"Shapes {self} and {shape} are not compatible") from None

    def most_specific_compatible_shape(self, other: Any) -> TensorShape:
        """Return the sizes in which both shapes agree."""
        other = as_shape(other)
        if self._dims is None or other._dims is None or self.ndims != other.ndims:
            return unknown_shape()
        pairs = zip(self.as_list(), other.as_list(), strict=True)
        return TensorShape([x if x == y else None for x, y in pairs])

    def as_proto(self) -> TensorShapeProto:
        """Return the shape as a message."""
        return shape_proto(static_of(self))

    def concatenate(self, other: Any) -> TensorShape:
        """Return the sizes of this shape followed by those of another."""
        other = as_shape(other)
        if self._dims is None or other._dims is None:
            return TensorShape(None)
        return TensorShape(self._dims + other._dims)

    __add__ = concatenate

    def __radd__(self, other: Any) -> TensorShape:
        return as_shape(other).concatenate(self)

    def with_rank(self, rank: int) -> TensorShape:
        """Return this shape; raises `ValueError` if it cannot have `rank` axes."""
        try:
            return self.merge_with(unknown_shape(rank))
        except ValueError:
            raise ValueError(f"Shape {self} must have rank {rank}") from None

    def with_rank_at_least(self, rank: int) -> TensorShape:
        """Return this shape; raises `ValueError` if it has fewer axes."""
        if self.ndims is not None and self.ndims < rank:
            raise ValueError(f"Shape {self} must have rank at least {rank}")
        return self

    def with_rank_at_most(self, rank: int) -> TensorShape:
        """Return this shape; raises `ValueError` if it has more axes."""
        if self.ndims is not None and self.ndims > rank:
            raise ValueError(f"Shape {self} must have rank at most {rank}")
        return self

    def assert_has_rank(self, rank: int) -> None:
        """Raise `ValueError` unless it can have `rank` axes."""
        if self.ndims not in (None, rank):
            raise ValueError(f"Shape {self} must have rank {rank}")

    def assert_same_rank(self, other: Any) -> None:
        """Raise `ValueError` unless both can have the same number of axes."""
        other = as_shape(other)
        if None not in (self.ndims, other.ndims) and self.ndims != other.ndims:
            raise ValueError(f"Shapes {self} and {other} must have the same rank")

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raise `ValueError` unless one tensor can have both shapes."""
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {other} are incompatible")

    def assert_is_fully_defined(self) -> None:
        """Raise `ValueError` while a size is unknown."""
        if not self.is_fully_defined():
            raise ValueError(f"Shape {self} is not fully defined")

    def __getitem__(self, key: Any) -> Any:
        if self._dims is not None:
            dims = self._dims[key]
            return TensorShape(dims) if isinstance(key, slice) else dims
        if not isinstance(key, slice):
            return Dimension(None)
        return _slice_of_unknown(key)

    def __iter__(self) -> Iterator[Dimension]:
        if self._dims is None:
            raise ValueError("Cannot iterate over a shape with unknown rank.")
        return iter(self._dims)

    def __len__(self) -> int:
        if self._dims is None:
            raise ValueError("Cannot take the length of Shape with unknown rank.")
        return len(self._dims)

    def __bool__(self) -> bool:
        return self._dims is not None

    def __eq__(self, other: object) -> bool:
        try:
            shape = as_shape(other)
        except (TypeError, ValueError):
            return NotImplemented
        # Two unknown sizes are equal only where they are one and the same.
        return bool(self._dims == shape._dims)

    def __ne__(self, other: object) -> bool:
        try:
            shape = as_shape(other)
        except (TypeError, ValueError):
            return NotImplemented
        if self._dims is None or shape._dims is None:
            raise ValueError("The inequality of unknown TensorShapes is undefined.")
        return self._dims != shape._dims

    def __hash__(self) -> int:
        if not self.is_fully_defined():
            raise ValueError("Unable to hash partially-defined TensorShape.")
        return hash(tuple(self.as_list()))

    def __str__(self) -> str:
        if self._dims is None:
            return "<unknown>"
        sizes = [str(dim) for dim in self._dims]
        return f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"

    def __repr__(self) -> str:
        return f"TensorShape({self._dims!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return TensorShape, (self._dims,)


def as_shape(shape: Any) -> TensorShape:
    """Return a shape as it is, and anything else as a new `TensorShape`."""
    return shape if isinstance(shape, TensorShape) else TensorShape(shape)


def static_of(shape: Any) -> tuple[int | None, ...] | None:
    """Return a shape as `kit.graph` keeps it: a tuple, None for an unknown rank.

    >>> static_of([2, None]), static_of(None)
    ((2, None), None)
    """
    static_shape = as_shape(shape)
    return None if static_shape.ndims is None else tuple(static_shape.as_list())


def unknown_shape(rank: int | None = None) -> TensorShape:
    """Return a shape of which at most the number of axes is known."""
    return TensorShape(None if rank is None else [None] * rank)


def _slice_of_unknown(key: slice) -> TensorShape:
    """Return the part of a shape of unknown rank: sometimes its length is known."""
    start, stop = key.start or 0, key.stop
    if key.step is not None or stop is None or start < 0 or stop < 0:
        return TensorShape(None)
    return unknown_shape(max(0, stop - start))
