"""Layers of images [image, row, column, channel]: convolutions and pools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kit.tf1.layers.layer import Layer, size_of_axis
from kit.tf1.ops import nn_conv, nn_layer
from kit.tf1.ops.shape import shape as shape_of
from kit.tf1.variables.initial_values import Zeros

_FORMATS = {"channels_last": "NHWC", "channels_first": "NCHW"}


class Conv2D(Layer):
    """activation(inputs * kernel + bias), a correlation of rows and columns."""

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: Any = (1, 1),
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = Zeros,
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            trainable, name, activity_regularizer=activity_regularizer, **kwargs
        )
        self.filters, self.activation, self.use_bias = filters, activation, use_bias
        self.kernel_size = pair("kernel_size", kernel_size)
        self._how: dict[str, Any] = {
            "strides": pair("strides", strides),
            "padding": padding.upper(),
            "data_format": _format_of(data_format),
            "dilations": pair("dilation_rate", dilation_rate),
        }
        self._of_kernel = (kernel_initializer, kernel_regularizer)
        self._of_bias = (bias_initializer, bias_regularizer)
        self._constraints = (kernel_constraint, bias_constraint)
        self.bias: Any = None

    def build(self, input_shape: Any) -> None:
        """Make kernel [rows, columns, channels, filters] and bias [filters]."""
        n_channels = size_of_axis(self, input_shape, 1 if self._is_first else -1)
        of_kernel, of_bias = self._constraints
        shape = self._kernel_shape(n_channels)
        self.kernel = self.add_variable(
            "kernel", shape, *self._of_kernel, constraint=of_kernel
        )
        if self.use_bias:
            self.bias = self.add_variable(
                "bias", [self.filters], *self._of_bias, constraint=of_bias
            )

    def call(self, inputs: Any) -> Any:
        """Return the images of the filters."""
        return self._finished(nn_conv.conv2d(inputs, self.kernel, **self._how))

    @property
    def _is_first(self) -> bool:
        return bool(self._how["data_format"] == "NCHW")

    def _kernel_shape(self, n_channels: int) -> list[int]:
        return [*self.kernel_size, n_channels, self.filters]

    def _finished(self, outputs: Any) -> Any:
        if self.use_bias:
            outputs = nn_layer.bias_add(outputs, self.bias, self._how["data_format"])
        return outputs if self.activation is None else self.activation(outputs)


class Conv2DTranspose(Conv2D):
    """activation(inputs spread by kernel + bias): larger images."""

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: str = "valid",
        data_format: str = "channels_last",
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Take what `Conv2D` takes, without `dilation_rate`."""
        super().__init__(
            *(filters, kernel_size, strides, padding, data_format, (1, 1), *args),
            **kwargs,
        )

    def _kernel_shape(self, n_channels: int) -> list[int]:
        return [*self.kernel_size, self.filters, n_channels]

    def call(self, inputs: Any) -> Any:
        """Return images of size x stride; "valid" adds what the kernel is longer."""
        steps, first = self._how["strides"], 2 if self._is_first else 1
        sizes, batch = inputs.shape.as_list()[first : first + 2], shape_of(inputs)
        wanted = [
            (batch[axis + first] if size is None else size) * step
            + (max(length - step, 0) if self._how["padding"] == "VALID" else 0)
            for axis, (size, step, length) in enumerate(
                zip(sizes, steps, self.kernel_size, strict=True)
            )
        ]
        n_images = inputs.shape.as_list()[0]
        wanted = [*wanted, self.filters] if first == 1 else [self.filters, *wanted]
        wanted = [batch[0] if n_images is None else n_images, *wanted]
        how = {key: self._how[key] for key in ("strides", "padding", "data_format")}
        outputs = nn_conv.conv2d_transpose(inputs, self.kernel, wanted, **how)
        known = [one if isinstance(one, int) else None for one in wanted]
        outputs.set_shape(known)
        return self._finished(outputs)


class _Pooling2D(Layer):
    _pool: Callable[..., Any]

    def __init__(
        self,
        pool_size: Any,
        strides: Any,
        padding: str = "valid",
        data_format: str = "channels_last",
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        self._how = {
            "ksize": [1, *pair("pool_size", pool_size), 1],
            "strides": pair("strides", strides),
            "padding": padding.upper(),
            "data_format": _format_of(data_format),
        }

    def call(self, inputs: Any) -> Any:
        """Return smaller images."""
        return type(self)._pool(inputs, **self._how)


class MaxPooling2D(_Pooling2D):
    """The greatest of each window."""

    _pool = staticmethod(nn_layer.max_pool)


class AveragePooling2D(_Pooling2D):
    """The mean of each window."""

    _pool = staticmethod(nn_layer.avg_pool)


def conv2d(
    inputs: Any,
    filters: int,
    kernel_size: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str = "channels_last",
    dilation_rate: Any = (1, 1),
    activation: Any = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = Zeros,
    kernel_regularizer: Any = None,
    bias_regularizer: Any = None,
    activity_regularizer: Any = None,
    kernel_constraint: Any = None,
    bias_constraint: Any = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Any:
    """Return the images of filters; see `Conv2D`."""
    return Conv2D(
        filters,
        kernel_size,
        strides,
        padding,
        data_format,
        dilation_rate,
        activation,
        use_bias,
        kernel_initializer,
        bias_initializer,
        kernel_regularizer,
        bias_regularizer,
        activity_regularizer,
        kernel_constraint,
        bias_constraint,
        trainable,
        name,
        _reuse=reuse,
    )(inputs)


def conv2d_transpose(
    inputs: Any,
    filters: int,
    kernel_size: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str = "channels_last",
    activation: Any = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = Zeros,
    kernel_regularizer: Any = None,
    bias_regularizer: Any = None,
    activity_regularizer: Any = None,
    kernel_constraint: Any = None,
    bias_constraint: Any = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Any:
    """Return larger images; see `Conv2DTranspose`."""
    return Conv2DTranspose(
        filters,
        kernel_size,
        strides,
        padding,
        data_format,
        activation,
        use_bias,
        kernel_initializer,
        bias_initializer,
        kernel_regularizer,
        bias_regularizer,
        activity_regularizer,
        kernel_constraint,
        bias_constraint,
        trainable,
        name,
        _reuse=reuse,
    )(inputs)


def max_pooling2d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Any:
    """Return the greatest of each window of the images."""
    return MaxPooling2D(pool_size, strides, padding, data_format, name)(inputs)


def average_pooling2d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Any:
    """Return the mean of each window of the images."""
    return AveragePooling2D(pool_size, strides, padding, data_format, name)(inputs)


def pair(name: str, numbers: Any) -> list[int]:
    """Return one or two numbers as two; `ValueError` for others."""
    sizes = [numbers, numbers] if isinstance(numbers, int) else list(numbers)
    if len(sizes) == 1:
        sizes *= 2
    if len(sizes) != 2 or not all(isinstance(size, int) for size in sizes):
        raise ValueError(
            f"The `{name}` argument must be a tuple of 2 integers. Received: {numbers}"
        )
    return sizes


def _format_of(data_format: str) -> str:
    """Return the short name of a format, which the operations take."""
    if data_format not in _FORMATS:
        raise ValueError(
            f"The `data_format` argument must be one of {', '.join(_FORMATS)}. "
            f"Received: {data_format}"
        )
    return _FORMATS[data_format]
