"""`tf.contrib.layers`, which `tf.contrib.slim` offers too.

Layers as functions: their variables are called `weights` and `biases`, and are model
variables. `arg_scope` gives the functions defaults.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

from kit.tf1.contrib.arg_scope import add_arg_scope as add_arg_scope
from kit.tf1.contrib.arg_scope import arg_scope as arg_scope
from kit.tf1.contrib.named_outputs import collect_named_outputs
from kit.tf1.contrib.regularizers import xavier_initializer as xavier_initializer
from kit.tf1.graph.collections import GraphKeys
from kit.tf1.graph.graph import get_default_graph
from kit.tf1.layers import core, images, normalization
from kit.tf1.not_offered import refusing
from kit.tf1.ops import nn_conv, nn_layer
from kit.tf1.ops.arithmetic import identity
from kit.tf1.ops.creation import one_hot
from kit.tf1.ops.nn_activation import relu as _relu
from kit.tf1.ops.nn_activation import softmax as _softmax
from kit.tf1.public import offer
from kit.tf1.signature import with_options
from kit.tf1.tensor.convert import convert_to_tensor
from kit.tf1.tensor.dtypes import float32
from kit.tf1.variables.initial_values import Zeros
from kit.tf1.variables.scopes import get_variable, variable_scope

offer(__name__, "kit.tf1.contrib.regularizers")
xavier_initializer_conv2d = xavier_initializer


@add_arg_scope
def variable(
    name: str, *args: Any, device: Any = None, collections: Any = None, **how: Any
) -> Any:
    """Return the variable of `tf.get_variable` with a name, on `device`."""
    listed = list(dict.fromkeys(collections or [GraphKeys.GLOBAL_VARIABLES]))
    with get_default_graph().device(device) if device else nullcontext():
        return get_variable(name, *args, collections=listed, **how)


@add_arg_scope
def model_variable(
    name: str,
    shape: Any = None,
    dtype: Any = float32,
    *args: Any,
    collections: Any = None,
    **how: Any,
) -> Any:
    """Return a variable as `variable` does that is a model variable too."""
    listed = [*(collections or [GraphKeys.GLOBAL_VARIABLES]), GraphKeys.MODEL_VARIABLES]
    return variable(name, shape, dtype, *args, collections=listed, **how)


def add_model_variable(var: Any) -> None:
    """Add a variable to the model variables, once."""
    _add_once(GraphKeys.MODEL_VARIABLES, var)


@dataclass
class _Options:
    """What the layers with weights and biases take behind their own arguments."""

    activation_fn: Any = _relu
    normalizer_fn: Any = None
    normalizer_params: Any = None
    weights_initializer: Any = None
    weights_regularizer: Any = None
    biases_initializer: Any = Zeros
    biases_regularizer: Any = None
    reuse: Any = None
    variables_collections: Any = None
    outputs_collections: Any = None
    trainable: bool = True
    scope: Any = None

    def variable(self, name: str, shape: Any, dtype: Any, initializer: Any) -> Any:
        """Return a new model variable, named `weights`, `biases` or otherwise."""
        is_bias = name == "biases"
        cost = self.biases_regularizer if is_bias else self.weights_regularizer
        own = self.variables_collections
        listed = own.get(name) if isinstance(own, dict) else own
        names = [listed] if isinstance(listed, str) else list(listed or ())
        listed = [GraphKeys.GLOBAL_VARIABLES, *names]
        return model_variable(
            name,
            shape,
            dtype,
            initializer,
            cost,
            self.trainable,
            collections=listed,
        )

    def finished(self, outputs: Any, scope: Any) -> Any:
        """Return the outputs normalized, activated and collected."""
        if self.normalizer_fn is not None:
            outputs = self.normalizer_fn(outputs, **(self.normalizer_params or {}))
        if self.activation_fn is not None:
            outputs = self.activation_fn(outputs)
        return collect_named_outputs(self.outputs_collections, scope.name, outputs)


@add_arg_scope
@with_options(_Options)
def fully_connected(inputs: Any, num_outputs: int, options: Any) -> Any:
    """Return activation_fn(inputs @ weights + biases), along the last axis.

    With `normalizer_fn`, such as `batch_norm`, that takes the place of the biases.
    """
    return _layer(_Dense(num_outputs), "fully_connected", inputs, options)


@add_arg_scope
@with_options(_Options)
def conv2d(
    inputs: Any,
    num_outputs: int,
    kernel_size: Any,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str | None = None,
    rate: Any = 1,
    *,
    options: Any,
) -> Any:
    """Return activation_fn(images * weights + biases), a correlation."""
    form = _format(data_format)
    layer = _Conv2D(num_outputs, kernel_size, stride, padding, form, rate)
    return _layer(layer, "Conv", inputs, options)


@add_arg_scope
@with_options(_Options)
def separable_conv2d(
    inputs: Any,
    num_outputs: int | None,
    kernel_size: Any,
    depth_multiplier: int = 1,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str = "NHWC",
    rate: Any = 1,
    *,
    pointwise_initializer: Any = None,
    options: Any,
) -> Any:
    """Return a correlation of each channel, and of these one of places.

    Without `num_outputs` only the first of the two. Raises `ValueError` for another
    format than NHWC.
    """
    if data_format != "NHWC":
        raise ValueError(f"data_format is {data_format!r}; only 'NHWC' is taken.")
    x = convert_to_tensor(inputs)
    dtype, begin = x.dtype.base_dtype, options.weights_initializer
    with variable_scope(
        options.scope, "SeparableConv2d", [x], reuse=options.reuse
    ) as within:
        n_channels = x.shape.as_list()[-1]
        n_between = depth_multiplier * n_channels
        sizes = [*images.pair("kernel_size", kernel_size), n_channels, depth_multiplier]
        how = ([1, *images.pair("stride", stride), 1], padding)
        rates = images.pair("rate", rate)
        depthwise = options.variable("depthwise_weights", sizes, dtype, begin)
        if num_outputs is None:
            outputs = nn_conv.depthwise_conv2d(x, depthwise, *how, rates)
        else:
            begin = pointwise_initializer or begin
            sizes = [1, 1, n_between, num_outputs]
            places = options.variable("pointwise_weights", sizes, dtype, begin)
            outputs = nn_conv.separable_conv2d(x, depthwise, places, *how, rates)
        begin = options.biases_initializer
        if options.normalizer_fn is None and begin is not None:
            size = [num_outputs or n_between]
            biases = options.variable("biases", size, dtype, begin)
            outputs = nn_layer.bias_add(outputs, biases)
        return options.finished(outputs, within)


class _Named:
    """Makes the variables of a layer under their names here."""

    options: _Options

    def add_variable(self, name: str, shape: Any, *_: Any, **__: Any) -> Any:
        options, dtype = self.options, self._dtype  # type: ignore[attr-defined]
        if name == "bias":
            return options.variable("biases", shape, dtype, options.biases_initializer)
        return options.variable("weights", shape, dtype, options.weights_initializer)


class _Dense(_Named, core.Dense):
    pass


class _Conv2D(_Named, images.Conv2D):
    pass


def _layer(layer: Any, default: str, inputs: Any, options: _Options) -> Any:
    layer.options = options
    layer.use_bias = options.normalizer_fn is None and (
        options.biases_initializer is not None
    )
    x = convert_to_tensor(inputs)
    with variable_scope(options.scope, default, [x], reuse=options.reuse) as own:
        layer._dtype = x.dtype.base_dtype
        layer.build(x.shape)
        return options.finished(layer.call(x), own)


@add_arg_scope
def batch_norm(
    inputs: Any,
    decay: float = 0.999,
    center: bool = True,
    scale: bool = False,
    epsilon: float = 0.001,
    activation_fn: Any = None,
    param_initializers: Any = None,
    param_regularizers: Any = None,
    updates_collections: Any = GraphKeys.UPDATE_OPS,
    is_training: Any = True,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    batch_weights: Any = None,
    fused: bool | None = None,
    data_format: str = "NHWC",
    zero_debias_moving_mean: bool = False,
    scope: Any = None,
    renorm: bool = False,
) -> Any:
    """Return the inputs normalized channel by channel.

    The moving averages are updated by what is in `updates_collections`, or at once if
    that is None. Raises `ValueError` for weights of the batch and renormalization.
    """
    if batch_weights is not None or renorm or zero_debias_moving_mean:
        raise ValueError(
            "batch_norm takes no batch_weights, renorm or zero_debias_moving_mean "
            "here; leave them out."
        )
    starts, costs = param_initializers or {}, param_regularizers or {}
    x = convert_to_tensor(inputs)
    with variable_scope(scope, "BatchNorm", [x], reuse=reuse) as own:
        layer = normalization.BatchNormalization(
            axis=-1 if data_format == "NHWC" else 1,
            momentum=decay,
            epsilon=epsilon,
            center=center,
            scale=scale,
            **{f"{key}_initializer": start for key, start in starts.items()},
            **{f"{key}_regularizer": cost for key, cost in costs.items()},
            trainable=trainable,
            fused=fused,
            _scope=own,
            _reuse=reuse,
        )
        layer.update_collections = updates_collections
        outputs = layer(x, training=is_training)
        for part in layer.variables:
            listed = variables_collections
            if isinstance(listed, dict):
                listed = listed.get(part.op.name.split("/")[-1])
            names = {GraphKeys.MODEL_VARIABLES, *(listed or ())}
            for name in sorted(names):
                _add_once(name, part)
        if updates_collections is None and layer.updates:
            with x.graph.control_dependencies(layer.updates):
                outputs = identity(outputs)
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        return collect_named_outputs(outputs_collections, own.name, outputs)


def _pool(name: str, layer: Any, default: str, doc: str) -> Any:
    def pool(
        inputs: Any,
        kernel_size: Any,
        stride: Any = 2,
        padding: str = "VALID",
        data_format: str = "NHWC",
        outputs_collections: Any = None,
        scope: str | None = None,
    ) -> Any:
        made = layer(kernel_size, stride, padding, _format(data_format))
        return _without_variables(made, default, inputs, outputs_collections, scope)

    pool.__name__ = name
    pool.__doc__ = f"Return the {doc} of each window of the images."
    return add_arg_scope(pool)


max_pool2d = _pool("max_pool2d", images.MaxPooling2D, "MaxPool2D", "greatest")
avg_pool2d = _pool("avg_pool2d", images.AveragePooling2D, "AvgPool2D", "mean")


@add_arg_scope
def flatten(
    inputs: Any, outputs_collections: Any = None, scope: str | None = None
) -> Any:
    """Return a matrix with a row for each example."""
    layer = core.Flatten()
    return _without_variables(layer, "Flatten", inputs, outputs_collections, scope)


@add_arg_scope
def dropout(
    inputs: Any,
    keep_prob: Any = 0.5,
    noise_shape: Any = None,
    is_training: Any = True,
    outputs_collections: Any = None,
    scope: str | None = None,
    seed: int | None = None,
) -> Any:
    """Return the inputs, of which a share `keep_prob` is kept while training."""
    layer = core.Dropout(1 - keep_prob, noise_shape, seed)
    call = partial(layer.call, training=is_training)
    return _without_variables(call, "Dropout", inputs, outputs_collections, scope)


@add_arg_scope
def bias_add(
    inputs: Any,
    activation_fn: Any = None,
    initializer: Any = Zeros,
    regularizer: Any = None,
    reuse: Any = None,
    scope: Any = None,
) -> Any:
    """Return the inputs with biases added along the last axis."""
    x = convert_to_tensor(inputs)
    with variable_scope(scope, "BiasAdd", [x], reuse=reuse):
        size = x.shape.as_list()[-1]
        dtype = x.dtype.base_dtype
        biases = model_variable("biases", [size], dtype, initializer, regularizer)
        outputs = nn_layer.bias_add(x, biases)
        return outputs if activation_fn is None else activation_fn(outputs)


@add_arg_scope
def softmax(logits: Any, scope: str | None = None) -> Any:
    """Return e**x / sum(e**x) along the last axis."""
    with variable_scope(scope, "softmax", [logits]):
        return _softmax(logits)


@add_arg_scope
def one_hot_encoding(
    labels: Any,
    num_classes: int,
    on_value: float = 1.0,
    off_value: float = 0.0,
    outputs_collections: Any = None,
    scope: str | None = None,
) -> Any:
    """Return a row for each label, 1 in its column and 0 elsewhere."""
    with variable_scope(scope, "OneHotEncoding", [labels]) as own:
        outputs = one_hot(labels, num_classes, on_value, off_value)
        return collect_named_outputs(outputs_collections, own.name, outputs)


def repeat(inputs: Any, repetitions: int, layer: Any, *args: Any, **kwargs: Any) -> Any:
    """Apply a layer several times, in scopes `<scope>/<scope>_1` and so on."""
    scope = kwargs.pop("scope", None)
    with variable_scope(scope, "Repeat", [inputs]):
        name = scope or getattr(layer, "__name__", "repeat")
        outputs = convert_to_tensor(inputs)
        for i in range(repetitions):
            outputs = layer(outputs, *args, scope=f"{name}_{i + 1}", **kwargs)
        return outputs


def stack(inputs: Any, layer: Any, stack_args: Any, **kwargs: Any) -> Any:
    """Apply a layer once with each of `stack_args`, in scopes as `repeat` has."""
    scope = kwargs.pop("scope", None)
    with variable_scope(scope, "Stack", [inputs]):
        name = scope or getattr(layer, "__name__", "stack")
        outputs = convert_to_tensor(inputs)
        for i, settings in enumerate(stack_args):
            args = settings if isinstance(settings, list | tuple) else [settings]
            outputs = layer(outputs, *args, scope=f"{name}_{i + 1}", **kwargs)
        return outputs


relu = partial(fully_connected, activation_fn=_relu)
linear = partial(fully_connected, activation_fn=None)
convolution2d = conv2d
separable_convolution2d = separable_conv2d


def _without_variables(
    layer: Callable[[Any], Any], default: str, inputs: Any, collections: Any, scope: Any
) -> Any:
    x = convert_to_tensor(inputs)
    call = getattr(layer, "call", layer)
    with variable_scope(scope, default, [x]) as own:
        return collect_named_outputs(collections, own.name, call(x))


def _format(data_format: str | None) -> str:
    return {"NCHW": "channels_first"}.get(data_format or "", "channels_last")


def _add_once(name: Any, variable: Any) -> None:
    listed = variable.graph.get_collection_ref(name)
    if variable not in listed:
        listed.append(variable)


# Where programs import its functions from: tensorflow.contrib.layers.python.layers
python = layers = initializers = regularizers = sys.modules[__name__]

__getattr__ = refusing("contrib.layers")
