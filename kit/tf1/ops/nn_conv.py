"""Convolutions: with holes, with borders of one's own, in either order of axes.

One operation convolves images NHWC with whole filters inside borders "SAME" or "VALID".
What else the original offers is put together around it: a filter with holes is one with
zeros between its numbers, borders of one's own are a `tf.pad`, NCHW is transposed, and
one dimension is one row of two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kit.errors import InvalidArgumentError
from kit.graph.kernels import conv
from kit.graph.ops.nn import images
from kit.graph.static import merge, text
from kit.tf1.ops.arithmetic import multiply
from kit.tf1.ops.creation import zeros
from kit.tf1.ops.join import concat, split
from kit.tf1.ops.shape import expand_dims, pad, reshape, squeeze, transpose
from kit.tf1.ops.write import ints, one_of
from kit.tf1.signature import with_options
from kit.tf1.tensor.convert import argument, convert_to_tensor, create, op_scope

_FIRST = ("NCHW", "NCW")
_FORMATS = {1: ("NWC", "NCW"), 2: ("NHWC", "NCHW")}
_TO_LAST, _TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


class _How(NamedTuple):
    """How windows lie over images: by rows and columns, in NHWC."""

    strides: tuple[int, ...]
    holes: tuple[int, int]
    padding: str
    borders: tuple[tuple[int, int], ...] | None
    is_first: bool

    @property
    def attrs(self) -> dict[str, Any]:
        return {"strides": self.strides, "padding": self.padding}

    def last(self, x: Any) -> Any:
        """Return images with their channels last."""
        return transpose(x, _TO_LAST) if self.is_first else x

    def back(self, x: Any, name: str | None) -> Any:
        """Return images with their channels where the caller has them."""
        return transpose(x, _TO_FIRST, name=name) if self.is_first else x

    def padded(self, x: Any) -> Any:
        return x if self.borders is None else pad(x, [(0, 0), *self.borders, (0, 0)])

    def inner(self, name: str) -> str | None:
        """Return the name of the operation in the middle."""
        return name if self == self._replace(is_first=False) else None


def _how(strides: Any, padding: Any, dilations: Any, data_format: Any) -> _How:
    if data_format not in (None, "NHWC", "NCHW"):
        raise ValueError(f"data_format is {data_format!r}; give NHWC or NCHW.")
    is_first = data_format == "NCHW"
    steps = _along(1 if strides is None else strides, "strides", is_first)
    holes = _along(1 if dilations is None else dilations, "dilations", is_first)
    for what, four in (("strides", steps), ("dilations", holes)):
        if (four[0], four[3]) != (1, 1):
            message = f"{what} are {list(four)}, but of rows and columns only."
            raise InvalidArgumentError(None, None, message)
    borders = None
    if isinstance(padding, list | tuple):
        padding, borders = "VALID", _borders(padding, is_first)
    elif not isinstance(padding, str):
        raise TypeError(f"Expected string for argument 'padding' not {padding!r}.")
    if padding not in ("SAME", "VALID"):
        raise ValueError(f"padding is {padding!r}; give 'SAME', 'VALID' or borders.")
    return _How(steps, (holes[1], holes[2]), padding, borders, is_first)


def _along(value: Any, what: str, is_first: bool) -> tuple[int, ...]:
    numbers = [value] if np.ndim(value) == 0 else list(value)
    if is_first and len(numbers) == 4:
        numbers = [numbers[i] for i in _TO_LAST]
    sizes = images.four(numbers, what)
    if min(sizes) < 1:
        raise ValueError(f"{what} are {value!r}; give numbers of at least 1.")
    return tuple(sizes)


def _borders(rows: Any, is_first: bool) -> tuple[tuple[int, int], ...]:
    pairs = [tuple(row) if np.ndim(row) else () for row in rows]
    if len(pairs) != 4 or any(len(pair) != 2 or min(pair) < 0 for pair in pairs):
        raise ValueError(
            f"padding is {rows!r}; give 'SAME', 'VALID' or four pairs of numbers, "
            f"none below 0."
        )
    pairs = [pairs[i] for i in _TO_LAST] if is_first else pairs
    if pairs[0] != (0, 0) or pairs[3] != (0, 0):
        raise ValueError(f"padding is {rows!r}; images and channels have no borders.")
    return tuple(pairs[1:3])


def _with_holes(w: Any, holes: tuple[int, int]) -> Any:
    """Return filters with zeros between the numbers of rows and of columns."""
    if holes == (1, 1):
        return w
    sizes = w.shape.as_list()
    if None in sizes:
        raise ValueError(f"filters with dilations have known sizes, not {w.shape}.")
    rows, columns = sizes[:2]
    w = reshape(w, [rows, 1, columns, 1, *sizes[2:]])
    spread = [(0, 0), (0, holes[0] - 1), (0, 0), (0, holes[1] - 1), (0, 0), (0, 0)]
    w = reshape(pad(w, spread), [rows * holes[0], columns * holes[1], *sizes[2:]])
    return w[: _reach(rows, holes[0]), : _reach(columns, holes[1])]


def _reach(size: int, holes: int) -> int:
    return (size - 1) * holes + 1


@dataclass
class _Options:
    """What `conv2d` and its two gradients take behind their tensors."""

    strides: Any = None
    padding: Any = None
    use_cudnn_on_gpu: bool = True
    data_format: str = "NHWC"
    dilations: Any = (1, 1, 1, 1)
    name: str | None = None

    @property
    def how(self) -> _How:
        return _how(self.strides, self.padding, self.dilations, self.data_format)

    @property
    def how_back(self) -> _How:
        """The same for a gradient, whose borders the original checks in the run."""
        borders = self.padding
        is_text = borders is None or isinstance(borders, str)
        if not is_text and np.size(borders) == 8 and np.min(borders) < 0:
            message = f"padding is {borders!r}; all its numbers must be nonnegative."
            raise InvalidArgumentError(None, None, message)
        return self.how


@with_options(_Options)
def conv2d(input: Any, filter: Any = None, *, filters: Any = None, options: Any) -> Any:
    """Return the correlation of images [image, row, column, channel] with filters.

    `strides` and `dilations` are four numbers, the first and last of them 1, or one or
    two; `padding` is "SAME", "VALID" or a pair of numbers for each axis. Raises
    `ValueError` for shapes that do not go together.
    """
    kernel = one_of("filters", filters, "filter", filter)
    how = options.how
    with op_scope(options.name, "Conv2D", [input, kernel]) as scope:
        x = argument("Conv2D", "input", input)
        w = argument("Conv2D", "filter", kernel, x.dtype.base_dtype)
        x, w = how.padded(how.last(x)), _with_holes(w, how.holes)
        groups = _groups(x, w)
        if groups == 1:
            y = images.conv2d(x, w, how.strides, how.padding, name=how.inner(scope))
            return how.back(y, scope)
        parts = zip(split(x, groups, 3), split(w, groups, 3), strict=True)
        outputs = [images.conv2d(*part, how.strides, how.padding) for part in parts]
        return how.back(concat(outputs, 3, name=how.inner(scope) or "concat"), scope)


def _groups(x: Any, w: Any) -> int:
    """Return of how many groups of channels each has its own filters."""
    n_inputs, *_ = x.shape.with_rank(4).as_list()[3:]
    taken, made = w.shape.with_rank(4).as_list()[2:]
    if (
        not (n_inputs and taken and made)
        or n_inputs % taken
        or made % (n_inputs // taken)
    ):
        return 1
    return int(n_inputs // taken)


@with_options(_Options)
def conv2d_backprop_input(
    input_sizes: Any,
    filter: Any = None,
    out_backprop: Any = None,
    *,
    filters: Any = None,
    options: Any,
) -> Any:
    """Return the gradient of `conv2d` by images of these sizes, from its result's."""
    kernel = one_of("filters", filters, "filter", filter)
    how = options.how_back
    values = [input_sizes, kernel, out_backprop]
    with op_scope(options.name, "Conv2DBackpropInput", values) as scope:
        dy = argument("Conv2DBackpropInput", "out_backprop", out_backprop)
        w = argument("Conv2DBackpropInput", "filter", kernel, dy.dtype.base_dtype)
        return _back(input_sizes, w, dy, how, scope)


