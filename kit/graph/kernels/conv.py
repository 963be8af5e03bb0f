"""Convolution of images in two dimensions, and its gradients.

Images are NHWC, filters HWIO: [row, column, channel in, channel out]. What each window
sees is copied into one line of a matrix, so that all the work is one product:

    columns [images * rows * cols, filter]  @  filters [filter, channels out]
"""

from __future__ import annotations

from collections.abc import Sequence
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
    cropped,
    padded,
    places,
    window_count,
)

# Any: an array of whichever module computes.
Array = Any

# Below this many neighbouring numbers a line of the matrix is copied number by number.
_SHORT_RUN: Final = 12


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
    the matrix: windows x filter.

    >>> import numpy as np
    >>> x = np.arange(9.0).reshape(1, 3, 3, 1)
    >>> conv2d(np, x, np.ones((2, 2, 1, 1)), [1, 1, 1, 1], "VALID").ravel()
    array([ 8., 12., 20., 24.])
    """
    rows, cols, shape = _geometry(x.shape, w.shape, strides, padding)
    columns = _columns(xp, widened(xp, x), rows, cols)
    y = columns @ widened(xp, w).reshape(columns.shape[1], shape[3])
    return y.reshape(shape).astype(x.dtype, copy=False)


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
    flat = widened(xp, dy).reshape(-1, shape[3]) if dy.size else dy.reshape(0, shape[3])
    filters, channels = widened(xp, w), input_shape[3]
    whole = (shape[0], rows.padded, cols.padded, channels)
    dx = xp.zeros(whole, dtype=filters.dtype)
    if flat.size:
        for i, j, where in places(rows, cols):
            dx[where] += (flat @ filters[i, j].T).reshape(*shape[:3], channels)
    return xp.ascontiguousarray(cropped(dx, rows, cols)).astype(w.dtype, copy=False)


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
    columns = _columns(xp, widened(xp, x), rows, cols)
    dw = columns.T @ widened(xp, dy).reshape(columns.shape[0], shape[3])
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
