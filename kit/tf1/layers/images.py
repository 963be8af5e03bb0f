"""Layers of images [image, row, column, channel]: convolutions and pools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kit.tf1.layers.layer import (
    KernelLayer,
    KernelOptions,
    Layer,
    function_of,
    size_of_axis,
)
from kit.tf1.ops import nn_conv, nn_layer
from kit.tf1.ops.shape import shape as shape_of
from kit.tf1.signature import with_options

_FORMATS = {"channels_last": "NHWC", "channels_first": "NCHW"}


class Conv2D(KernelLayer):
    """activation(inputs * kernel + bias), a correlation of rows and columns."""

    @with_options(KernelOptions)
    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: Any = (1, 1),
        *,
        options: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(options, **kwargs)
        self.filters = filters
        self.kernel_size = pair("kernel_size", kernel_size)
        self._how: dict[str, Any] = {
            "strides": pair("strides", strides),
            "padding": padding.upper(),
            "data_format": _format_of(data_format),
            "dilations": pair("dilation_rate", dilation_rate),
        }

    def build(self, input_shape: Any) -> None:
        """Make kernel [rows, columns, channels, filters] and bias [filters]."""
        n_channels = size_of_axis(self, input_shape, 1 if self._is_first else -1)
        self.add_kernel(self._kernel_shape(n_channels), self.filters)

    def call(self, inputs: Any) -> Any:
        """Return the images of the filters."""
        outputs = nn_conv.conv2d(inputs, self.kernel, **self._how)
        return self.finished(outputs, self._how["data_format"])

    @property
    def _is_first(self) -> bool:
        return bool(self._how["data_format"] == "NCHW")

    def _kernel_shape(self, n_channels: int) -> list[int]:
        return [*self.kernel_size, n_channels, self.filters]


class Conv2DTranspose(Conv2D):
    """activation(inputs spread by kernel + bias): larger images."""

    @with_options(KernelOptions)
    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: str = "valid",
        data_format: str = "channels_last",
        *,
        options: Any,
        **kwargs: Any,
    ) -> None:
        how = {**vars(options), **kwargs}
        super().__init__(filters, kernel_size, strides, padding, data_format, **how)

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
        static_sizes = [size if isinstance(size, int) else None for size in wanted]
        outputs.set_shape(static_sizes)
        return self.finished(outputs, self._how["data_format"])


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


conv2d = function_of(Conv2D, "conv2d")
conv2d_transpose = function_of(Conv2DTranspose, "conv2d_transpose")
max_pooling2d = function_of(MaxPooling2D, "max_pooling2d")
average_pooling2d = function_of(AveragePooling2D, "average_pooling2d")


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
