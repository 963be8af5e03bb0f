"""Static shapes, as the original's `TensorShape` and `Dimension` objects.

Pure. `kit.graph` itself keeps shapes as plain tuples; these are their public face.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kit.tf1.graph.shape_proto import TensorShapeProto, shape_proto
from kit.tf1.tensor.dimension import Dimension, as_dimension


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
        elif isinstance(dims, Iterable) and not isinstance(dims, str | bytes):
            self._dims = [as_dimension(one) for one in dims]
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
        return [one.value for one in self._dims]

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
            one.value is not None for one in self._dims
        )

    def is_compatible_with(self, other: Any) -> bool:
        """Whether one tensor may have both shapes."""
        other = as_shape(other)
        if self._dims is None or other._dims is None:
            return True
        return len(self._dims) == len(other._dims) and all(
            x.is_compatible_with(y)
            for x, y in zip(self._dims, other._dims, strict=True)
        )

    def merge_with(self, other: Any) -> TensorShape:
        """Return what is known of both; raises `ValueError` if they contradict."""
        found = as_shape(other)
        if self._dims is None:
            return found
        if found._dims is None:
            return self
        self.assert_same_rank(found)
        try:
            return TensorShape(
                [x.merge_with(y) for x, y in zip(self._dims, found._dims, strict=True)]
            )
        except ValueError:
            raise ValueError(f"Shapes {self} and {found} are not compatible") from None

    def most_specific_compatible_shape(self, other: Any) -> TensorShape:
        """Return what is known of both: the sizes in which they agree."""
        other = as_shape(other)
        if self._dims is None or other._dims is None or self.ndims != other.ndims:
            return unknown_shape()
        pairs = zip(self.as_list(), other.as_list(), strict=True)
        return TensorShape([x if x == y else None for x, y in pairs])

    def as_proto(self) -> TensorShapeProto:
        """Return the shape as a message."""
        return shape_proto(None if self._dims is None else tuple(self.as_list()))

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
        """Raise `ValueError` unless it may have `rank` axes."""
        if self.ndims not in (None, rank):
            raise ValueError(f"Shape {self} must have rank {rank}")

    def assert_same_rank(self, other: Any) -> None:
        """Raise `ValueError` unless both may have one number of axes."""
        other = as_shape(other)
        if None not in (self.ndims, other.ndims) and self.ndims != other.ndims:
            raise ValueError(f"Shapes {self} and {other} must have the same rank")

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raise `ValueError` unless one tensor may have both shapes."""
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {other} are incompatible")

    def assert_is_fully_defined(self) -> None:
        """Raise `ValueError` while a size is unknown."""
        if not self.is_fully_defined():
            raise ValueError(f"Shape {self} is not fully defined")

    def __getitem__(self, key: Any) -> Any:
        if self._dims is not None:
            found = self._dims[key]
            return TensorShape(found) if isinstance(key, slice) else found
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
            found = as_shape(other)
        except (TypeError, ValueError):
            return NotImplemented
        if self._dims is None or found._dims is None:
            return self._dims is found._dims
        return self.as_list() == found.as_list()

    def __hash__(self) -> int:
        if not self.is_fully_defined():
            raise ValueError("Unable to hash partially-defined TensorShape.")
        return hash(tuple(self.as_list()))

    def __str__(self) -> str:
        if self._dims is None:
            return "<unknown>"
        sizes = [str(one) for one in self._dims]
        return f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"

    def __repr__(self) -> str:
        return f"TensorShape({self._dims!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return TensorShape, (self._dims,)


def as_shape(shape: Any) -> TensorShape:
    """Return a shape as it is, and anything else as a new `TensorShape`."""
    return shape if isinstance(shape, TensorShape) else TensorShape(shape)


def unknown_shape(rank: int | None = None) -> TensorShape:
    """Return a shape of which nothing, or the number of axes alone, is known."""
    return TensorShape(None if rank is None else [None] * rank)


def _slice_of_unknown(key: slice) -> TensorShape:
    """Return the part of a shape of unknown rank: sometimes its length is known."""
    start, stop = key.start or 0, key.stop
    if key.step is not None or stop is None or start < 0 or stop < 0:
        return TensorShape(None)
    return unknown_shape(max(0, stop - start))
