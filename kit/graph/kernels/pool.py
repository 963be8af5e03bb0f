"""The maximum or the mean of each window of images, and the gradients.

Images are NHWC; windows and strides are [1, rows, columns, 1]. A border that "SAME"
adds is never the largest and does not count for the mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
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
    comb,
    cropped,
    padded,
    parts,
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

    One comparison for each row and each column of the window. Raises
    `InvalidArgumentError` where `pool_shape` raises `ValueError`.

    >>> import numpy as np
    >>> x = np.arange(16.0).reshape(1, 4, 4, 1)
    >>> max_pool(np, x, [1, 2, 2, 1], [1, 2, 2, 1], "VALID").ravel()
    array([ 5.,  7., 13., 15.])
    """
    rows, cols = _geometry(x.shape, ksize, strides, padding)
    y = xp.empty(_shape(x.shape, rows, cols), dtype=x.dtype)
    for part in parts(xp, y.shape, _window_bytes(x, rows, cols)):
        whole = padded(xp, x[part], rows, cols, fill=-xp.inf)
        y[part] = _along_both(whole, rows, cols, xp.maximum)
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
    shape = _shape(x.shape, rows, cols)
    check_like("y", y.shape, shape)
    check_like("dy", dy.shape, shape)
    make = xp.empty if _tiles(rows) and _tiles(cols) else xp.zeros
    dx = make(x.shape, dtype=dy.dtype)
    for part in parts(xp, shape, _window_bytes(x, rows, cols)):
        whole = padded(xp, x[part], rows, cols, fill=-xp.inf)
        sums = padded(xp, dx[part], rows, cols)
        for where, is_first in _firsts(xp, whole, y[part], rows, cols):
            _add_taken(xp, sums[where], dy[part], is_first, _overlap(rows, cols))
        if sums.shape != dx[part].shape:
            dx[part] = cropped(sums, rows, cols)
    return dx


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
    check_like("y", y.shape, _shape(x.shape, rows, cols))
    check_like("values", values.shape, x.shape)
    x = padded(xp, x, rows, cols, fill=-xp.inf)
    values = padded(xp, values, rows, cols)
    chosen = xp.zeros(y.shape, values.dtype)
    for where, is_first in _firsts(xp, x, y, rows, cols):
        chosen = xp.where(is_first, values[where], chosen)
    return chosen


def max_pool_with_argmax(
    xp: ModuleType, x: Array, dtype: Any, with_batch: bool, **windows: Any
) -> tuple[Array, Array]:
    """Return `max_pool`, and where each window's first largest number is.

    A position counts rows, columns and channels of one image, or of all `with_batch`.

    >>> import numpy as np
    >>> windows = dict(ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID")
    >>> x = np.arange(8.0).reshape(2, 2, 2, 1)
    >>> max_pool_with_argmax(np, x, np.int64, True, **windows)[1].ravel()
    array([3, 7])
    """
    y = max_pool(xp, x, **windows)
    shape = x.shape if with_batch else (1, *x.shape[1:])
    positions = xp.arange(prod(shape), dtype=dtype).reshape(shape)
    positions = xp.broadcast_to(positions, x.shape)
    return y, max_pool_choice(xp, x, y, positions, **windows)


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


def _tiles(axis: WindowAxis) -> bool:
    """Whether each place, borders included, belongs to exactly one window."""
    return axis.padded == axis.stride * axis.n_windows == axis.window * axis.n_windows


def _overlap(rows: WindowAxis, cols: WindowAxis) -> bool:
    return rows.stride < rows.window or cols.stride < cols.window


def _add_taken(
    xp: ModuleType, sums: Array, dy: Array, is_taken: Array, overlap: bool
) -> None:
    """Add the gradients that are taken; without overlap nothing was there before."""
    # The bits as an integer, times 0 or 1: five times as fast as `where` with its
    # branches, and unlike a product of floats right for infinity.
    bits = dy.view(f"i{dy.dtype.itemsize}")
    if overlap:
        sums += (bits * is_taken).view(dy.dtype)
    else:
        xp.multiply(bits, is_taken, out=sums.view(bits.dtype))


