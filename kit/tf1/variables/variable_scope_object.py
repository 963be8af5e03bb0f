"""A variable scope: a name, and how the variables below it are made."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from kit.graph.speak import Speaker
from kit.tf1.graph.collections import GraphKeys
from kit.tf1.graph.graph import get_default_graph
from kit.tf1.tensor.dtypes import as_dtype, float32
from kit.tf1.variables.partitioned import PartitionedVariable, partitioned
from kit.tf1.variables.variable_store import VariableStore, store_of

_INHERITED = (
    *("initializer", "regularizer", "caching_device", "partitioner"),
    *("custom_getter", "dtype", "use_resource", "constraint", "reuse"),
)


class VariableScope:
    """What `tf.variable_scope` yields."""

    def __init__(
        self,
        reuse: Any,
        name: str = "",
        initializer: Any = None,
        regularizer: Any = None,
        caching_device: Any = None,
        partitioner: Any = None,
        custom_getter: Any = None,
        name_scope: str = "",
        dtype: Any = float32,
        use_resource: bool | None = None,
        constraint: Any = None,
    ) -> None:
        """Users enter `tf.variable_scope` instead."""
        self.reuse, self.name, self.original_name_scope = reuse, name, name_scope
        self.initializer, self.regularizer = initializer, regularizer
        self.caching_device, self.partitioner = caching_device, partitioner
        self.custom_getter, self.dtype = custom_getter, dtype
        self.use_resource, self.constraint = use_resource, constraint

    def changed(
        self, name: str, name_scope: str, changes: dict[str, Any]
    ) -> VariableScope:
        """Return this scope under another name, with the changes that are not None."""
        new = copy.copy(self)
        new.name, new.original_name_scope = name, name_scope
        for key in _INHERITED:
            if changes[key] is not None:
                setattr(new, key, changes[key])
        if changes["custom_getter"] is not None and self.custom_getter is not None:
            new.custom_getter = _chained(changes["custom_getter"], self.custom_getter)
        return new

    def reuse_variables(self) -> None:
        """Let all variables from now on be ones that exist."""
        self.reuse = True

    def set_initializer(self, initializer: Any) -> None:
        """Set what initializes the variables from now on."""
        self.initializer = initializer

    def set_regularizer(self, regularizer: Any) -> None:
        """Set what regularizes the variables from now on."""
        self.regularizer = regularizer

    def set_dtype(self, dtype: Any) -> None:
        """Set the dtype of the variables from now on."""
        self.dtype = as_dtype(dtype)

    def set_partitioner(self, partitioner: Any) -> None:
        """Set what cuts the variables from now on into parts."""
        self.partitioner = partitioner

    def set_custom_getter(self, custom_getter: Any) -> None:
        """Set the function that is asked instead of the usual way, from now on."""
        self.custom_getter = custom_getter

    def get_collection(self, name: Any) -> list[Any]:
        """Return what a collection of the default graph has below this scope."""
        scope = f"{self.name}/" if self.name else None
        return get_default_graph().get_collection(name, scope)

    def global_variables(self) -> list[Any]:
        """Return the global variables below this scope."""
        return self.get_collection(GraphKeys.GLOBAL_VARIABLES)

    def local_variables(self) -> list[Any]:
        """Return the local variables below this scope."""
        return self.get_collection(GraphKeys.LOCAL_VARIABLES)

    def trainable_variables(self) -> list[Any]:
        """Return the trainable variables below this scope."""
        return self.get_collection(GraphKeys.TRAINABLE_VARIABLES)

    def get_variable(
        self,
        var_store: VariableStore | None,
        name: str,
        shape: Any = None,
        dtype: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        reuse: Any = None,
        partitioner: Any = None,
        custom_getter: Callable[..., Any] | None = None,
        constraint: Any = None,
        **how: Any,
    ) -> Any:
        """Return a variable below this scope; see `tf.get_variable`."""
        if not isinstance(name, str):
            raise TypeError(f"the name of a variable is a string, not {name!r}.")
        graph = get_default_graph()
        store = store_of(graph) if var_store is None else var_store
        full = f"{self.name}/{name}" if self.name else name
        explicit = initializer if initializer is not None else self.initializer
        is_value = explicit is not None and (
            isinstance(explicit, Speaker) or not callable(explicit)
        )
        how |= {
            "initializer": explicit,
            "regularizer": regularizer or self.regularizer,
            "constraint": constraint or self.constraint,
        }
        arguments = {
            "shape": shape,
            "dtype": dtype if dtype is not None or is_value else self.dtype,
            "reuse": self.reuse if reuse is None else reuse,
            "partitioner": partitioner or self.partitioner,
            **how,
        }

        def plain(name: str, **given: Any) -> Any:
            return _found(store, name, **given)

        getter = custom_getter or self.custom_getter
        with graph.name_scope(None):
            if getter is None:
                return plain(full, **arguments)
            return getter(plain, full, **arguments)


def _found(
    store: VariableStore, name: str, *, partitioner: Any = None, **how: Any
) -> Any:
    if partitioner is None:
        return store.get(name, **how)
    found: PartitionedVariable = partitioned(store, name, partitioner, **how)
    return found


def _chained(inner: Any, outer: Any) -> Callable[..., Any]:
    """Return a getter that asks the inner one, which asks the outer one."""

    def getter(plain: Any, name: str, **how: Any) -> Any:
        def ask_outer(name: str, **given: Any) -> Any:
            return outer(plain, name, **given)

        return inner(ask_outer, name, **how)

    return getter
