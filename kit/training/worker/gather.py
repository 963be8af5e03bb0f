"""Copy many small arrays into one flat array, with a few calls for hundreds of them.

A Python call for each array would cost more than its bytes: for a hundred floats two
microseconds to check and copy them, where one call for hundreds needs a tenth of that.
Knows nothing of parameters, steps or workers: who calls it names what did not fit.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from operator import attrgetter, eq, is_
from typing import Any

from kit.exchange.ports.memory import Array

_shape, _dtype = attrgetter("shape"), attrgetter("dtype")


class Gather:
    """A stretch of a flat array, filled with arrays that follow each other in it."""

    def __init__(self, flat: Array, shapes: Sequence[tuple[int, ...]]) -> None:
        """`flat` is contiguous and has as many elements as the shapes together."""
        self._place = flat.data.cast("B")
        self._shapes = list(shapes)
        self._dtypes = [flat.dtype] * len(self._shapes)
        self._first: weakref.ref[Any] | None = None
        self._kept: list[Any] = []
        self._views: list[Any] = []
        self._keeps = True

    def copy(self, arrays: list[Any]) -> bool:
        """Copy the arrays in; whether they were fit for it.

        They are if each has its shape and dtype and lies in one stretch of host memory.
        If not, part of the place may have been written. Arrays that come again are
        remembered from their second time on: of those, only the bytes are looked at.
        """
        try:
            joined = b"".join(self._checked(arrays))
            self._place[:] = joined
        except (AttributeError, BufferError, TypeError, ValueError):
            self._forget()
            return False
        return True

    def _checked(self, arrays: list[Any]) -> list[Any]:
        """Return something to read each array from; `ValueError` if one is unfit."""
        if self._kept:
            if all(map(is_, arrays, self._kept)):
                return self._views
            self._forget()
        shaped = all(map(eq, map(_shape, arrays), self._shapes))
        if not shaped or list(map(_dtype, arrays)) != self._dtypes:
            raise ValueError("other shapes or dtypes than those of the places")
        if self._keeps:
            self._remember(arrays)
        return self._views or arrays

    def _remember(self, arrays: list[Any]) -> None:
        """Keep arrays that come again: then it is not us who keep them alive."""
        if self._first is not None and self._first() is arrays[0]:
            self._kept, self._views = arrays, [memoryview(one) for one in arrays]
        self._first = weakref.ref(arrays[0])

    def _forget(self) -> None:
        """Give up on arrays that do not always come again."""
        self._kept, self._views, self._first, self._keeps = [], [], None, False