def avg_pool(
    xp: ModuleType, x: Array, ksize: Sequence[int], strides: Sequence[int], padding: str
) -> Array:
    """Return the mean of the numbers of each window, borders left out.

    One addition for each row and each column of the window. Raises
    `InvalidArgumentError` where `pool_shape` raises `ValueError`.

    >>> import numpy as np
    >>> x = np.arange(16.0).reshape(1, 4, 4, 1)
    >>> avg_pool(np, x, [1, 2, 2, 1], [1, 2, 2, 1], "VALID").ravel()
    array([ 2.5,  4.5, 10.5, 12.5])
    """
    rows, cols = _geometry(x.shape, ksize, strides, padding)
    y = xp.empty(_shape(x.shape, rows, cols), dtype=x.dtype)
    counts = _counts(xp, rows, cols, widened(xp, x[:0]).dtype)
    for part in parts(xp, y.shape, _window_bytes(x, rows, cols)):
        whole = padded(xp, widened(xp, x[part]), rows, cols)
        y[part] = _along_both(whole, rows, cols, xp.add) / counts
    return y


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
    check_like("dy", dy.shape, _shape(input_shape, rows, cols))
    counts = _counts(xp, rows, cols, widened(xp, dy[:0]).dtype)
    dx = xp.zeros(tuple(input_shape), dtype=dy.dtype)
    for part in parts(xp, dy.shape, _window_bytes(dx, rows, cols)):
        share = widened(xp, dy[part]) / counts
        across = _spread(xp, share, cols, (slice(None), slice(None)))
        dx[part] = cropped(_spread(xp, across, rows, (slice(None),)), rows, cols)
    return dx


def _spread(
    xp: ModuleType, share: Array, axis: WindowAxis, at: tuple[slice, ...]
) -> Array:
    """Add along one axis, at each place of a window, what the window has."""
    shape = [*share.shape]
    shape[len(at)] = axis.padded
    if _tiles(axis):
        return xp.repeat(share, axis.window, axis=len(at))
    sums = xp.zeros(shape, dtype=share.dtype)
    for i in range(axis.window):
        seen = sums[*at, comb(i, axis)]
        seen += share
    return sums


def _along_both(
    x: Array, rows: WindowAxis, cols: WindowAxis, combine: Callable[..., Array]
) -> Array:
    """Combine what each window sees: rows first, whose neighbours are longer runs."""
    for axis, at in ((rows, (slice(None),)), (cols, (slice(None), slice(None)))):
        first, *others = (x[*at, comb(i, axis)] for i in range(axis.window))
        x = combine(first, others[0]) if others else first
        for other in others[1:]:
            combine(x, other, out=x)
    return x


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


def _shape(
    x_shape: Sequence[int], rows: WindowAxis, cols: WindowAxis
) -> tuple[int, ...]:
    return (x_shape[0], rows.n_windows, cols.n_windows, x_shape[3])


def _window_bytes(x: Array, rows: WindowAxis, cols: WindowAxis) -> int:
    """Return the bytes that a window has for itself, and of what is made of them."""
    n_bytes = int(x.shape[3]) * int(x.dtype.itemsize)
    return 2 * (rows.stride * cols.stride + 1) * n_bytes


def _counts(xp: ModuleType, rows: WindowAxis, cols: WindowAxis, dtype: Any) -> Any:
    """Return the number of image elements in each window, [row, column, 1].

    Where all have the same it is one number, by which it is faster to divide.
    """
    if (rows.padded, cols.padded) == (rows.size, cols.size):
        return float(rows.window * cols.window)
    down, across = (_inside(xp, axis).astype(dtype) for axis in (rows, cols))
    return down[:, None, None] * across[:, None]


def _inside(xp: ModuleType, axis: WindowAxis) -> Array:
    start = xp.arange(axis.n_windows) * axis.stride - axis.before
    end = xp.minimum(start + axis.window, axis.size)
    return end - xp.maximum(start, 0)
