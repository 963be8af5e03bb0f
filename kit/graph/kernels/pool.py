"""The maximum or the mean of each window of images, and the gradients.

Images are NHWC; windows and strides are [1, rows, columns, 1]. A border that "SAME"
adds is never the largest and does not count for the mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

from kit.errors import InvalidArgumentError
from kit.graph.kernels.precision import widened
from kit.graph.kernels.windows import (
    Sizes,
    WindowAxis,
    axis_of,
    check_images,
    check_like,
    check_settings,
    cropped,
    padded,
    places,
    window_count,
)

# Any: an array of whichever module computes.
Array = Any


def pool_shape(
    x_shape: Sizes | None, ksize: Sequence[int], strides: Sequence[int], padding: str
) -> tuple[int | None, ...]:
    """Return the shape of a pool's result, with None where it is not known yet.

    A shape that is None has unknown sizes only. Raises `ValueError` for sizes or a
    padding that do not go together.

    >>> pool_shape((None, 28, 28, 32), [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    (None, 14, 14, 32)
    """
    check_settings(padding, ksize=ksize, strides=strides)
    x_shape = (None,) * 4 if x_shape is None else x_shape
    check_images("x", x_shape)
    counts = (
        window_count(x_shape[axis], ksize[axis], strides[axis], padding)
        for axis in (1, 2)
    )
    return (x_shape[0], *counts, x_shape[3])


def max_pool(
    xp: ModuleType, x: Array, ksize: Sequence[int], strides: Sequence[int], padding: str
) -> Array:
    """Return the largest of each window; a window with a NaN gives NaN.

    One comparison of the whole for each place of the window. Raises
    `InvalidArgumentError` where `pool_shape` raises `ValueError`.

    >>> import numpy as np
    >>> x = np.arange(16.0).reshape(1, 4, 4, 1)
    >>> max_pool(np, x, [1, 2, 2, 1], [1, 2, 2, 1], "VALID").ravel()
    array([ 5.,  7., 13., 15.])
    """
    rows, cols = _geometry(x.shape, ksize, strides, padding)
    x = padded(xp, x, rows, cols, fill=-xp.inf)
    first, *others = (where for _, _, where in places(rows, cols))
    # This comparison makes the array that the others then update.
    y = xp.maximum(x[first], x[others[-1] if others else first])
    for where in others[:-1]:
        xp.maximum(y, x[where], out=y)
    return y


def max_pool_gradient(
    xp: ModuleType,
    x: Array,
    y: Array,
    dy: Array,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
) -> Array:
    """Return the gradient for `x`, from the pool's result `y` and its gradient `dy`.

    A window's gradient goes to its largest number, to the first of several in the order
    of rows, then columns. One that is NaN gets none. Raises `InvalidArgumentError` as
    `max_pool` does, and for a `y` or `dy` of another shape.
    """
    rows, cols = _geometry(x.shape, ksize, strides, padding)
    shape = (x.shape[0], rows.n_windows, cols.n_windows, x.shape[3])
    check_like("y", y.shape, shape)
    check_like("dy", dy.shape, shape)
    x = padded(xp, x, rows, cols, fill=-xp.inf)
    dx = xp.zeros(x.shape, dtype=dy.dtype)
    # The bits as an integer, times 0 or 1: five times as fast as `where` with its
    # branches, and unlike a product of floats right for infinity.
    bits = dy.view(f"i{dy.dtype.itemsize}")
    for where, is_first in _firsts(xp, x, y, rows, cols):
        _add_bits(xp, dx, where, bits, is_first, overlap=_overlap(rows, cols))
    return xp.ascontiguousarray(cropped(dx, rows, cols))


def max_pool_choice(
    xp: ModuleType,
    x: Array,
    y: Array,
    values: Array,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
) -> Array:
    """Return, for each window of `x`, the one of `values` where its largest number is.

    `values` has the shape of `x`, `y` is the pool's result. Which of several largest
    counts, and what is raised, is as in `max_pool_gradient`, of which this is the
    transpose.

    >>> import numpy as np
    >>> x = np.arange(4.0).reshape(1, 2, 2, 1)
    >>> windows = [1, 2, 2, 1], [1, 2, 2, 1], "VALID"
    >>> max_pool_choice(np, x, max_pool(np, x, *windows), -x, *windows).ravel()
    array([-3.])
    """
    rows, cols = _geometry(x.shape, ksize, strides, padding)
    check_like("y", y.shape, (x.shape[0], rows.n_windows, cols.n_windows, x.shape[3]))
    check_like("values", values.shape, x.shape)
    x = padded(xp, x, rows, cols, fill=-xp.inf)
    values = padded(xp, values, rows, cols)
    chosen = xp.zeros_like(y)
    for where, is_first in _firsts(xp, x, y, rows, cols):
        chosen = xp.where(is_first, values[where], chosen)
    return chosen


def _firsts(
    xp: ModuleType, x: Array, y: Array, rows: WindowAxis, cols: WindowAxis
) -> Iterator[tuple[tuple[slice, ...], Array]]:
    """Yield each place and which windows have their first largest number there."""
    is_open = xp.ones(y.shape, dtype=bool)
    for _, _, where in places(rows, cols):
        is_first = x[where] == y
        is_first &= is_open
        is_open ^= is_first
        yield where, is_first


def _overlap(rows: WindowAxis, cols: WindowAxis) -> bool:
    return rows.stride < rows.window or cols.stride < cols.window


def _add_bits(
    xp: ModuleType,
    dx: Array,
    where: tuple[slice, ...],
    bits: Array,
    is_taken: Array,
    *,
    overlap: bool,
) -> None:
    """Add the numbers of these bits to a part of `dx`, all but those not taken."""
    if overlap:
        dx[where] += (bits * is_taken).view(dx.dtype)
    else:
        xp.multiply(bits, is_taken, out=dx.view(bits.dtype)[where])


def avg_pool(
    xp: ModuleType, x: Array, ksize: Sequence[int], strides: Sequence[int], padding: str
) -> Array:
    """Return the mean of the numbers of each window, borders left out.

    One addition of the whole for each place of the window. Raises
    `InvalidArgumentError` where `pool_shape` raises `ValueError`.

    >>> import numpy as np
    >>> x = np.arange(16.0).reshape(1, 4, 4, 1)
    >>> avg_pool(np, x, [1, 2, 2, 1], [1, 2, 2, 1], "VALID").ravel()
    array([ 2.5,  4.5, 10.5, 12.5])
    """
    rows, cols = _geometry(x.shape, ksize, strides, padding)
    wide = padded(xp, widened(xp, x), rows, cols)
    spots = (where for _, _, where in places(rows, cols))
    y = wide[next(spots)].copy()
    for where in spots:
        y += wide[where]
    y /= _counts(xp, rows, cols, y.dtype)
    return y.astype(x.dtype, copy=False)


def avg_pool_gradient(
    xp: ModuleType,
    input_shape: Sequence[int],
    dy: Array,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
) -> Array:
    """Return the gradient for the images: each window's, shared out evenly.

    Raises `InvalidArgumentError` as `avg_pool` does, and for a `dy` of another shape.
    """
    rows, cols = _geometry(input_shape, ksize, strides, padding)
    images, channels = input_shape[0], input_shape[3]
    check_like("dy", dy.shape, (images, rows.n_windows, cols.n_windows, channels))
    wide = widened(xp, dy)
    share = wide / _counts(xp, rows, cols, wide.dtype)
    dx = xp.zeros((images, rows.padded, cols.padded, channels), dtype=wide.dtype)
    for _, _, where in places(rows, cols):
        dx[where] += share
    return xp.ascontiguousarray(cropped(dx, rows, cols)).astype(dy.dtype, copy=False)


def _geometry(
    shape: Sequence[int], ksize: Sequence[int], strides: Sequence[int], padding: str
) -> tuple[WindowAxis, WindowAxis]:
    try:
        pool_shape(shape, ksize, strides, padding)
    except ValueError as exc:
        raise InvalidArgumentError(str(exc)) from exc
    rows = axis_of(shape[1], ksize[1], strides[1], padding)
    cols = axis_of(shape[2], ksize[2], strides[2], padding)
    return rows, cols


def _counts(xp: ModuleType, rows: WindowAxis, cols: WindowAxis, dtype: Any) -> Array:
    """Return the number of image elements in each window, [row, column, 1]."""
    down, across = (_inside(xp, axis).astype(dtype) for axis in (rows, cols))
    return down[:, None, None] * across[:, None]


def _inside(xp: ModuleType, axis: WindowAxis) -> Array:
    start = xp.arange(axis.n_windows) * axis.stride - axis.before
    end = xp.minimum(start + axis.window, axis.size)
    return end - xp.maximum(start, 0)
