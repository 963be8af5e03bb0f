"""Convolution and pooling of images [image, row, column, channel]."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

from kit.bfloat16 import kind_of
from kit.graph.arguments import Ints, numbers
from kit.graph.convert import make, operands, tensor
from kit.graph.dtypes import name_of
from kit.graph.kernels import conv, pool
from kit.graph.op import Op, Tensor
from kit.graph.static import Static, same_dtype
from kit.graph.table import Attrs, Forward, Gradient, Infer, enter, infer_like


def conv2d(
    x: Any,
    filters: Any,
    strides: Any = 1,
    padding: str = "SAME",
    name: str | None = None,
) -> Tensor:
    """Return the correlation of images with filters, [image, row, column, out].

    Parameters
    ----------
    x : Tensor or array
        Images, [image, row, column, channel].
    filters : Tensor or array
        [row, column, channel in, channel out].
    strides : int or sequence of int, default 1
        One number, two for rows and columns, or [1, rows, columns, 1].
    padding : {"SAME", "VALID"}
        "SAME" adds borders of zeros so that every stride has a window,
        "VALID" adds none.
    name : str, optional
        The name of the op.

    Raises
    ------
    ValueError
        The shapes do not match.
    TypeError
        They are not floats of the same dtype.
    """
    attrs = {"strides": four(strides, "strides"), "padding": padding}
    return make("Conv2D", *operands(x, filters), name=name, **attrs)


def max_pool(
    x: Any,
    size: Any = 2,
    strides: Any = None,
    padding: str = "VALID",
    name: str | None = None,
) -> Tensor:
    """Return the largest number of each window of the images.

    The gradient goes to the first of several largest numbers.

    Parameters
    ----------
    x : Tensor or array
        Images, [image, row, column, channel].
    size : int or sequence of int, default 2
        The size of a window, in the form of the strides of `conv2d`.
    strides : int or sequence of int, optional
        As those of `conv2d`; by default windows are side by side.
    padding : {"VALID", "SAME"}
        As that of `conv2d`.
    name : str, optional
        The name of the op.
    """
    return _pool("MaxPool", x, size, strides, padding, name)


def avg_pool(
    x: Any,
    size: Any = 2,
    strides: Any = None,
    padding: str = "VALID",
    name: str | None = None,
) -> Tensor:
    """Return the mean of each window of the images, borders left out.

    Parameters
    ----------
    x, size, strides, padding, name
        As for `max_pool`.
    """
    return _pool("AvgPool", x, size, strides, padding, name)


def four(value: Any, what: str) -> Ints:
    """Return sizes along the axes of images: from one, two or four numbers.

    >>> four(2, "size"), four((2, 3), "size")
    ((1, 2, 2, 1), (1, 2, 3, 1))
    """
    sizes = numbers(value)
    if sizes is None or len(sizes) not in (1, 2, 4):
        raise ValueError(
            f"{what} is {value!r}; give one number, two for rows and columns, or four."
        )
    if len(sizes) == 4:
        return sizes
    return (1, sizes[0], sizes[-1], 1)


def _pool(
    op_type: str, x: Any, size: Any, strides: Any, padding: str, name: str | None
) -> Tensor:
    ksize = four(size, "size")
    steps = ksize if strides is None else four(strides, "strides")
    attrs = {"ksize": ksize, "strides": steps, "padding": padding}
    return make(op_type, tensor(x), name=name, **attrs)


def _infer_conv(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    x, w = inputs
    dtype = same_dtype(inputs, "conv2d")
    _refuse_whole(x, "conv2d")
    shape = conv.conv2d_shape(x.shape, w.shape, attrs["strides"], attrs["padding"])
    return [Static(shape, dtype)]


def _infer_pool(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    x = inputs[0]
    _refuse_whole(x, "a pool")
    return [Static(pool.pool_shape(x.shape, **attrs), x.dtype)]


def _refuse_whole(static: Static, what: str) -> None:
    if kind_of(static.dtype) != "f":
        raise TypeError(
            f"{what} is of floating point images, not of {name_of(static.dtype)}; cast "
            f"them first."
        )


def _by_images(xp: ModuleType, x: Any, w: Any, dy: Any, **steps: Any) -> Any:
    return conv.conv2d_input_gradient(xp, x.shape, w, dy, **steps)


def _by_filters(xp: ModuleType, x: Any, w: Any, dy: Any, **steps: Any) -> Any:
    return conv.conv2d_filter_gradient(xp, x, w.shape, dy, **steps)


def _conv_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    inputs = (*op.inputs, gradients[0])
    return [
        make("Conv2DBackpropInput", *inputs, **op.attrs),
        make("Conv2DBackpropFilter", *inputs, **op.attrs),
    ]


def _by_images_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    (_, w, dy), g = op.inputs, gradients[0]
    by_w = make("Conv2DBackpropFilter", g, w, dy, **op.attrs)
    return [None, by_w, make("Conv2D", g, w, **op.attrs)]


def _by_filters_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    (x, _, dy), g = op.inputs, gradients[0]
    by_x = make("Conv2DBackpropInput", x, g, dy, **op.attrs)
    return [by_x, None, make("Conv2D", x, g, **op.attrs)]


def _max_pool_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    inputs = op.inputs[0], op.outputs[0], gradients[0]
    return [make("MaxPoolGrad", *inputs, **op.attrs)]


def _max_pool_grad_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    x, y, _ = op.inputs
    return [None, None, make("MaxPoolGradGrad", x, y, gradients[0], **op.attrs)]


def _max_pool_forth_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    x, y, _ = op.inputs
    return [None, None, make("MaxPoolGrad", x, y, gradients[0], **op.attrs)]


def _infer_with_argmax(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    (pooled,) = _infer_pool(inputs, _windows(attrs))
    return [pooled, Static(pooled.shape, attrs["Targmax"])]


def _with_argmax(xp: ModuleType, x: Any, **attrs: Any) -> Any:
    kind, with_batch = attrs["Targmax"], attrs["include_batch_in_index"]
    return pool.max_pool_with_argmax(xp, x, kind, with_batch, **_windows(attrs))


def _with_argmax_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    inputs = op.inputs[0], op.outputs[0], gradients[0]
    return [make("MaxPoolGrad", *inputs, **_windows(op.attrs))]


def _windows(attrs: Attrs) -> dict[str, Any]:
    return {name: attrs[name] for name in ("ksize", "strides", "padding")}


def _avg_pool_back(xp: ModuleType, x: Any, dy: Any, **windows: Any) -> Any:
    return pool.avg_pool_gradient(xp, x.shape, dy, **windows)


def _avg_pool_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    return [make("AvgPoolGrad", op.inputs[0], gradients[0], **op.attrs)]


def _avg_pool_grad_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    return [None, make("AvgPool", gradients[0], **op.attrs)]


# op type | shapes | computation | gradient
_TABLE: list[tuple[str, Infer, Forward, Gradient]] = [
    ("Conv2D", _infer_conv, conv.conv2d, _conv_gradient),
    ("Conv2DBackpropInput", infer_like(0), _by_images, _by_images_gradient),
    ("Conv2DBackpropFilter", infer_like(1), _by_filters, _by_filters_gradient),
    ("MaxPool", _infer_pool, pool.max_pool, _max_pool_gradient),
    ("MaxPoolGrad", infer_like(0), pool.max_pool_gradient, _max_pool_grad_gradient),
    ("MaxPoolGradGrad", infer_like(1), pool.max_pool_choice, _max_pool_forth_gradient),
    ("AvgPool", _infer_pool, pool.avg_pool, _avg_pool_gradient),
    ("AvgPoolGrad", infer_like(0), _avg_pool_back, _avg_pool_grad_gradient),
]
for _entry in _TABLE:
    enter(*_entry)
enter(
    "MaxPoolWithArgmax",
    _infer_with_argmax,
    _with_argmax,
    _with_argmax_gradient,
    n_outputs=2,
)
