"""Layers: biases, convolutions, pools, dropout, rows of tables, means and variances."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from kit.graph.array_protocol import ArrayProtocol
from kit.graph.ops.math.random import uniform
from kit.graph.ops.nn import embedding, images
from kit.graph.static import is_known
from kit.tf1.ops.arithmetic import (
    cast,
    identity,
    matmul,
    maximum,
    multiply,
    pow,
    rsqrt,
    square,
    squared_difference,
    stop_gradient,
)
from kit.tf1.ops.clip import clip_by_norm
from kit.tf1.ops.nn_activation import relu
from kit.tf1.ops.reduce import reduce_mean, reduce_sum
from kit.tf1.ops.shape import reshape, squeeze
from kit.tf1.ops.shape import shape as shape_of
from kit.tf1.ops.write import index, ints, one_of
from kit.tf1.tensor.convert import (
    argument,
    convert_to_tensor,
    create,
    create_op,
    op_scope,
)
from kit.tf1.tensor.dtypes import as_dtype, float32, int32, int64, numpy_of
from kit.tf1.tensor.shape import TensorShape
from kit.tf1.variables.partitioned import parts_of

_FORMATS = (None, "NHWC", "NCHW")


def bias_add(
    value: Any, bias: Any, data_format: str | None = None, name: str | None = None
) -> Any:
    """Return a value with a bias added along its last axis, or axis 1 of NCHW."""
    if data_format not in _FORMATS:
        raise ValueError(f"data_format must be either NHWC or NCHW, not {data_format}")
    with op_scope(name, "BiasAdd", [value, bias]) as scope:
        x = argument("BiasAdd", "input", value)
        b = convert_to_tensor(bias, x.dtype.base_dtype, name="bias")
        shape = x.static.shape
        if data_format == "NCHW" and shape is not None and len(shape) > 2:
            b.shape.assert_has_rank(1)
            column = reshape(b, [1, -1, *[1] * (len(shape) - 2)])
            return create("Add", x, column, name=scope)
        return create("BiasAdd", x, b, name=scope)


def xw_plus_b(x: Any, weights: Any, biases: Any, name: str | None = None) -> Any:
    """Return matmul(x, weights) + biases."""
    with op_scope(name, "xw_plus_b", [x, weights, biases]) as scope:
        return _layer(x, weights, biases, scope)


def _layer(x: Any, weights: Any, biases: Any, name: str | None) -> Any:
    x, weights, biases = (
        convert_to_tensor(value, name=what)
        for what, value in (("x", x), ("weights", weights), ("biases", biases))
    )
    return bias_add(matmul(x, weights), biases, name=name)


def relu_layer(x: Any, weights: Any, biases: Any, name: str | None = None) -> Any:
    """Return relu(matmul(x, weights) + biases)."""
    with op_scope(name, "relu_layer", [x, weights, biases]) as scope:
        return relu(_layer(x, weights, biases, None), name=scope)


def max_pool(
    value: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    name: str | None = None,
    input: Any = None,
) -> Any:
    """Return the greatest of each window of the images."""
    tensor = one_of("input", input, "value", value)
    _check_images(data_format, padding)
    with op_scope(name, "MaxPool", [tensor]) as scope:
        x = argument("MaxPool", "input", tensor)
        return images.max_pool(x, ksize, strides, padding, name=scope)


def max_pool_with_argmax(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    Targmax: Any = None,
    name: str | None = None,
    output_dtype: Any = None,
    include_batch_in_index: bool = False,
) -> Any:
    """Return the greatest of each window of the images, and where it is.

    A position counts rows, columns and channels of an image, or of all images, in
    int64 by default.
    """
    _check_images(data_format, padding)
    kind = one_of("output_dtype", output_dtype, "Targmax", Targmax)
    dtype = int64 if kind is None else as_dtype(kind)
    if dtype not in (int32, int64):
        raise TypeError(f"positions are int32 or int64, not {dtype.name}.")
    with op_scope(name, "MaxPoolWithArgmax", [input]) as scope:
        attrs = {
            "ksize": images.four(ksize, "ksize"),
            "strides": images.four(strides, "strides"),
            "padding": padding,
            "Targmax": numpy_of(dtype),
            "include_batch_in_index": bool(include_batch_in_index),
        }
        x = argument("MaxPoolWithArgmax", "input", input)
        made = create_op("MaxPoolWithArgmax", x, name=scope, **attrs)
        return _MaxPoolWithArgmax(*made.outputs)


_MaxPoolWithArgmax = namedtuple("_MaxPoolWithArgmax", ["output", "argmax"])


def avg_pool(
    value: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    name: str | None = None,
    input: Any = None,
) -> Any:
    """Return the mean of each window of the images, borders left out."""
    tensor = one_of("input", input, "value", value)
    _check_images(data_format, padding)
    with op_scope(name, "AvgPool", [tensor]) as scope:
        x = argument("AvgPool", "value", tensor)
        return images.avg_pool(x, ksize, strides, padding, name=scope)


def _check_images(data_format: Any, padding: Any) -> None:
    if data_format not in (None, "NHWC"):
        raise ValueError(
            f"data_format is {data_format!r}; images are NHWC here, transpose them."
        )
    if not isinstance(padding, str):
        raise TypeError(f"Expected string for argument 'padding' not {padding!r}.")
    if padding not in ("SAME", "VALID"):
        raise ValueError(f"padding is {padding!r}; give 'SAME' or 'VALID'.")


def dropout(
    x: Any,
    keep_prob: Any = None,
    noise_shape: Any = None,
    seed: int | None = None,
    name: str | None = None,
    rate: Any = None,
) -> Any:
    """Return x with random elements set to 0, and the others scaled up.

    `rate` is the share that is dropped, `keep_prob` the one that is kept. With
    `noise_shape` one decision holds for all elements along its axes of size 1. Raises
    `ValueError` for a rate out of range or missing, and for integers.
    """
    if isinstance(keep_prob, list | tuple) or isinstance(rate, list | tuple):
        raise ValueError("a rate of dropout is one number, not a list.")
    kept = None if keep_prob is None else 1.0 - keep_prob
    rate = one_of("rate", rate, "keep_prob", kept)
    if rate is None:
        raise ValueError("You must provide a rate to dropout.")
    with op_scope(name, "dropout", [x, rate]):
        tensor = convert_to_tensor(x, name="x")
        if not tensor.dtype.is_floating:
            raise ValueError(
                f"x has to be a floating point tensor since it's going to be scaled. "
                f"Got a {tensor.dtype.name} tensor instead."
            )
        if not isinstance(rate, ArrayProtocol):
            if not 0 <= rate < 1:
                raise ValueError(
                    f"rate must be a scalar tensor or a float in the range [0, 1), got "
                    f"{rate!r}"
                )
            if rate == 0:
                return tensor
        return _dropped(tensor, rate, noise_shape, seed)


def _dropped(x: Any, rate: Any, noise_shape: Any, seed: int | None) -> Any:
    dtype = x.dtype.base_dtype
    share = convert_to_tensor(rate, dtype, name="rate")
    share.shape.assert_has_rank(0)
    sizes = _noise(x, noise_shape)
    noise = uniform(sizes, dtype=numpy_of(dtype), seed=seed, name="random_uniform")
    is_kept = create("GreaterEqual", noise, share, name="GreaterEqual")
    scaled = multiply(x, 1.0 / (1.0 - share), name="mul")
    made = multiply(scaled, cast(is_kept, dtype), name="mul")
    made.set_shape(x.shape)  # a rate that is fed may have no shape
    return made


def _noise(x: Any, shape: Any) -> Any:
    if shape is None:
        return x.static.shape if is_known(x.static.shape) else shape_of(x)
    if isinstance(shape, list | tuple | TensorShape):
        wanted = [getattr(size, "value", size) for size in shape]
        own: Any = shape_of(x) if None in wanted else None
        shape = [own[i] if size is None else size for i, size in enumerate(wanted)]
    return ints("RandomUniform", "shape", shape)


def embedding_lookup(
    params: Any,
    ids: Any,
    partition_strategy: str = "mod",
    name: str | None = None,
    validate_indices: bool = True,
    max_norm: Any = None,
) -> Any:
    """Return the rows of a table, or of a list of its parts, that integers name.

    With "mod" row i is in part i % n, with "div" the parts are ranges of rows. Rows
    longer than `max_norm` are shortened to it. Raises `ValueError` without parts.
    """
    parts = _parts(params)
    with op_scope(name, "embedding_lookup", [*parts, ids]) as scope:
        tables = [
            argument("GatherV2", f"params_{i}", table) for i, table in enumerate(parts)
        ]
        wanted = index("GatherV2", "ids", ids)
        # The original's last operation is not named like the scope.
        rows = embedding.embedding_lookup(
            tables, wanted, partition_strategy, name=scope
        )
        if max_norm is not None:
            n, rank = wanted.shape.ndims, rows.shape.ndims
            rows = clip_by_norm(rows, max_norm, axes=list(range(n, rank)))
        if len(tables) == 1:
            with rows.graph.colocate_with(tables[0]):
                return create("Identity", rows, name="Identity")
        return rows


def _parts(params: Any) -> list[Any]:
    if params is None or (isinstance(params, list | tuple) and not params):
        raise ValueError("Need at least one param")
    if isinstance(params, list | tuple):
        return list(params)
    return parts_of(params)


def moments(
    x: Any,
    axes: Any,
    shift: Any = None,
    name: str | None = None,
    keep_dims: bool | None = None,
    keepdims: bool | None = None,
) -> tuple[Any, Any]:
    """Return mean and variance along some axes; `shift` is not used.

    Of 16 bits they are computed in float32.
    """
    keep = one_of("keepdims", keepdims, "keep_dims", keep_dims)
    with op_scope(name, "moments", [x, axes]):
        tensor = convert_to_tensor(x, name="x")
        own = tensor.dtype.base_dtype
        is_half = own.is_floating and own.size == 2
        wide = cast(tensor, float32) if is_half else tensor
        mean = reduce_mean(wide, axes, keepdims=True, name="mean")
        distance = squared_difference(wide, stop_gradient(mean))
        variance = reduce_mean(distance, axes, keepdims=True, name="variance")
        if not keep:
            mean, variance = squeeze(mean, axes), squeeze(variance, axes)
        if is_half:
            return cast(mean, own), cast(variance, own)
        return mean, variance


def batch_normalization(
    x: Any,
    mean: Any,
    variance: Any,
    offset: Any,
    scale: Any,
    variance_epsilon: Any,
    name: str | None = None,
) -> Any:
    """Return (x - mean) / sqrt(variance + epsilon), scaled and offset unless None."""
    with op_scope(name, "batchnorm", [x, mean, variance, scale, offset]):
        factor = rsqrt(variance + variance_epsilon)
        if scale is not None:
            factor *= scale
        rest = -mean * factor if offset is None else offset - mean * factor
        return x * cast(factor, x.dtype) + cast(rest, x.dtype)


def l2_normalize(
    x: Any,
    axis: Any = None,
    epsilon: float = 1e-12,
    name: str | None = None,
    dim: Any = None,
) -> Any:
    """Return x divided by its length along some axes; epsilon guards against zero."""
    axis = one_of("axis", axis, "dim", dim)
    with op_scope(name, "l2_normalize", [x]) as scope:
        tensor = convert_to_tensor(x, name="x")
        total = reduce_sum(square(tensor), axis, keepdims=True)
        return multiply(tensor, rsqrt(maximum(total, epsilon)), name=scope)


def local_response_normalization(
    input: Any,
    depth_radius: int = 5,
    bias: float = 1.0,
    alpha: float = 1.0,
    beta: float = 0.5,
    name: str | None = None,
) -> Any:
    """Return images divided by (bias + alpha * the sum of squares around)**beta.

    Around a channel are those at most `depth_radius` away. Raises `ValueError` for
    other than 4 axes, and for an unknown number of channels.
    """
    with op_scope(name, "LRN", [input]) as scope:
        x = convert_to_tensor(input, name="input")
        sizes = x.shape.as_list()
        if len(sizes) != 4 or sizes[-1] is None:
            raise ValueError(
                f"local_response_normalization takes images [image, row, column, "
                f"channel] of a known number of channels, not {x!r}."
            )
        channels = np.arange(sizes[-1])
        is_near = abs(channels[:, None] - channels) <= depth_radius
        near = convert_to_tensor(is_near.astype(x.dtype.as_numpy_dtype))
        # A product with a band of ones sums over the channels around each.
        total = matmul(reshape(square(x), [-1, sizes[-1]]), near)
        factor = pow(bias + alpha * reshape(total, shape_of(x)), -beta)
        return multiply(x, factor, name=scope)


lrn = local_response_normalization


def zero_fraction(value: Any, name: str | None = None) -> Any:
    """Return the share of elements that are zero."""
    with op_scope(name, "zero_fraction", [value]):
        tensor = convert_to_tensor(value, name="value")
        is_zero = tensor.graph.create(
            "Equal", tensor, convert_to_tensor(tensor.dtype.as_numpy_dtype(0))
        )
        share = reduce_mean(cast(is_zero.outputs[0], float32))
        return identity(share, name="fraction")
