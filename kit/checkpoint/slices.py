"""A rectangle of a tensor: what a part of a cut variable is of the whole.

Pure. As text it is the shape of the whole, then for each axis where it begins and how
far it goes, `-` for all: `5 2 0,3:-`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kit.checkpoint.pieces import Array
from kit.errors import InvalidArgumentError


@dataclass(frozen=True)
class Slice:
    """A rectangle: where it begins in the whole, and its sizes."""

    whole: tuple[int, ...]
    begin: tuple[int, ...]
    sizes: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> Slice:
        """Return the rectangle that a text means; raises `InvalidArgumentError`.

        >>> Slice.parse("5 2 0,3:-")
        Slice(whole=(5, 2), begin=(0, 0), sizes=(3, 2))
        """
        try:
            *shape, axes = text.split(" ")
            whole = tuple(int(size) for size in shape)
            pairs = [
                (0, size) if axis == "-" else tuple(map(int, axis.split(",")))
                for axis, size in zip(axes.split(":"), whole, strict=True)
            ]
            begin, sizes = zip(*pairs, strict=True)
        except ValueError as exc:
            raise InvalidArgumentError(f"{text!r} is no slice of a tensor.") from exc
        return checked(cls(whole, begin, sizes))

    @property
    def text(self) -> str:
        """The rectangle as text, the same for equal ones.

        >>> Slice((5, 2), (0, 0), (3, 2)).text
        '5 2 0,3:0,2'
        """
        axes = [f"{b},{n}" for b, n in zip(self.begin, self.sizes, strict=True)]
        return " ".join([*map(str, self.whole), ":".join(axes)])

    @property
    def key(self) -> tuple[slice, ...]:
        """What takes it out of an array of the whole."""
        pairs = zip(self.begin, self.sizes, strict=True)
        return tuple(slice(b, b + n) for b, n in pairs)


def checked(one: Slice) -> Slice:
    """Return a rectangle that lies within its whole, else `InvalidArgumentError`."""
    rows = list(zip(one.whole, one.begin, one.sizes, strict=False))
    is_even = len(one.whole) == len(one.begin) == len(one.sizes)
    if not is_even or any(b < 0 or n < 0 or b + n > size for size, b, n in rows):
        raise InvalidArgumentError(f"{one} is no slice within the whole.")
    return one


def cut_out(wanted: Slice, parts: Sequence[tuple[Slice, Array]], dtype: Any) -> Array:
    """Return a rectangle, put together from others of the same whole.

    Raises `InvalidArgumentError` when they do not hold all of it.

    >>> part = Slice.parse("4 2,2"), np.array([3, 4])
    >>> cut_out(Slice.parse("4 3,1"), [part], "int64")
    array([4])
    """
    if math.prod(wanted.sizes) > sum(values.size for _, values in parts):
        raise _incomplete(wanted)  # and no memory taken for it
    made = np.empty(wanted.sizes, dtype)
    is_there = np.zeros(wanted.sizes, bool)
    for part, values in parts:
        target, source = _common(wanted, part)
        made[target] = values[source]
        is_there[target] = True
    if not is_there.all():
        raise _incomplete(wanted)
    return made


def _incomplete(wanted: Slice) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"the checkpoint does not hold all of the slice {wanted.text!r}."
    )


def _common(wanted: Slice, part: Slice) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Return what two rectangles have in common, as seen from each."""
    target, source = [], []
    for at, size, there, length in zip(
        wanted.begin, wanted.sizes, part.begin, part.sizes, strict=True
    ):
        lo = max(at, there)
        hi = max(min(at + size, there + length), lo)
        target.append(slice(lo - at, hi - at))
        source.append(slice(lo - there, hi - there))
    return tuple(target), tuple(source)
