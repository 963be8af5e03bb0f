"""Convolution of images in two dimensions, and its gradients.

Images are NHWC, filters HWIO: [row, column, channel in, channel out]. All the work is
products of matrices. Of a row of an image each window sees a run of numbers, and the
runs of neighbouring windows overlap: they are views of one line.

    line of 2 channels    a b c d e f g h . .
    window 0             [a b c d e f]
    window 1                 [c d e f g h]

The runs in some rows of some images are the lines of a matrix, for each row of the
filter; what lies outside the images above and below is left out.

    runs [rows * images, run]  @  filters [run, channels out]

There is such a product for each column of windows, or a single one with a copy of all
runs where matrices are large. With few channels the rows that a window sees are put
side by side in a line, as if they were channels: one product does for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from types import ModuleType
from typing import Any, Final

import numpy as np

from kit.errors import InvalidArgumentError
from kit.graph.kernels.precision import widened
from kit.graph.kernels.windows import (
    Sizes,
    WindowAxis,
    axis_of,
    check_images,
    check_like,
    check_settings,
    parts,
    spans,
    window_count,
)

# Any: an array of whichever module computes.
Array = Any

# From this length on, the run in one row of the filter is long enough for BLAS.
_LONG_RUN: Final = 64
# With AVX-512, OpenBLAS multiplies matrices without packing them, which is 1.4 times as
# fast, while the product of their three sizes is at most this.
_UNPACKED: Final = 10**6
# With fewer lines than this it takes longer to add up products than to make them.
_FEW_LINES: Final = 64


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
    `InvalidArgumentError` where `conv2d_shape` raises `ValueError`.

    >>> import numpy as np
    >>> x = np.arange(9.0).reshape(1, 3, 3, 1)
    >>> conv2d(np, x, np.ones((2, 2, 1, 1)), [1, 1, 1, 1], "VALID").ravel()
    array([ 8., 12., 20., 24.])
    """
    rows, cols, shape = _geometry(x.shape, w.shape, strides, padding)
    n_rows, n_cols, channels, n_out = w.shape
    filters = widened(xp, w)
    y = xp.empty(shape, dtype=filters.dtype)
    if _is_short(w.shape):
        flat = filters.transpose(1, 0, 2, 3).reshape(n_rows * n_cols * channels, n_out)
        n, images = _products(xp, shape, len(flat), cols)
        for part in images:
            runs = _runs(xp, _side_by_side(xp, x[part], rows, cols), cols, n)
            xp.matmul(_joined(runs), flat, out=_by_product(y[part], n))
        return y.astype(x.dtype, copy=False)
    filters = filters.reshape(n_rows, n_cols * channels, n_out)
    n, images = _products(xp, shape, filters.shape[1], cols)
    for part in images:
        runs = _runs(xp, _lines(xp, x[part], cols), cols, n)
        sums = xp.zeros((n, rows.n_windows, *runs.shape[2:4], n_out), dtype=y.dtype)
        for these, (windows, seen) in zip(filters, spans(rows), strict=True):
            made, changed = _joined(runs[:, seen]) @ these, sums[:, windows]
            changed += made.reshape(changed.shape)
        _like_runs(y[part], n)[...] = sums
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
        gradient = _rows_first(xp, dy[part])
        sums = xp.zeros((rows.size, cols.size, gradient.shape[2], channels), dx.dtype)
        for (i, (rs, seen_rs)), (j, (cs, seen_cs)) in product(down, across):
            these, seen = gradient[rs, cs], sums[seen_rs, seen_cs]
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
    n_rows, n_cols, channels, n_out = filter_shape
    dtype = widened(xp, dy[:0]).dtype
    if _is_short(filter_shape):
        sums = xp.zeros((n_rows * n_cols * channels, n_out), dtype)
        n, images = _products(xp, shape, len(sums), cols)
        for part in images:
            runs = _runs(xp, _side_by_side(xp, x[part], rows, cols), cols, n)
            these = _by_product(widened(xp, dy[part]), n)
            sums += _over_runs(xp, _joined(runs), these)
        dw = sums.reshape(n_cols, n_rows, channels, n_out).transpose(1, 0, 2, 3)
        return dw.astype(x.dtype)
    dw = xp.zeros((n_rows, n_cols * channels, n_out), dtype)
    n, images = _products(xp, shape, dw.shape[1], cols)
    for part in images:
        runs = _runs(xp, _lines(xp, x[part], cols), cols, n)
        gradient = xp.ascontiguousarray(_like_runs(widened(xp, dy[part]), n))
        for sums, (windows, seen) in zip(dw, spans(rows), strict=True):
            sums += _over_runs(
                xp, _joined(runs[:, seen]), _joined(gradient[:, windows])
            )
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


