"""Windows that slide over the rows and columns of images.

What convolution and pooling share: how many windows there are, which borders they need
and how to look at what they see. Images are NHWC: [image, row, column, channel].

    size 5, window 3, stride 2, "SAME":   . a b c d e .     one before, one after
                                          [---]             3 windows
                                              [---]
                                                  [---]

A processor takes as many images at a time as its cache holds: what is made of them on
the way is often many times larger, and would take longer to memory and back than to be
computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, Final, NamedTuple

import numpy as np

from kit.errors import InvalidArgumentError

# Any: an array of whichever module computes.
Array = Any
Sizes = Sequence[int | None]

PADDINGS = ("SAME", "VALID")
# Half of the smallest cache that belongs to a core of a present server.
_CACHED_BYTES: Final = 2**20


class WindowAxis(NamedTuple):
    """One axis of the images, its two borders and the windows along it."""

    size: int
    window: int
    stride: int
    before: int
    after: int
    n_windows: int

    @property
    def padded(self) -> int:
        """The axis' length with its borders."""
        return self.before + self.size + self.after


def window_count(
    size: int | None, window: int | None, stride: int, padding: str
) -> int | None:
    """Return the number of windows along an axis; None while that is unknown.

    "SAME" covers the axis, "VALID" stays inside. Raises `ValueError` when a window is
    larger than an axis inside which it must stay.

    >>> window_count(5, 3, 2, "SAME"), window_count(5, 3, 2, "VALID")
    (3, 2)
    """
    if padding == "SAME":
        return None if size is None else -(-size // stride)
    if size is None or window is None:
        return None
    if window > size:
        raise ValueError(
            f"a window of {window} does not fit into {size} with padding 'VALID'; use "
            f"a smaller window, a larger image or padding 'SAME'."
        )
    return (size - window) // stride + 1


def axis_of(size: int, window: int, stride: int, padding: str) -> WindowAxis:
    """Return the positions of an axis' windows; an odd border is larger at the end.

    Raises `ValueError` as `window_count` does.

    >>> axis_of(6, 3, 2, "SAME")
    WindowAxis(size=6, window=3, stride=2, before=0, after=1, n_windows=3)
    """
    count = window_count(size, window, stride, padding)
    assert count is not None  # the sizes are numbers
    border = 0
    if padding == "SAME" and count:
        border = max((count - 1) * stride + window - size, 0)
    return WindowAxis(size, window, stride, border // 2, border - border // 2, count)


def check_settings(padding: str, **fours: Sequence[int]) -> None:
    """Raise `ValueError` unless the padding has a name and the fours are four numbers.

    Each of `fours` is [1, rows, columns, 1]: no window reaches over images or channels.

    >>> check_settings("SAME", strides=[1, 2, 2, 1])
    """
    if padding not in PADDINGS:
        raise ValueError(f"padding is {padding!r}; give one of {', '.join(PADDINGS)}.")
    for name, four in fours.items():
        if len(four) != 4 or min(four) < 1:
            raise ValueError(
                f"{name} is {list(four)}; give four numbers of at least 1: "
                f"[1, rows, columns, 1]."
            )
        if (four[0], four[3]) != (1, 1):
            raise ValueError(
                f"{name} is {list(four)}, but windows lie over rows and columns only; "
                f"give [1, {four[1]}, {four[2]}, 1]."
            )


def check_images(what: str, shape: Sizes) -> None:
    """Raise `ValueError` unless the shape has four axes.

    >>> check_images("x", (None, 28, 28, 1))
    """
    if len(shape) != 4:
        raise ValueError(
            f"{what} has the shape {list(shape)}; give images with four axes: "
            f"[image, row, column, channel]."
        )


def check_like(what: str, shape: Sequence[int], wanted: Sequence[int]) -> None:
    """Raise `InvalidArgumentError` unless the array's shape is the wanted one.

    >>> check_like("dy", (1, 2), (1, 2))
    """
    if tuple(shape) != tuple(wanted):
        raise InvalidArgumentError(
            f"{what} has the shape {list(shape)}, but the windows make "
            f"{list(wanted)}; pass the array that belongs to this input."
        )


def parts(
    xp: ModuleType, shape: Sequence[int], n_bytes: int, most: int | None = None
) -> Iterator[slice]:
    """Yield the images of a shape in parts; each row and column takes so many bytes.

    A part has at most `most` images. On a device there is one part. None is yielded
    where nothing is to be computed.

    >>> [*parts(np, (3, 16, 16, 1), 2048)]
    [slice(0, 2, None), slice(2, 4, None)]
    """
    size = shape[0]
    if xp is np:
        size = max(1, _CACHED_BYTES // max(1, shape[1] * shape[2] * n_bytes))
        size = min(size, most or size)
    if 0 not in shape:
        for start in range(0, shape[0], size):
            yield slice(start, start + size)


def padded(
    xp: ModuleType, x: Array, rows: WindowAxis, cols: WindowAxis, fill: float = 0
) -> Array:
    """Return the images with their borders, as a copy unless there are none."""
    if (rows.padded, cols.padded) == (rows.size, cols.size):
        return x
    images, channels = x.shape[0], x.shape[3]
    out = xp.full((images, rows.padded, cols.padded, channels), fill, dtype=x.dtype)
    cropped(out, rows, cols)[...] = x
    return out


def cropped(x: Array, rows: WindowAxis, cols: WindowAxis) -> Array:
    """Return a view of the images without their borders."""
    return x[
        :, rows.before : rows.before + rows.size, cols.before : cols.before + cols.size
    ]


def places(
    rows: WindowAxis, cols: WindowAxis
) -> Iterator[tuple[int, int, tuple[slice, ...]]]:
    """Yield each place (row, column) in a window and where all windows have it.

    In the order of rows, then columns. The third part indexes the padded images and
    selects [image, window row, window column, channel].
    """
    for i in range(rows.window):
        for j in range(cols.window):
            yield i, j, (slice(None), comb(i, rows), comb(j, cols))


def spans(axis: WindowAxis) -> list[tuple[slice, slice]]:
    """Return, for each place of a window, the windows that have it inside the images.

    And where in the images they have it, without any borders.

    >>> spans(axis_of(6, 2, 1, "SAME"))
    [(slice(0, 6, None), slice(0, 6, 1)), (slice(0, 5, None), slice(1, 6, 1))]
    """
    pairs = []
    for shift in range(-axis.before, axis.window - axis.before):
        first = max(0, -(shift // axis.stride))
        end = min(axis.n_windows, (axis.size - 1 - shift) // axis.stride + 1)
        n_inside = max(0, end - first)
        start = first * axis.stride + shift if n_inside else 0
        seen = slice(start, start + axis.stride * n_inside, axis.stride)
        pairs.append((slice(first, first + n_inside), seen))
    return pairs


def comb(start: int, axis: WindowAxis) -> slice:
    """Return where all windows have a place of theirs, in padded images.

    >>> comb(1, axis_of(6, 3, 2, "SAME"))
    slice(1, 6, 2)
    """
    return slice(start, start + axis.stride * (axis.n_windows - 1) + 1, axis.stride)
