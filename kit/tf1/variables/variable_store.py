"""The variables that `get_variable` made in a graph: each once, then shared."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kit.graph.array_protocol import ArrayProtocol
from kit.tf1.graph.collections import GraphKeys
from kit.tf1.graph.graph import Graph
from kit.tf1.tensor.constant import to_constant
from kit.tf1.tensor.convert import convert_to_tensor
from kit.tf1.tensor.dtypes import DType, as_dtype
from kit.tf1.tensor.shape import TensorShape
from kit.tf1.variables.initial_values import default_initializer
from kit.tf1.variables.partitioners import PartitionInfo
from kit.tf1.variables.variables import Variable

if TYPE_CHECKING:
    from kit.tf1.variables.partitioned import PartitionedVariable


class VariableStore:
    """A graph's variables by full name, and how often each scope was opened."""

    def __init__(self) -> None:
        self.variables: dict[str, Variable] = {}
        self.partitioned: dict[str, PartitionedVariable] = {}
        self._opened: dict[str, int] = {}

    def open_scope(self, name: str) -> None:
        """Count an opening of a scope."""
        self._opened[name] = self._opened.get(name, 0) + 1

    def close_subscopes(self, name: str) -> None:
        """Reset the counts of the scopes within a scope."""
        for scope in self._opened:
            if not name or scope.startswith(name + "/"):
                self._opened[scope] = 0

    def opened(self) -> dict[str, int]:
        """Return how often each scope was opened."""
        return dict(self._opened)

    def reset_opened(self, counts: dict[str, int]) -> None:
        """Count from here on as after so many openings."""
        self._opened = counts

    def times_opened(self, name: str) -> int:
        """Return how often a scope was opened."""
        return self._opened.get(name, 0)

    def get(
        self,
        name: str,
        shape: Any,
        dtype: Any = None,
        reuse: Any = None,
        **how: Any,
    ) -> Variable:
        """Return a variable by its full name.

        It is made if `reuse` is False or, where it does not exist, AUTO_REUSE. `how` is
        what `_new` takes. Raises `ValueError` for one that exists although it must not,
        or the reverse, and for another shape or dtype than it has.
        """
        wanted = None if dtype is None else as_dtype(dtype)
        if name not in self.variables:
            if reuse is True:
                raise ValueError(
                    f"Variable {name} does not exist, or was not created with "
                    f"tf.get_variable(). Did you mean to set reuse=tf.AUTO_REUSE in "
                    f"VarScope?"
                )
            made = _new(name, TensorShape(shape), wanted, shape is not None, **how)
            self.variables[name] = made
            return made
        variable = self.variables[name]
        if not reuse:
            raise ValueError(
                f"Variable {name} already exists, disallowed. Did you mean to set "
                f"reuse=True or reuse=tf.AUTO_REUSE in VarScope? It was made at "
                f"{variable.op.source_line}."
            )
        check_same(variable, name, TensorShape(shape), wanted)
        return variable


def store_of(graph: Graph) -> VariableStore:
    """Return the store of a graph."""
    store: VariableStore = graph.notes.setdefault("variable_store", VariableStore())
    return store


def check_same(
    variable: Variable | PartitionedVariable,
    name: str,
    shape: TensorShape,
    dtype: DType | None,
) -> None:
    """Raise `ValueError` for another shape or dtype than a variable has."""
    if not shape.is_compatible_with(variable.shape):
        raise ValueError(
            f"Trying to share variable {name}, but specified shape {shape} and found "
            f"shape {variable.shape}."
        )
    if dtype is not None and not dtype.is_compatible_with(variable.dtype):
        raise ValueError(
            f"Trying to share variable {name}, but specified dtype {dtype.name} and "
            f"found dtype {variable.dtype.base_dtype.name}."
        )


def _new(
    name: str,
    shape: TensorShape,
    dtype: DType | None,
    has_shape: bool,
    *,
    initializer: Any = None,
    part: PartitionInfo | None = None,
    regularizer: Callable[[Any], Any] | None = None,
    trainable: bool | None = None,
    collections: Sequence[Any] | None = None,
    validate_shape: bool = True,
    **options: Any,
) -> Variable:
    chosen = dtype or as_dtype("float32")
    if initializer is None:
        initializer = default_initializer(chosen)
    if isinstance(initializer, type):
        initializer = initializer()
    of_variable: DType | None = None
    if not callable(initializer) or isinstance(initializer, ArrayProtocol):
        initial = _value(name, initializer, dtype, has_shape)
    elif shape.is_fully_defined():
        initial = _of_shape(initializer, shape, chosen, part)
        of_variable = chosen.base_dtype
    elif validate_shape and _required(initializer):
        raise ValueError(
            f"Shape of a new variable ({name}) must be fully defined, but instead was "
            f"{shape}."
        )
    else:
        initial = initializer
    made = Variable(
        initial,
        trainable=trainable,
        collections=collections,
        validate_shape=validate_shape,
        name=name,
        dtype=of_variable,
        **options,
    )
    if regularizer is not None:
        _regularize(made, regularizer)
    return made


def _of_shape(
    initializer: Callable[..., Any],
    shape: TensorShape,
    dtype: DType,
    part: PartitionInfo | None,
) -> Callable[[], Any]:
    """Return an initializer without arguments, from one that takes shape and dtype."""
    extra: dict[str, Any] = {"dtype": dtype.base_dtype}
    if "partition_info" in inspect.signature(initializer).parameters:
        extra["partition_info"] = part
    return functools.partial(initializer, shape.as_list(), **extra)


def _required(function: Callable[..., Any]) -> list[str]:
    """Return the names of a function's required arguments."""
    parameters = inspect.signature(function).parameters.values()
    return [param.name for param in parameters if param.default is param.empty]


def _value(name: str, value: Any, dtype: DType | None, has_shape: bool) -> Any:
    """Return an initial value that is not a function, checked."""
    if has_shape:
        raise ValueError("If initializer is a constant, do not specify shape.")
    if dtype is not None:
        is_tensor = isinstance(value, ArrayProtocol)
        initial_dtype = (
            convert_to_tensor(value).dtype
            if is_tensor
            else as_dtype(to_constant(value).dtype)
        )
        if not dtype.is_compatible_with(initial_dtype):
            raise ValueError(
                f"Initializer type '{initial_dtype.name}' and explicit dtype "
                f"'{dtype.name}' of {name} don't match."
            )
    return value if dtype is None else convert_to_tensor(value, dtype)


def _regularize(variable: Variable, regularizer: Callable[[Any], Any]) -> None:
    graph = variable.graph
    names = graph.name_scope(f"{variable.op.name}/Regularizer/")
    with graph.colocate_with(variable.op), names:
        loss = regularizer(variable)
    if loss is not None:
        graph.add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)