def _is_short(filter_shape: Sequence[int]) -> bool:
    return filter_shape[0] == 1 or filter_shape[1] * filter_shape[2] < _LONG_RUN


def _products(
    xp: ModuleType, shape: Sequence[int], run: int, cols: WindowAxis
) -> tuple[int, Iterator[slice]]:
    """Return how many products a row of windows takes, and parts of the images."""
    lines = _UNPACKED // max(1, run * shape[3])
    if xp is not np or lines < max(_FEW_LINES, shape[1]) or cols.window == 1:
        return 1, parts(xp, shape, 4 * (run + 2 * shape[3]))
    n_bytes = 4 * (run // cols.window + 2 * shape[3])
    return shape[2], parts(xp, shape, n_bytes, lines // max(1, shape[1]))


def _over_runs(xp: ModuleType, runs: Array, dy: Array) -> Array:
    """Return the product of all runs, transposed, with what is due to their windows."""
    made = xp.matmul(runs.transpose(0, 2, 1), dy)
    return made[0] if len(made) == 1 else made.sum(axis=0)


def _rows_first(xp: ModuleType, dy: Array) -> Array:
    """Return images as [row, column, image, channel]."""
    return xp.ascontiguousarray(widened(xp, dy).transpose(1, 2, 0, 3))


def _lines(xp: ModuleType, x: Array, cols: WindowAxis) -> Array:
    """Return the images with the borders of columns, [row, image, column * channel]."""
    all_of_it = slice(None)
    pairs = [(all_of_it, all_of_it)]
    return _with_borders(xp, x.transpose(1, 0, 2, 3), len(x), pairs, cols)


def _side_by_side(
    xp: ModuleType, x: Array, rows: WindowAxis, cols: WindowAxis
) -> Array:
    """Return what each row of windows sees, [image, window, column * row * channel]."""
    return _with_borders(xp, x, rows.n_windows, spans(rows), cols)


def _with_borders(
    xp: ModuleType,
    x: Array,
    n: int,
    pairs: Sequence[tuple[slice, slice]],
    cols: WindowAxis,
) -> Array:
    width = (cols.n_windows - 1) * cols.stride + cols.window
    end = min(cols.size, width - cols.before)
    shape = (len(x), n, width, len(pairs), x.shape[3])
    lines = xp.zeros(shape, dtype=widened(xp, x[:0]).dtype)
    inside = lines[:, :, cols.before : cols.before + end]
    for i, (windows, seen) in enumerate(pairs):
        inside[:, windows, :, i] = x[:, seen, :end]
    return lines.reshape(*shape[:2], -1)


def _runs(xp: ModuleType, lines: Array, cols: WindowAxis, n: int) -> Array:
    """Return what windows see of lines, [product, row, image, window, run].

    That is a view of the lines, or a copy if there is a single product.
    """
    n_rows, n_images, length = lines.shape
    channels = length // ((cols.n_windows - 1) * cols.stride + cols.window)
    shape = (n, n_rows, n_images, cols.n_windows // n, cols.window * channels)
    row, image, number = lines.strides
    step = cols.stride * channels * number
    strides = (step * shape[3], row, image, step, number)
    runs = xp.lib.stride_tricks.as_strided(lines, shape, strides)
    return xp.ascontiguousarray(runs) if n == 1 else runs


def _by_product(y: Array, n: int) -> Array:
    """Return a view of [image, row, column, channel] as `n` matrices of columns."""
    cols, channels = y.shape[2:]
    return _joined(y.reshape(-1, n, cols // n, channels).transpose(1, 0, 2, 3))


def _like_runs(y: Array, n: int) -> Array:
    """Return a view of [image, row, column, channel] in the order of `_runs`."""
    images, rows, cols, channels = y.shape
    return y.reshape(images, rows, n, cols // n, channels).transpose(2, 1, 0, 3, 4)


def _joined(runs: Array) -> Array:
    """Return what belongs to each product as a matrix."""
    return runs.reshape(len(runs), -1, runs.shape[-1])
