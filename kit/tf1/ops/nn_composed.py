"""Parts of networks that are put together of others."""

from __future__ import annotations

from typing import Any

import numpy as np

from kit.tf1.ops import nn_layer
from kit.tf1.ops.arithmetic import add, exp, greater_equal, less_equal, log, sigmoid
from kit.tf1.ops.creation import zeros_like
from kit.tf1.ops.index import where
from kit.tf1.ops.join import concat
from kit.tf1.ops.nn_activation import elu, relu
from kit.tf1.ops.nn_conv import conv2d_transpose
from kit.tf1.ops.shape import expand_dims, squeeze
from kit.tf1.tensor.convert import convert_to_tensor, op_scope


def crelu(features: Any, name: str | None = None, axis: int = -1) -> Any:
    """Return relu(x) and relu(-x) side by side along an axis."""
    with op_scope(name, "CRelu", [features]) as scope:
        x = convert_to_tensor(features, name="features")
        return relu(concat([x, -x], axis), name=scope)


def selu(features: Any, name: str | None = None) -> Any:
    """Return scaled elu(x), which keeps means and variances."""
    with op_scope(name, "Selu", [features]) as scope:
        x = convert_to_tensor(features, name="features")
        scale, alpha = 1.0507009873554805, 1.6732632423543772
        kind = x.dtype.as_numpy_dtype
        below = elu(where(greater_equal(x, zeros_like(x)), zeros_like(x), x))
        made = relu(x) * kind(scale)
        return add(made, below * kind(scale * alpha), name=scope)


def swish(features: Any) -> Any:
    """Return x * sigmoid(x)."""
    with op_scope(None, "swish", [features]):
        x = convert_to_tensor(features, name="features")
        return x * sigmoid(x)


def log_poisson_loss(
    targets: Any,
    log_input: Any,
    compute_full_loss: bool = False,
    name: str | None = None,
) -> Any:
    """Return exp(c) - z * c, of log_input c and targets z; the whole with Stirling's.

    Raises `ValueError` for shapes that do not fit.
    """
    with op_scope(name, "log_poisson_loss", [log_input, targets]):
        c = convert_to_tensor(log_input, name="log_input")
        z = convert_to_tensor(targets, name="targets")
        z.shape.merge_with(c.shape)
        loss = exp(c) - c * z
        if not compute_full_loss:
            return loss
        kind = z.dtype.as_numpy_dtype
        stirling = z * log(z) - z + kind(0.5) * log(kind(2 * np.pi) * z)
        none = zeros_like(z)
        is_small = greater_equal(z, none) & less_equal(z, none + kind(1))
        return loss + where(is_small, none, stirling)


def _along(pool: Any, default: str, doc: str) -> Any:
    def function(
        input: Any,
        ksize: Any,
        strides: Any,
        padding: Any,
        data_format: str = "NWC",
        name: str | None = None,
    ) -> Any:
        with op_scope(name, default, [input]) as scope:
            row = 2 if data_format == "NCW" else 1
            x = expand_dims(input, row)
            sizes, steps = ([1, np.ravel(size)[-1]] for size in (ksize, strides))
            form = "NCHW" if data_format == "NCW" else "NHWC"
            return squeeze(pool(x, sizes, steps, padding, form), [row], name=scope)

    function.__doc__ = doc
    return function


max_pool1d = _along(nn_layer.max_pool, "max_pool1d", "Return the greatest along rows.")
avg_pool1d = _along(nn_layer.avg_pool, "avg_pool1d", "Return the means along rows.")


def _of_any_rank(of_rows: Any, of_images: Any, doc: str) -> Any:
    def function(
        input: Any,
        ksize: Any,
        strides: Any,
        padding: Any,
        data_format: str | None = None,
        name: str | None = None,
    ) -> Any:
        x = convert_to_tensor(input)
        if x.shape.ndims == 3:
            return of_rows(x, ksize, strides, padding, data_format or "NWC", name)
        return of_images(x, ksize, strides, padding, data_format or "NHWC", name)

    function.__doc__ = doc
    return function


max_pool_v2 = _of_any_rank(
    max_pool1d, nn_layer.max_pool, "Return the greatest of windows of rows or images."
)
avg_pool_v2 = _of_any_rank(
    avg_pool1d, nn_layer.avg_pool, "Return the means of windows of rows or images."
)


def conv1d_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: str = "SAME",
    data_format: str = "NWC",
    dilations: Any = None,
    name: str | None = None,
) -> Any:
    """Return rows of `output_shape`: what `conv1d` does to gradients."""
    with op_scope(name, "conv1d_transpose", [input, filters, output_shape]) as scope:
        row = 2 if data_format == "NCW" else 1
        sizes = convert_to_tensor(output_shape, name="output_shape")
        sizes = concat([sizes[:row], [1], sizes[row:]], 0)
        form = "NCHW" if data_format == "NCW" else "NHWC"
        steps, holes = (
            [1, 1 if size is None else np.ravel(size)[-1]]
            for size in (strides, dilations)
        )
        y = conv2d_transpose(
            expand_dims(input, row),
            expand_dims(filters, 0),
            sizes,
            steps,
            padding,
            form,
            dilations=holes,
        )
        return squeeze(y, [row], name=scope)


def conv_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: str = "SAME",
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Any:
    """Return rows or images of `output_shape`; raises `ValueError` for other ranks."""
    if hasattr(output_shape, "shape"):
        n = int(output_shape.shape[0])
    elif hasattr(output_shape, "__len__"):
        n = len(output_shape)
    else:
        raise ValueError("output_shape must be a tensor or sized collection.")
    if n == 3:
        form = data_format or "NWC"
        how = (strides, padding, form, dilations, name)
        return conv1d_transpose(input, filters, output_shape, *how)
    if n != 4:
        raise ValueError(f"output_shape must be of length 3 or 4 but was {n}.")
    return conv2d_transpose(
        input,
        filters,
        output_shape,
        strides,
        padding,
        data_format or "NHWC",
        name,
        dilations=dilations,
    )
