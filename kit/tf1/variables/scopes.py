"""Scopes: of names and of variables. A variable scope is both.

with tf.variable_scope("layer"):        names: layer/, the second time layer_1/
    w = tf.get_variable("w", [2])       variable: layer/w, whichever time it is
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from enum import Enum
from typing import Any

from kit.tf1.graph.graph import Graph, get_default_graph
from kit.tf1.graph.replication import VariableAggregation, VariableSynchronization
from kit.tf1.tensor.convert import graph_for
from kit.tf1.tensor.dtypes import as_dtype
from kit.tf1.variables.variable_scope_object import VariableScope as VariableScope
from kit.tf1.variables.variable_store import store_of


class _ReuseMode(Enum):
    AUTO_REUSE = 1


AUTO_REUSE = _ReuseMode.AUTO_REUSE


class name_scope:
    """Put names of new operations below a name; enters the graph of `values` too.

    Yields the scope with a slash at its end. None as name takes `default_name`, and
    leads out of all scopes if that is None too.
    """

    def __init__(
        self, name: str | None, default_name: str | None = None, values: Any = None
    ) -> None:
        self._name = default_name if name is None else name
        self._values = values
        self._blocks: list[AbstractContextManager[str]] = []

    @property
    def name(self) -> str | None:
        """The name that was asked for."""
        return self._name

    def __enter__(self) -> str:
        if self._name is not None and not isinstance(self._name, str):
            raise TypeError(f"the name of a scope is a string, not {self._name!r}.")
        if self._name is None and self._values is not None:
            raise ValueError(
                "At least one of name (None) and default_name (None) must be provided."
            )
        block = self._block()
        scope = block.__enter__()
        self._blocks.append(block)
        return scope

    def __exit__(self, *exc_info: Any) -> None:
        self._blocks.pop().__exit__(*exc_info)

    @contextmanager
    def _block(self) -> Iterator[str]:
        graph = graph_for(list(self._values or ()))
        with graph.as_default(), graph.name_scope(self._name) as scope:
            yield scope


_current: ContextVar[dict[Graph, VariableScope]] = ContextVar("scopes")


def get_variable_scope() -> VariableScope:
    """Return the current variable scope of the default graph."""
    return _scope_of(get_default_graph())


def _scope_of(graph: Graph) -> VariableScope:
    inside = _current.get({})
    if graph in inside:
        return inside[graph]
    root: VariableScope = graph.notes.setdefault("variable_scope", VariableScope(False))
    return root


class variable_scope:
    """Put variables of `get_variable` below a name, and say how they are made.

    `name_or_scope` is a name within the current scope, or a scope that was yielded
    before. Without it the scope is called `default_name` with a number. Other arguments
    are defaults for the variables inside, and inherited from the outer scope unless
    given. With `reuse` True they must exist, with AUTO_REUSE they may.

    Raises `TypeError` for a name that is none, and `ValueError` for a `reuse` that is
    neither True, False, None nor AUTO_REUSE.
    """

    def __init__(
        self,
        name_or_scope: Any,
        default_name: str | None = None,
        values: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        caching_device: Any = None,
        partitioner: Any = None,
        custom_getter: Any = None,
        reuse: Any = None,
        dtype: Any = None,
        use_resource: bool | None = None,
        constraint: Any = None,
        auxiliary_name_scope: bool = True,
    ) -> None:
        if name_or_scope is None and default_name is None:
            raise TypeError("If default_name is None then name_or_scope is required")
        if name_or_scope is not None and not isinstance(
            name_or_scope, str | VariableScope
        ):
            raise TypeError(
                f"VariableScope: name_or_scope must be a string or VariableScope, not "
                f"{name_or_scope!r}."
            )
        if reuse not in (None, True, False, AUTO_REUSE):
            raise ValueError(
                f"The reuse parameter must be True or False or None, not {reuse!r}."
            )
        if name_or_scope is None and reuse:
            raise ValueError("reuse=True cannot be used without a name_or_scope")
        self._given, self._default_name, self._values = (
            name_or_scope,
            default_name,
            values,
        )
        self._auxiliary = auxiliary_name_scope
        self._changes: dict[str, Any] = {
            "initializer": initializer,
            "regularizer": regularizer,
            "caching_device": caching_device,
            "partitioner": partitioner,
            "custom_getter": custom_getter,
            "dtype": None if dtype is None else as_dtype(dtype),
            "use_resource": use_resource,
            "constraint": constraint,
            "reuse": reuse or None,  # an outer scope's reuse cannot be undone
        }
        self._blocks: list[AbstractContextManager[VariableScope]] = []

    def __enter__(self) -> VariableScope:
        block = self._block()
        scope = block.__enter__()
        self._blocks.append(block)
        return scope

    def __exit__(self, *exc_info: Any) -> None:
        self._blocks.pop().__exit__(*exc_info)

    @contextmanager
    def _block(self) -> Iterator[VariableScope]:
        graph = graph_for(list(self._values or ()))
        with graph.as_default():
            name = self._given
            if name is None:
                name = _unused(graph, self._default_name or "")
            with (
                self._names(graph, name) as names,
                _entered(graph, name, names, self._changes) as scope,
            ):
                yield scope

    def _names(self, graph: Graph, name: Any) -> AbstractContextManager[str]:
        last = name.name.split("/")[-1] if isinstance(name, VariableScope) else name
        if not last or not self._auxiliary:
            scope = graph.scope
            return nullcontext(f"{scope}/" if scope else "")
        return graph.name_scope(last)


def _unused(graph: Graph, prefix: str) -> str:
    store, outer = store_of(graph), _scope_of(graph).name
    name, number = prefix, 0
    while store.times_opened(f"{outer}/{name}" if outer else name):
        number += 1
        name = f"{prefix}_{number}"
    return name


@contextmanager
def _entered(
    graph: Graph, name: Any, names: str, changes: dict[str, Any]
) -> Iterator[VariableScope]:
    """Make a scope of variables the current one of its graph."""
    store, outer = store_of(graph), _scope_of(graph)
    if isinstance(name, VariableScope):
        base, full, original = name, name.name, name.original_name_scope
    else:
        full = f"{outer.name}/{name}" if outer.name else name
        base, original = outer, names
    scope = base.changed(full, original, changes)
    store.open_scope(full)
    token = _current.set({**_current.get({}), graph: scope})
    try:
        yield scope
    finally:
        _current.reset(token)
        store.close_subscopes(full)


def get_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool | None = None,
    collections: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    validate_shape: bool = True,
    use_resource: bool | None = None,
    custom_getter: Callable[..., Any] | None = None,
    constraint: Any = None,
    synchronization: Any = VariableSynchronization.AUTO,
    aggregation: Any = VariableAggregation.NONE,
) -> Any:
    """Return the variable of a name in the current variable scope, new or shared.

    Without an initializer it starts uniformly distributed by the sizes of its sides, or
    at zero for whole numbers. Raises `ValueError` for a variable that exists although
    it must not (see `variable_scope`) or the reverse, for a shape that is not known or
    not that of the existing variable.
    """
    return get_variable_scope().get_variable(
        None,
        name,
        shape=shape,
        dtype=dtype,
        initializer=initializer,
        regularizer=regularizer,
        trainable=trainable,
        collections=collections,
        partitioner=partitioner,
        validate_shape=validate_shape,
        custom_getter=custom_getter,
        constraint=constraint,
    )


def get_local_variable(name: str, *args: Any, **kwargs: Any) -> Any:
    """Return a variable as `get_variable`, a local one that is not trained."""
    kwargs["collections"] = [*(kwargs.get("collections") or []), "local_variables"]
    kwargs["trainable"] = False
    return get_variable(name, *args, **kwargs)
