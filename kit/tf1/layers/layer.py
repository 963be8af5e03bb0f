"""What layers have in common: a variable scope of their own, and their variables.

A layer makes its variables when it is first called, in a variable scope that is named
after it, with a number if it has been given no name. Called again, it uses the same.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kit.tf1.graph.collections import GraphKeys, add_to_collection
from kit.tf1.ops.nn_layer import bias_add
from kit.tf1.ops.shape import reshape
from kit.tf1.signature import arguments_of
from kit.tf1.tensor.convert import convert_to_tensor
from kit.tf1.tensor.dtypes import as_dtype
from kit.tf1.variables.initial_values import Zeros
from kit.tf1.variables.scopes import (
    VariableScope,
    get_variable,
    name_scope,
    variable_scope,
)


class Layer:
    """Base class: `build(shape)` makes the variables, `call(inputs)` the operations."""

    def __init__(
        self,
        trainable: bool = True,
        name: str | None = None,
        dtype: Any = None,
        _reuse: Any = None,
        _scope: Any = None,
        activity_regularizer: Any = None,
    ) -> None:
        self.trainable, self.built = trainable, False
        self._given_name, self._reuse, self._given_scope = name, _reuse, _scope
        self._dtype = None if dtype is None else as_dtype(dtype)
        self._activity_regularizer = activity_regularizer
        self._scope: VariableScope | None = None
        self._weights: list[Any] = []

    @property
    def name(self) -> str:
        """The name of its scope, known from the first call on."""
        if self._scope is not None:
            return self._scope.name
        return self._given_name or self._base_name()

    @property
    def scope_name(self) -> str:
        """The name of its variable scope; `ValueError` before the first call."""
        if self._scope is None:
            raise ValueError(
                f"No name available for layer scope because the layer {self.name!r} "
                f"has not been used yet."
            )
        return self._scope.name

    @property
    def dtype(self) -> Any:
        """The dtype of its variables: that of the first inputs if not given."""
        return None if self._dtype is None else self._dtype.name

    @property
    def variables(self) -> list[Any]:
        """All variables, the trainable ones first."""
        return self.trainable_variables + self.non_trainable_variables

    @property
    def trainable_variables(self) -> list[Any]:
        """The variables that training changes."""
        return [
            v for v in self._weights if self.trainable and getattr(v, "trainable", True)
        ]

    @property
    def non_trainable_variables(self) -> list[Any]:
        """The other variables."""
        return [
            v
            for v in self._weights
            if not (self.trainable and getattr(v, "trainable", True))
        ]

    @property
    def weights(self) -> list[Any]:
        """All variables."""
        return self.variables

    @property
    def trainable_weights(self) -> list[Any]:
        """The variables that training changes."""
        return self.trainable_variables

    def build(self, input_shape: Any) -> None:
        """Make the variables, with `add_variable`."""

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the outputs."""
        raise NotImplementedError

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the outputs for a tensor; the first call makes the variables."""
        outer = kwargs.pop("scope", None)
        tensor = self._converted(inputs)
        with self._entered(outer) as scope:
            self._scope = self._scope or scope
            if self._dtype is None:
                self._dtype = _dtype_of(tensor)
            if not self.built:
                self.build(_shape_of(tensor))
                self.built = True
            outputs = self.call(tensor, *args, **kwargs)
            if self._activity_regularizer is not None:
                loss = self._activity_regularizer(outputs)
                add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)
        return outputs

    def apply(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Do what a call does."""
        return self(inputs, *args, **kwargs)

    def add_variable(
        self,
        name: str,
        shape: Any,
        initializer: Any = None,
        regularizer: Any = None,
        trainable: bool | None = None,
        constraint: Any = None,
        dtype: Any = None,
        **options: Any,
    ) -> Any:
        """Return a variable in the scope of this layer; see `tf.get_variable`."""
        if not self.trainable:
            trainable = False
        made = get_variable(
            name,
            shape,
            dtype=dtype or self._dtype,
            initializer=initializer,
            regularizer=regularizer,
            trainable=trainable,
            constraint=constraint,
            **options,
        )
        if made not in self._weights:
            self._weights.append(made)
        return made

    add_weight = add_variable

    @contextmanager
    def _entered(self, outer: Any) -> Iterator[VariableScope]:
        if self._scope is not None:
            # Its operations go on below the name that the first call has taken.
            scope, reuse = self._scope, self.built or self._reuse
            with (
                variable_scope(
                    scope, reuse=reuse, auxiliary_name_scope=False
                ) as inside,
                name_scope(scope.original_name_scope),
            ):
                yield inside
            return
        wanted = self._given_scope or outer or self._given_name
        if wanted is None and self._reuse:
            wanted = self._base_name()
        reuse = None if wanted is None else self._reuse
        with variable_scope(wanted, self._base_name(), reuse=reuse) as scope:
            yield scope

    def _base_name(self) -> str:
        words = re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", type(self).__name__)
        return re.sub(r"([a-z])([A-Z])", r"\1_\2", words).lower()

    def _converted(self, inputs: Any) -> Any:
        if isinstance(inputs, list | tuple):
            return [convert_to_tensor(part) for part in inputs]
        return convert_to_tensor(inputs)


