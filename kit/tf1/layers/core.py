"""Layers of rows: dense ones, dropout, and images made rows."""

from __future__ import annotations

import math
from typing import Any

from kit.graph.array_protocol import ArrayProtocol
from kit.tf1.layers.layer import Layer, as_scalar, size_of_axis
from kit.tf1.ops import nn_layer
from kit.tf1.ops.arithmetic import cast, identity, matmul
from kit.tf1.ops.join import stack
from kit.tf1.ops.shape import reshape
from kit.tf1.ops.shape import shape as shape_of
from kit.tf1.variables.initial_values import Zeros


class Dense(Layer):
    """activation(inputs @ kernel + bias) along the last axis."""

    def __init__(
        self,
        units: int,
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
        self.units, self.activation, self.use_bias = int(units), activation, use_bias
        self._of_kernel = (kernel_initializer, kernel_regularizer)
        self._of_bias = (bias_initializer, bias_regularizer)
        self._constraints = (kernel_constraint, bias_constraint)
        self.bias: Any = None

    def build(self, input_shape: Any) -> None:
        """Make kernel [inputs, units] and bias [units]."""
        n_inputs = size_of_axis(self, input_shape, -1)
        of_kernel, of_bias = self._constraints
        self.kernel = self.add_variable(
            "kernel", [n_inputs, self.units], *self._of_kernel, constraint=of_kernel
        )
        if self.use_bias:
            self.bias = self.add_variable(
                "bias", [self.units], *self._of_bias, constraint=of_bias
            )

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
        if self.use_bias:
            outputs = nn_layer.bias_add(outputs, self.bias)
        return outputs if self.activation is None else self.activation(outputs)


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


def dense(
    inputs: Any,
    units: int,
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
    """Return activation(inputs @ kernel + bias); see `Dense`."""
    return Dense(
        units,
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