def _back(sizes: Any, w: Any, dy: Any, how: _How, name: str) -> Any:
    dtype = dy.dtype.base_dtype
    sizes = ints("Conv2DBackpropInput", "input_sizes", sizes)
    if how.is_first:
        sizes = [sizes[i] for i in _TO_LAST]
    w, dy, edges = _with_holes(w, how.holes), how.last(dy), how.borders
    if edges is not None:
        more = [0, *map(sum, edges), 0]
        sizes = [sizes[i] + amount for i, amount in enumerate(more)]
    like = zeros(sizes, dtype)
    if like.shape.ndims not in (4, None):
        raise ValueError(f"images have 4 sizes, not {text(like.static.shape)}.")
    expected = conv.conv2d_shape(like.static.shape, w.static.shape, **how.attrs)
    merge(expected, dy.static.shape, "the images and the gradient")
    inner = how.inner(name)
    x = create("Conv2DBackpropInput", like, w, dy, name=inner, **how.attrs)
    if edges is not None:
        (top, bottom), (left, right) = edges
        x = x[:, top : -bottom or None, left : -right or None]
    return how.back(x, name)


@with_options(_Options)
def conv2d_backprop_filter(
    input: Any, filter_sizes: Any, out_backprop: Any = None, *, options: Any
) -> Any:
    """Return the gradient of `conv2d` by filters of these sizes, from its result's."""
    how = options.how_back
    values = [input, filter_sizes, out_backprop]
    with op_scope(options.name, "Conv2DBackpropFilter", values) as scope:
        x = argument("Conv2DBackpropFilter", "input", input)
        dtype = x.dtype.base_dtype
        dy = argument("Conv2DBackpropFilter", "out_backprop", out_backprop, dtype)
        sizes = ints("Conv2DBackpropFilter", "filter_sizes", filter_sizes)
        if how.holes != (1, 1):
            reach = [_reach(sizes[i], how.holes[i]) for i in range(2)]
            sizes = [*reach, sizes[2], sizes[3]]
        like = zeros(sizes, dtype)
        x, dy = how.padded(how.last(x)), how.last(dy)
        expected = conv.conv2d_shape(x.static.shape, like.static.shape, **how.attrs)
        merge(expected, dy.static.shape, "the images and the gradient")
        plain = scope if how.holes == (1, 1) else None
        dw = create("Conv2DBackpropFilter", x, like, dy, name=plain, **how.attrs)
        return dw if plain else dw[:: how.holes[0], :: how.holes[1]]