@dataclass
class KernelOptions:
    """What layers take that multiply by a kernel and add a bias."""

    activation: Any = None
    use_bias: bool = True
    kernel_initializer: Any = None
    bias_initializer: Any = Zeros
    kernel_regularizer: Any = None
    bias_regularizer: Any = None
    activity_regularizer: Any = None
    kernel_constraint: Any = None
    bias_constraint: Any = None
    trainable: bool = True
    name: str | None = None


class KernelLayer(Layer):
    """A layer with a kernel, a bias unless `use_bias` is False, and an activation."""

    def __init__(self, options: KernelOptions, **kwargs: Any) -> None:
        kwargs["activity_regularizer"] = options.activity_regularizer
        super().__init__(options.trainable, options.name, **kwargs)
        self.activation, self.use_bias = options.activation, options.use_bias
        self._options = options
        self.bias: Any = None

    def add_kernel(self, shape: list[int], n_outputs: int) -> None:
        """Make the kernel, and the bias of `n_outputs` numbers."""
        of = self._options
        self.kernel = self.add_variable(
            "kernel",
            shape,
            of.kernel_initializer,
            of.kernel_regularizer,
            constraint=of.kernel_constraint,
        )
        if self.use_bias:
            self.bias = self.add_variable(
                "bias",
                [n_outputs],
                of.bias_initializer,
                of.bias_regularizer,
                constraint=of.bias_constraint,
            )

    def finished(self, outputs: Any, data_format: str | None = None) -> Any:
        """Return outputs of the kernel with the bias added, and activated."""
        if self.use_bias:
            outputs = bias_add(outputs, self.bias, data_format)
        return outputs if self.activation is None else self.activation(outputs)


def function_of(layer: Any, name: str) -> Callable[..., Any]:
    """Return a function of inputs that makes a layer and calls it, once.

    It takes what the layer takes, what its `call` takes besides, and `reuse`.
    """
    keyword = inspect.Parameter.KEYWORD_ONLY
    _, _, *of_call = inspect.signature(layer.call).parameters.values()
    *own, _ = inspect.signature(layer).parameters.values()  # without **kwargs
    added = [
        *(parameter.replace(kind=keyword) for parameter in of_call),
        inspect.Parameter("reuse", keyword, default=None),
    ]
    inputs = inspect.Parameter("inputs", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    signature = inspect.Signature([inputs, *own, *added])

    def function(*args: Any, **kwargs: Any) -> Any:
        values = arguments_of(name, signature, args, kwargs)
        x, reuse = values.pop("inputs"), values.pop("reuse", None)
        how = {
            param.name: values.pop(param.name)
            for param in of_call
            if param.name in values
        }
        return layer(**values, _reuse=reuse)(x, **how)

    function.__name__ = function.__qualname__ = name
    function.__module__, function.__doc__ = layer.__module__, layer.__doc__
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


def _dtype_of(inputs: Any) -> Any:
    first = inputs[0] if isinstance(inputs, list) else inputs
    return first.dtype.base_dtype


def _shape_of(inputs: Any) -> Any:
    if isinstance(inputs, list):
        return [part.shape for part in inputs]
    return inputs.shape


def as_scalar(training: Any) -> Any:
    """Return a tensor of one element without axes, of a placeholder without a shape."""
    flag = convert_to_tensor(training)
    return flag if flag.shape.ndims == 0 else reshape(flag, [])


def size_of_axis(layer: Layer, shape: Any, axis: int) -> int:
    """Return the size of an axis of the inputs; `ValueError` if it is not known."""
    sizes = None if shape.ndims is None else shape.as_list()
    if sizes is None or sizes[axis] is None:
        raise ValueError(
            f"The dimension {axis} of the inputs to {layer.name!r} should be defined, "
            f"its variables have that size; the inputs are {shape}. Found `None`. Give "
            f"it in tf.placeholder or tf.reshape."
        )
    return int(sizes[axis])
