"""Batch normalization.

The moving averages are updated by operations in the collection UPDATE_OPS, which a
program has to run with its training step.
"""

from __future__ import annotations

from typing import Any

from kit.graph.array_protocol import ArrayProtocol
from kit.tf1.graph.collections import GraphKeys, add_to_collection
from kit.tf1.graph.graph import get_default_graph
from kit.tf1.layers.layer import Layer, as_scalar, function_of, size_of_axis
from kit.tf1.ops import nn_layer
from kit.tf1.ops.arithmetic import cast, maximum, stop_gradient
from kit.tf1.ops.index import where
from kit.tf1.ops.shape import reshape
from kit.tf1.ops.shape import size as size_of
from kit.tf1.variables.assigning import assign_sub
from kit.tf1.variables.initial_values import Ones, Zeros


class BatchNormalization(Layer):
    """(inputs - mean) / sqrt(variance + epsilon) * gamma + beta for each channel.

    Mean and variance are those of the batch while training, else moving averages.
    """

    def __init__(
        self,
        axis: int = -1,
        momentum: float = 0.99,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = Zeros,
        gamma_initializer: Any = Ones,
        moving_mean_initializer: Any = Zeros,
        moving_variance_initializer: Any = Ones,
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        trainable: bool = True,
        name: str | None = None,
        fused: bool | None = None,
        renorm: bool = False,
        renorm_clipping: Any = None,
        renorm_momentum: float = 0.99,
        virtual_batch_size: int | None = None,
        adjustment: Any = None,
        **kwargs: Any,
    ) -> None:
        """Raise `ValueError` for renormalization, virtual batches and adjustments."""
        if renorm or virtual_batch_size is not None or adjustment is not None:
            raise ValueError(
                "batch_normalization takes no renorm, virtual_batch_size or adjustment "
                "here; leave them out."
            )
        super().__init__(trainable, name, **kwargs)
        self.axis, self.momentum, self.epsilon = axis, momentum, epsilon
        self._has = {"gamma": scale, "beta": center}
        self._made_with: dict[str, Any] = {
            "gamma": (gamma_initializer, gamma_regularizer, True, gamma_constraint),
            "beta": (beta_initializer, beta_regularizer, True, beta_constraint),
            "moving_mean": (moving_mean_initializer, None, False),
            "moving_variance": (moving_variance_initializer, None, False),
        }
        self._fused = fused
        self.update_collections: Any = GraphKeys.UPDATE_OPS
        self.updates: list[Any] = []

    def build(self, input_shape: Any) -> None:
        """Make gamma, beta, moving_mean and moving_variance, a number a channel."""
        if isinstance(self.axis, list | tuple):
            (self.axis,) = self.axis
        shape = [size_of_axis(self, input_shape, self.axis)]
        made = {
            name: self.add_variable(name, shape, *how)
            for name, how in self._made_with.items()
            if self._has.get(name, True)
        }
        self.gamma, self.beta = made.get("gamma"), made.get("beta")
        self.moving_mean = made["moving_mean"]
        self.moving_variance = made["moving_variance"]

    def call(self, inputs: Any, training: Any = False) -> Any:
        """Return the normalized inputs; `training` is a bool or a tensor."""
        rank = inputs.shape.ndims
        channel = self.axis % rank
        mean, variance = self.moving_mean, self.moving_variance
        if isinstance(training, ArrayProtocol):
            training = as_scalar(training)
        if isinstance(training, ArrayProtocol) or training:
            others = [i for i in range(rank) if i != channel]
            mean, variance = nn_layer.moments(inputs, others)
            is_fused = rank == 4 and channel in (1, 3) and self._fused is not False
            self._update(inputs, mean, variance, training, is_fused)
            if isinstance(training, ArrayProtocol):
                is_training = cast(training, "bool")
                mean = where(is_training, mean, self.moving_mean.value())
                variance = where(is_training, variance, self.moving_variance.value())
        numbers: Any = [mean, variance, self.beta, self.gamma]
        if channel != rank - 1:
            column = [-1, *[1] * (rank - 1 - channel)]
            numbers = [None if n is None else reshape(n, column) for n in numbers]
        mean, variance, beta, gamma = numbers
        outputs = nn_layer.batch_normalization(
            inputs, mean, variance, beta, gamma, self.epsilon
        )
        outputs.set_shape(inputs.shape)
        return outputs

    def _update(
        self, inputs: Any, mean: Any, variance: Any, training: Any, is_fused: bool
    ) -> None:
        if is_fused:
            # The fused operation of the original estimates the variance of all images.
            count = cast(size_of(inputs) / size_of(mean), variance.dtype)
            variance = variance * (count / maximum(count - 1.0, 1.0))
        share: Any = 1.0 - self.momentum
        if isinstance(training, ArrayProtocol):
            share = cast(training, variance.dtype) * share
        graph = get_default_graph()
        pairs = ((self.moving_mean, mean), (self.moving_variance, variance))
        for moving, value in pairs:
            with graph.colocate_with(moving.op):
                change = (moving.value() - stop_gradient(value)) * share
                update = assign_sub(moving, change)
            self.updates.append(update)
            if self.update_collections:
                add_to_collection(self.update_collections, update)


batch_normalization = function_of(BatchNormalization, "batch_normalization")