def conv2d_transpose(
    value: Any = None,
    filter: Any = None,
    output_shape: Any = None,
    strides: Any = None,
    padding: Any = "SAME",
    data_format: str = "NHWC",
    name: str | None = None,
    input: Any = None,
    filters: Any = None,
    dilations: Any = None,
) -> Any:
    """Return images of `output_shape`: what `conv2d` does to gradients.

    Filters are [row, column, channel out, channel in]. Raises `ValueError` for shapes
    that do not go together, in a run `InvalidArgumentError`.
    """
    images_in = one_of("input", input, "value", value)
    kernel = one_of("filters", filters, "filter", filter)
    how = _how(strides, padding, dilations, data_format)
    with op_scope(name, "conv2d_transpose", [images_in, kernel, output_shape]) as scope:
        dy = argument("Conv2DBackpropInput", "input", images_in)
        w = argument("Conv2DBackpropInput", "filter", kernel, dy.dtype.base_dtype)
        return _back(output_shape, w, dy, how, scope)


def convolution(
    input: Any,
    filter: Any = None,
    padding: Any = None,
    strides: Any = None,
    dilation_rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    filters: Any = None,
    dilations: Any = None,
) -> Any:
    """Return the correlation with filters along one or two axes.

    `strides` and `dilation_rate` have a number for each of these axes. Raises
    `ValueError` for three axes, and where both are above 1.
    """
    kernel = one_of("filters", filters, "filter", filter)
    rates = one_of("dilations", dilations, "dilation_rate", dilation_rate)
    with op_scope(name, "convolution", [input, kernel]) as scope:
        x = convert_to_tensor(input, name="input")
        w = convert_to_tensor(kernel, name="filter")
        rank = w.shape.ndims if x.shape.ndims is None else x.shape.ndims
        if rank not in (3, 4):
            raise ValueError(f"convolution has one or two axes, not {w.shape}.")
        n = rank - 2
        if data_format not in (None, *_FORMATS[n]):
            raise ValueError(f"data_format is {data_format!r}, not in {_FORMATS[n]}.")
        steps, holes = _each(strides, n, "strides"), _each(rates, n, "dilation_rate")
        if max(steps) > 1 and max(holes) > 1:
            raise ValueError("strides > 1 not supported in conjunction with dilation")
        is_first = data_format in _FIRST
        how = {
            "strides": [1] * (2 - n) + steps,
            "dilations": [1] * (2 - n) + holes,
            "padding": padding,
            "data_format": "NCHW" if is_first else "NHWC",
        }
        if n == 2:
            return conv2d(x, w, name=scope, **how)
        row = 2 if is_first else 1
        y = conv2d(expand_dims(x, row), expand_dims(w, 0), **how)
        return squeeze(y, [row], name=scope)


