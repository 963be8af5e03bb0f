"""Convolution of images in two dimensions, and its gradients.

Images are NHWC, filters HWIO: [row, column, channel in, channel out]. All the work is
products of matrices. What each window sees is copied into one line of the first:

    columns [images * rows * cols, filter]  @  filters [filter, channels out]

With many channels that is done for each row of the filter, as windows below each other
see the same rows of the image. Rows are the outermost axis then: all windows whose row
of the filter lies inside the images are one matrix, and borders cost nothing.

    strips [rows * cols * images, row of the filter]  @  filters [i]
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from types import ModuleType
from typing import Any, Final

from kit.errors import InvalidArgumentError
from kit.graph.kernels.precision import widened
from kit.graph.kernels.windows import (
    Sizes,
    WindowAxis,
    axis_of,
    check_images,
    check_like,
    check_settings,
    padded,
    parts,
    spans,
    window_count,
)

# Any: an array of whichever module computes.
Array = Any

# Below this many neighbouring numbers a line of the matrix is copied number by number.
_SHORT_RUN: Final = 12
# From this length on, a line for each row of the filter is long enough for BLAS.
_LONG_RUN: Final = 64


def conv2d_shape(
    x_shape: Sizes | None, w_shape: Sizes | None, strides: Sequence[int], padding: str
) -> tuple[int | None, ...]:
    """Return the shape of `conv2d`'s result, with None where it is not known yet.

    A shape that is None has unknown sizes only. Raises `ValueError` for shapes, strides
    or a padding that do not go together.

    >>> conv2d_shape((None, 28, 28, 1), (5, 5, 1, 32), [1, 2, 2, 1], "SAME")
    (None, 14, 14, 32)
    """
    check_settings(padding, strides=strides)
    x_shape = (None,) * 4 if x_shape is None else x_shape
    w_shape = (None,) * 4 if w_shape is None else w_shape
    check_images("x", x_shape)
    if len(w_shape) != 4 or 0 in w_shape[:2]:
        raise ValueError(
            f"the filters have the shape {list(w_shape)}; give [row, column, channel "
            f"in, channel out] with at least one row and column."
        )
    if None not in (x_shape[3], w_shape[2]) and x_shape[3] != w_shape[2]:
        raise ValueError(
            f"the images {list(x_shape)} have {x_shape[3]} channels, the filters "
            f"{list(w_shape)} take {w_shape[2]}; make the two equal."
        )
    counts = (
        window_count(x_shape[axis], w_shape[axis - 1], strides[axis], padding)
        for axis in (1, 2)
    )
    return (x_shape[0], *counts, w_shape[3])


def conv2d(
    xp: ModuleType, x: Array, w: Array, strides: Sequence[int], padding: str
) -> Array:
    """Return the correlation of images with filters, [image, row, column, channel out].

    `strides` is [1, rows, columns, 1], `padding` "SAME" or "VALID". Raises
    `InvalidArgumentError` where `conv2d_shape` raises `ValueError`. Takes memory for
    the matrix, windows x filter: for one image, on a device for all.

    >>> import numpy as np
    >>> x = np.arange(9.0).reshape(1, 3, 3, 1)
    >>> conv2d(np, x, np.ones((2, 2, 1, 1)), [1, 1, 1, 1], "VALID").ravel()
    array([ 8., 12., 20., 24.])
    """
    rows, cols, shape = _geometry(x.shape, w.shape, strides, padding)
    filters, (run, n_out) = widened(xp, w), (cols.window * x.shape[3], shape[3])
    y = xp.empty(shape, dtype=filters.dtype)
    if run < _LONG_RUN:
        filters = filters.reshape(rows.window * run, n_out)
        for part in parts(xp, shape, len(filters) * y.itemsize):
            columns = _columns(xp, widened(xp, x[part]), rows, cols)
            xp.matmul(columns, filters, out=y[part].reshape(len(columns), n_out))
        return y.astype(x.dtype, copy=False)
    down = spans(rows)
    for part in parts(xp, shape, (run + 2 * n_out) * y.itemsize):
        strips = _strips(xp, widened(xp, x[part]), rows, cols)
        sums = xp.zeros((rows.n_windows, *strips.shape[1:3], n_out), dtype=y.dtype)
        for i, (windows, seen) in enumerate(down):
            these = strips[seen].reshape(-1, run) @ filters[i].reshape(run, n_out)
            sums[windows] += these.reshape(sums[windows].shape)
        y[part] = sums.transpose(2, 0, 1, 3)
    return y.astype(x.dtype, copy=False)


def conv2d_input_gradient(
    xp: ModuleType,
    input_shape: Sequence[int],
    w: Array,
    dy: Array,
    strides: Sequence[int],
    padding: str,
) -> Array:
    """Return the gradient with respect to the images, from that of the result, `dy`.

    One product and one addition for each place of the filter. Raises
    `InvalidArgumentError` as `conv2d` does, and for a `dy` of another shape.
    """
    rows, cols, shape = _geometry(input_shape, w.shape, strides, padding)
    check_like("dy", dy.shape, shape)
    filters = xp.ascontiguousarray(widened(xp, w).transpose(0, 1, 3, 2))
    n_out, channels = filters.shape[2:]
    dx = xp.zeros(tuple(input_shape), dtype=filters.dtype)
    down, across = ([*enumerate(spans(axis))] for axis in (rows, cols))
    for part in parts(xp, shape, (n_out + 2 * channels) * dx.itemsize):
        given = _rows_first(xp, dy[part])
        sums = xp.zeros((rows.size, cols.size, given.shape[2], channels), dx.dtype)
        for (i, (rs, seen_rs)), (j, (cs, seen_cs)) in product(down, across):
            these, seen = given[rs, cs], sums[seen_rs, seen_cs]
            lines = these.reshape(len(these), these.shape[1] * these.shape[2], n_out)
            seen += (lines @ filters[i, j]).reshape(seen.shape)
        dx[part] = sums.transpose(2, 0, 1, 3)
    return dx.astype(w.dtype, copy=False)


def conv2d_filter_gradient(
    xp: ModuleType,
    x: Array,
    filter_shape: Sequence[int],
    dy: Array,
    strides: Sequence[int],
    padding: str,
) -> Array:
    """Return the gradient with respect to the filters, from that of the result, `dy`.

    Costs what `conv2d` costs. Raises `InvalidArgumentError` as `conv2d` does, and for a
    `dy` of another shape.
    """
    rows, cols, shape = _geometry(x.shape, filter_shape, strides, padding)
    check_like("dy", dy.shape, shape)
    run, n_out = cols.window * x.shape[3], shape[3]
    dw = xp.zeros((rows.window, run, n_out), dtype=widened(xp, dy[:0]).dtype)
    if run < _LONG_RUN:
        lines = dw.reshape(rows.window * run, n_out)
        for part in parts(xp, shape, len(lines) * dw.itemsize):
            columns = _columns(xp, widened(xp, x[part]), rows, cols)
            lines += columns.T @ widened(xp, dy[part]).reshape(len(columns), n_out)
        return dw.reshape(tuple(filter_shape)).astype(x.dtype, copy=False)
    down = spans(rows)
    for part in parts(xp, shape, (run + n_out) * dw.itemsize):
        strips = _strips(xp, widened(xp, x[part]), rows, cols)
        given = _rows_first(xp, dy[part])
        for i, (windows, seen) in enumerate(down):
            dw[i] += strips[seen].reshape(-1, run).T @ given[windows].reshape(-1, n_out)
    return dw.reshape(tuple(filter_shape)).astype(x.dtype, copy=False)


def _geometry(
    x_shape: Sequence[int], w_shape: Sequence[int], strides: Sequence[int], padding: str
) -> tuple[WindowAxis, WindowAxis, tuple[int, ...]]:
    try:
        conv2d_shape(x_shape, w_shape, strides, padding)
    except ValueError as exc:
        raise InvalidArgumentError(str(exc)) from exc
    rows = axis_of(x_shape[1], w_shape[0], strides[1], padding)
    cols = axis_of(x_shape[2], w_shape[1], strides[2], padding)
    return rows, cols, (x_shape[0], rows.n_windows, cols.n_windows, w_shape[3])


def _rows_first(xp: ModuleType, dy: Array) -> Array:
    """Return images as [row, column, image, channel]."""
    return xp.ascontiguousarray(widened(xp, dy).transpose(1, 2, 0, 3))


def _strips(xp: ModuleType, x: Array, rows: WindowAxis, cols: WindowAxis) -> Array:
    """Return what a row of each window sees, [row, window, image, place * channel]."""
    shape = (rows.size, cols.n_windows, x.shape[0], cols.window, x.shape[3])
    strips, turned = xp.zeros(shape, dtype=x.dtype), x.transpose(1, 2, 0, 3)
    for j, (windows, seen) in enumerate(spans(cols)):
        strips[:, windows, :, j] = turned[:, seen]
    return strips.reshape(*shape[:3], cols.window * x.shape[3])


def _columns(xp: ModuleType, x: Array, rows: WindowAxis, cols: WindowAxis) -> Array:
    """Return the matrix with a line for each window: all that the window sees."""
    x = padded(xp, x, rows, cols)
    windows = (x.shape[0], rows.n_windows, cols.n_windows)
    seen = (rows.window, cols.window, x.shape[3])
    n_windows, n_seen = (
        windows[0] * windows[1] * windows[2],
        seen[0] * seen[1] * seen[2],
    )
    strided = xp.lib.stride_tricks.as_strided
    if seen[1] * seen[2] >= _SHORT_RUN:
        image, row, col, channel = x.strides
        step = (image, row * rows.stride, col * cols.stride, row, col, channel)
        return strided(x, windows + seen, step).reshape(n_windows, n_seen)
    # Few channels: neighbouring windows make longer runs than one window's line does,
    # so the matrix is copied the other way round and used transposed.
    channel, image, row, col = (x := x.transpose(3, 0, 1, 2).copy()).strides
    step = (row, col, channel, image, row * rows.stride, col * cols.stride)
    return strided(x, seen + windows, step).reshape(n_seen, n_windows).T
