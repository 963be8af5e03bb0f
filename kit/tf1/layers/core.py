"""Layers of rows: dense ones, dropout, and images made rows."""

from __future__ import annotations

import math
from typing import Any

from kit.graph.array_protocol import ArrayProtocol
from kit.tf1.layers.layer import (
    KernelLayer,
    KernelOptions,
    Layer,
    as_scalar,
    function_of,
    size_of_axis,
)
from kit.tf1.ops import nn_layer
from kit.tf1.ops.arithmetic import cast, identity, matmul
from kit.tf1.ops.join import stack
from kit.tf1.ops.shape import reshape
from kit.tf1.ops.shape import shape as shape_of
from kit.tf1.signature import with_options


class Dense(KernelLayer):
    """activation(inputs @ kernel + bias) along the last axis."""

    @with_options(KernelOptions)
    def __init__(self, units: int, options: Any, **kwargs: Any) -> None:
        super().__init__(options, **kwargs)
        self.units = int(units)

    def build(self, input_shape: Any) -> None:
        """Make kernel [inputs, units] and bias [units]."""
        n_inputs = size_of_axis(self, input_shape, -1)
        self.add_kernel([n_inputs, self.units], self.units)

    def call(self, inputs: Any) -> Any:
        """Return the outputs, with as many axes as the inputs."""
        sizes = inputs.shape.as_list()
        rows = inputs if len(sizes) == 2 else reshape(inputs, [-1, sizes[-1]])
        outputs = matmul(rows, self.kernel)
        if len(sizes) != 2:
            whole = shape_of(inputs)
            lead = [whole[i] if n is None else n for i, n in enumerate(sizes[:-1])]
            outputs = reshape(outputs, [*lead, self.units])
            outputs.set_shape([*sizes[:-1], self.units])
        return self.finished(outputs)


class Dropout(Layer):
    """Sets a share of the inputs to 0 and scales the others up, while training."""

    def __init__(
        self,
        rate: Any = 0.5,
        noise_shape: Any = None,
        seed: int | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        self.rate, self.noise_shape, self.seed = rate, noise_shape, seed

    def call(self, inputs: Any, training: Any = False) -> Any:
        """Return the inputs as they are unless `training`, which may be a tensor."""
        rate = self.rate
        if isinstance(training, ArrayProtocol):
            rate = rate * cast(as_scalar(training), inputs.dtype.base_dtype)
        elif not training:
            return identity(inputs)
        return nn_layer.dropout(
            inputs, noise_shape=self.noise_shape, seed=self.seed, rate=rate
        )


class Flatten(Layer):
    """All axes but the first become one."""

    def call(self, inputs: Any) -> Any:
        """Return a matrix."""
        sizes = inputs.shape.as_list()
        if None not in sizes[1:]:
            return reshape(inputs, [-1, math.prod(sizes[1:])])
        return reshape(inputs, stack([shape_of(inputs)[0], -1]))


dense = function_of(Dense, "dense")


def dropout(
    inputs: Any,
    rate: Any = 0.5,
    noise_shape: Any = None,
    seed: int | None = None,
    training: Any = False,
    name: str | None = None,
) -> Any:
    """Return the inputs, a share `rate` of them set to 0 while `training`."""
    return Dropout(rate, noise_shape, seed, name)(inputs, training=training)


def flatten(
    inputs: Any, name: str | None = None, data_format: str = "channels_last"
) -> Any:
    """Return a matrix with a row for each example."""
    return Flatten(name=name)(inputs)