def _each(value: Any, n: int, what: str) -> list[int]:
    numbers: Any = [1] * n if value is None else value
    listed: list[int] = [numbers] * n if np.ndim(numbers) == 0 else list(numbers)
    listed = listed * n if len(listed) == 1 else listed
    if len(listed) != n or min(listed) < 1:
        raise ValueError(f"{what} is {value!r}; give {n} numbers of at least 1.")
    return listed


def conv1d(
    value: Any = None,
    filters: Any = None,
    stride: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool | None = None,
    data_format: str | None = None,
    name: str | None = None,
    input: Any = None,
    dilations: Any = None,
) -> Any:
    """Return the correlation of rows [row, place, channel] with filters."""
    tensor = one_of("input", input, "value", value)
    formats = {None: "NWC", "NHWC": "NWC", "NCHW": "NCW"}
    form = formats.get(data_format, data_format)
    with op_scope(name, "conv1d", [tensor, filters]) as scope:
        steps = _each(stride, 1, "stride")
        return convolution(tensor, filters, padding, steps, dilations, scope, form)


def atrous_conv2d(
    value: Any, filters: Any, rate: int, padding: str, name: str | None = None
) -> Any:
    """Return `conv2d` with filters that have `rate` - 1 holes between two numbers."""
    return convolution(value, filters, padding, dilation_rate=[rate, rate], name=name)


def atrous_conv2d_transpose(
    value: Any,
    filters: Any,
    output_shape: Any,
    rate: int,
    padding: str,
    name: str | None = None,
) -> Any:
    """Return `conv2d_transpose` with filters that have holes; see `atrous_conv2d`."""
    with op_scope(name, "atrous_conv2d_transpose", [value, filters]) as scope:
        return conv2d_transpose(
            value, filters, output_shape, 1, padding, name=scope, dilations=rate
        )


def depthwise_conv2d(
    input: Any,
    filter: Any,
    strides: Sequence[int],
    padding: Any,
    rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: Any = None,
) -> Any:
    """Return each channel's own correlations, with filters [row, column, channel, n].

    It is a `conv2d` with zeros between all channels, which costs as much.
    """
    holes = one_of("dilations", dilations, "rate", rate)
    with op_scope(name, "depthwise", [input, filter]) as scope:
        x = convert_to_tensor(input, name="tensor_in")
        w = convert_to_tensor(filter, x.dtype.base_dtype, name="filter_in")
        rows, columns, channels, n = w.shape.as_list()
        own = np.eye(channels, dtype=w.dtype.as_numpy_dtype)[:, :, None]
        whole = multiply(expand_dims(w, 3), own)
        w = reshape(whole, [rows, columns, channels, channels * n])
        form = data_format or "NHWC"
        return conv2d(x, w, strides, padding, True, form, holes, scope)


depthwise_conv2d_native = depthwise_conv2d


def separable_conv2d(
    input: Any,
    depthwise_filter: Any,
    pointwise_filter: Any,
    strides: Sequence[int],
    padding: Any,
    rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: Any = None,
) -> Any:
    """Return `depthwise_conv2d`, and then a `conv2d` with filters of one place."""
    holes = one_of("dilations", dilations, "rate", rate)
    values = [input, depthwise_filter, pointwise_filter]
    with op_scope(name, "separable_conv2d", values) as scope:
        x = depthwise_conv2d(
            input, depthwise_filter, strides, padding, holes, None, data_format
        )
        form = data_format or "NHWC"
        return conv2d(x, pointwise_filter, 1, "VALID", True, form, name=scope)
