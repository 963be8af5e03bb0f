"""Scopes of names and of variables. A variable scope is both.

with tf.variable_scope("layer"):        names: layer/, the second time layer_1/
    w = tf.get_variable("w", [2])       variable: layer/w, whichever time it is
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from functools import wraps
from inspect import signature
from typing import Any

from kit.graph.array_protocol import ArrayProtocol
from kit.tf1.graph.collections import GraphKeys
from kit.tf1.graph.graph import Graph, get_default_graph
from kit.tf1.signature import with_options
from kit.tf1.tensor.convert import graph_for
from kit.tf1.tensor.dtypes import as_dtype, float32
from kit.tf1.tensor.shape import TensorShape
from kit.tf1.variables.partitioned import partitioned
from kit.tf1.variables.variable_store import VariableStore, store_of
from kit.tf1.variables.variables import VariableAggregation, VariableSynchronization

# --------------------------------------------------------------------------------------
# A variable scope: a name, and the defaults of the variables below it.


_INHERITED = (
    *("initializer", "regularizer", "caching_device", "partitioner"),
    *("custom_getter", "dtype", "use_resource", "constraint", "reuse"),
)


@dataclass
class VariableOptions:
    """What `get_variable` takes besides a name."""

    shape: Any = None
    dtype: Any = None
    initializer: Any = None
    regularizer: Any = None
    trainable: bool | None = None
    collections: Any = None
    caching_device: Any = None
    partitioner: Any = None
    validate_shape: bool = True
    use_resource: bool | None = None
    custom_getter: Callable[..., Any] | None = None
    constraint: Any = None
    synchronization: Any = VariableSynchronization.AUTO
    aggregation: Any = VariableAggregation.NONE


class VariableScope:
    """The scope that `tf.variable_scope` yields."""

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
        """Reuse existing variables from now on."""
        self.reuse = True

    def set_initializer(self, initializer: Any) -> None:
        """Set the initializer of the variables from now on."""
        self.initializer = initializer

    def set_regularizer(self, regularizer: Any) -> None:
        """Set the regularizer of the variables from now on."""
        self.regularizer = regularizer

    def set_dtype(self, dtype: Any) -> None:
        """Set the dtype of the variables from now on."""
        self.dtype = as_dtype(dtype)

    def set_caching_device(self, caching_device: Any) -> None:
        """Set where the values of the variables are read from now on."""
        self.caching_device = caching_device

    def set_partitioner(self, partitioner: Any) -> None:
        """Set the partitioner of the variables from now on."""
        self.partitioner = partitioner

    def set_custom_getter(self, custom_getter: Any) -> None:
        """Set the function that gets the variables from now on."""
        self.custom_getter = custom_getter

    def get_collection(self, name: Any) -> list[Any]:
        """Return the items of a collection of the default graph below this scope."""
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

    @with_options(VariableOptions)
    def get_variable(
        self,
        var_store: VariableStore | None,
        name: str,
        options: Any,
        *,
        reuse: Any = None,
    ) -> Any:
        """Return a variable below this scope; see `tf.get_variable`."""
        if not isinstance(name, str):
            raise TypeError(f"the name of a variable is a string, not {name!r}.")
        graph = get_default_graph()
        store = store_of(graph) if var_store is None else var_store
        full = f"{self.name}/{name}" if self.name else name
        arguments = vars(options) | {"reuse": self.reuse if reuse is None else reuse}
        getter = arguments.pop("custom_getter") or self.custom_getter
        if options.initializer is None:
            arguments["initializer"] = self.initializer
        start = arguments["initializer"]
        is_value = start is not None and (
            isinstance(start, ArrayProtocol) or not callable(start)
        )
        if options.dtype is None and not is_value:
            arguments["dtype"] = self.dtype
        if options.use_resource is None:
            arguments["use_resource"] = self.use_resource
        for key in ("regularizer", "caching_device", "partitioner", "constraint"):
            arguments[key] = arguments[key] or getattr(self, key)

        def plain(name: str, **how: Any) -> Any:
            return _existing(store, name, **how)

        if getter is not None and not callable(getter):
            raise ValueError(f"Given custom_getter is not callable: {getter!r}")
        # Variable scopes alone name variables, whichever name scope is open.
        with graph.name_scope(None):
            if getter is None:
                return plain(full, **arguments)
            return getter(plain, full, **arguments)


def _existing(
    store: VariableStore,
    name: str,
    *,
    shape: Any = None,
    partitioner: Any = None,
    use_resource: bool | None = None,
    **how: Any,
) -> Any:
    # A scalar has no axis along which it could be cut.
    is_scalar = isinstance(shape, list | tuple) and not shape
    is_known = how.get("reuse") is True and name in store.partitioned
    if (partitioner is None or is_scalar) and not is_known:
        if f"{name}/part_0" in store.variables:
            raise ValueError(
                f"No partitioner was provided, but the variable {name} is in parts."
            )
        return store.get(name, shape, **how)
    return partitioned(store, name, partitioner, shape=shape, **how)


def _chained(inner: Any, outer: Any) -> Callable[..., Any]:
    """Return a getter that asks the inner one, which asks the outer one."""

    def getter(plain: Any, name: str, **how: Any) -> Any:

        return inner(lambda name, **options: outer(plain, name, **options), name, **how)

    return getter


class _ReuseMode(Enum):
    AUTO_REUSE = 1


AUTO_REUSE = _ReuseMode.AUTO_REUSE


class name_scope:
    """Put the names of new operations below a name, in the graph of `values`.

    Yields the scope with a slash at its end. Without `name`, `default_name` is used;
    without both, it leaves all scopes.
    """

    def __init__(
        self, name: str | None, default_name: str | None = None, values: Any = None
    ) -> None:
        if not isinstance(default_name, str | None):
            raise TypeError(f"default_name is a string or None, not {default_name!r}.")
        self.name = default_name if name is None else name
        self._values = values
        # A stack, since one object may be entered again, also within itself.
        self._blocks: list[AbstractContextManager[str]] = []

    def __enter__(self) -> str:
        if self.name is not None and not isinstance(self.name, str):
            raise TypeError(f"the name of a scope is a string, not {self.name!r}.")
        if self.name is None and self._values is not None:
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
        with graph.as_default(), graph.name_scope(self.name) as scope:
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
    """Put variables of `get_variable` below a name, and set their defaults.

    `name_or_scope` is a name within the current scope, or a scope that was yielded
    before. Without it, the scope is named `default_name`, with a number. The other
    arguments are defaults for the variables inside, inherited from the outer scope
    unless given. With `reuse` True they must exist, with AUTO_REUSE they may.

    Raises `TypeError` for a name that is not a text, and `ValueError` for a `reuse`
    that is neither True, False, None nor AUTO_REUSE.
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
        if not isinstance(auxiliary_name_scope, bool):
            raise TypeError(
                f"The auxiliary_name_scope must be `True` or `False`, not "
                f"{auxiliary_name_scope!r}."
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
        self._blocks: list[Any] = []

    def __enter__(self) -> VariableScope:
        block = self._block()
        scope = block.__enter__()
        self._blocks.append((block, scope, graph_for(list(self._values or ()))))
        return scope

    def __exit__(self, *exc_info: Any) -> None:
        block, scope, graph = self._blocks[-1]
        if exc_info[0] is None and _scope_of(graph) is not scope:
            raise RuntimeError("Improper nesting of variable_scope.")
        self._blocks.pop()
        block.__exit__(*exc_info)

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
    """Make a variable scope the current one of its graph."""
    store, outer = store_of(graph), _scope_of(graph)
    if isinstance(name, VariableScope):
        base, full, original = name, name.name, name.original_name_scope
    else:
        full = f"{outer.name}/{name}" if outer.name else name
        base, original = outer, names
    scope = base.changed(full, original, changes)
    store.open_scope(full)
    counts = store.opened() if base is name else None
    token = _current.set({**_current.get({}), graph: scope})
    try:
        yield scope
    finally:
        _current.reset(token)
        # Entered again, it numbers its inner scopes from the start: a second call of
        # the same layer finds the variables of the first. One that was given as an
        # object has changed no numbers.
        if counts is None:
            store.close_subscopes(full)
        else:
            store.reset_opened(counts)


@with_options(VariableOptions)
def get_variable(name: str, options: Any) -> Any:
    """Return the variable with a name in the current variable scope, new or shared.

    Without an initializer it starts with `glorot_uniform_initializer`, or at zero for
    integers. Raises `ValueError` for a variable that exists although it must not (see
    `variable_scope`) or the reverse, and for a shape that is unknown or differs from
    that of the existing variable.
    """
    return get_variable_scope().get_variable(None, name, **vars(options))


@wraps(get_variable, assigned=())
def get_local_variable(name: str, *args: Any, **kwargs: Any) -> Any:
    """Return a variable as `get_variable` does: a local one that is not trained."""
    arguments = signature(get_variable).bind(name, *args, **kwargs).arguments
    arguments["collections"] = [
        *(arguments.get("collections") or []),
        "local_variables",
    ]
    return get_variable(**{**arguments, "trainable": False})


def no_regularizer(_: Any) -> None:
    """Return None: a regularizer that overrides that of an outer scope."""


def create_partitioned_variables(
    shape: Any,
    slicing: Any,
    initializer: Any,
    dtype: Any = float32,
    trainable: bool = True,
    collections: Any = None,
    name: str | None = None,
    reuse: Any = None,
) -> list[Any]:
    """Return the parts of a variable, which is cut into `slicing` parts by its axes.

    Raises `ValueError` where the two do not fit, and for several axes that are cut.
    """
    sizes = TensorShape(shape).as_list()
    if len(sizes) != len(slicing) or not sizes:
        raise ValueError(f"a variable of {sizes} is not cut by {slicing!r}.")
    if any(not 0 < n <= size for n, size in zip(slicing, sizes, strict=True)):
        raise ValueError(f"a variable of {sizes} has not so many slices: {slicing!r}.")
    with variable_scope(name, "PartitionedVariable", reuse=reuse) as scope:
        graph = get_default_graph()
        with graph.name_scope(None):
            whole = partitioned(
                store_of(graph),
                scope.name,
                lambda shape, dtype: list(slicing),
                shape=sizes,
                dtype=dtype,
                reuse=scope.reuse,
                initializer=initializer,
                trainable=trainable,
                collections=collections,
            )
    return list(whole)
