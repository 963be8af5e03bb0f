"""Which graph new ops enter, and its scopes: where they go, what they wait for, names.

Pure. Each thread and coroutine has its own stack of default graphs, above one common
one. A scope is a context manager; `kit.device` and the others of the package are these.

    with device("/job:ps/task:0"), name_scope("model"):
        w = Variable(...)                        # model/w, on ps:0
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from kit.devices.nearest import check_device
from kit.devices.scope import Scope, parse_scope

if TYPE_CHECKING:
    from kit.graph.graph import Graph

_defaults: ContextVar[tuple[Graph, ...]] = ContextVar("graphs", default=())
_root: list[Graph] = []


def default_graph() -> Graph:
    """Return the graph that new ops enter: the innermost default, or the common one."""
    stack = _defaults.get()
    if stack:
        return stack[-1]
    if not _root:
        from kit.graph.graph import Graph  # it needs this module first

        _root.append(Graph())
    return _root[0]


def reset_default_graph(graph: Graph | None = None) -> None:
    """Begin a new common graph, empty or the one given.

    Raises `RuntimeError` inside of `graph.as_default()`.
    """
    if _defaults.get():
        raise RuntimeError("the default graph cannot be reset inside as_default().")
    _root[:] = [] if graph is None else [graph]


@contextmanager
def entered(graph: Graph) -> Iterator[Graph]:
    """Let `graph` be the default graph; yields it."""
    token = _defaults.set((*_defaults.get(), graph))
    try:
        yield graph
    finally:
        _defaults.reset(token)


def graph_of(inputs: Sequence[Any]) -> Graph:
    """Return the graph of the first tensor among `inputs`, or the default graph."""
    for one in inputs:
        found = getattr(one, "graph", None)
        if found is not None:
            return found  # type: ignore[no-any-return]
    return default_graph()


def device(scope: Scope) -> AbstractContextManager[None]:
    """Place the ops that are made in this scope.

    Parameters
    ----------
    scope : str, DeviceSpec, callable or None
        A name such as "/job:ps/task:0", a function that returns one for an op, or None
        to ignore all outer scopes. Inner scopes fill in and override outer ones.

    Returns
    -------
    context manager

    Raises
    ------
    PlacementError
        The current cluster does not have this task or device.
    ValueError
        The text is not a device name.

    Examples
    --------
    >>> import kit
    >>> with kit.Graph().as_default(), kit.device("/job:ps"):
    ...     with kit.device("/cpu:0"):
    ...         kit.constant(1.0).device
    '/job:ps/device:CPU:0'
    """
    name = parse_scope(scope).scope
    if isinstance(name, str):
        check_device(name)
    return default_graph().device(scope)


def colocate_with(
    anchor: Any, ignore_existing: bool = False
) -> AbstractContextManager[None]:
    """Put new ops where `anchor` is, an op, tensor or variable; scopes do not count."""
    graph = getattr(anchor, "graph", None) or default_graph()
    found: AbstractContextManager[None] = graph.colocate_with(anchor, ignore_existing)
    return found


def control_dependencies(ops: Sequence[Any] | None) -> AbstractContextManager[None]:
    """Let new ops run after `ops`, tensors or ops; None forgets the outer scopes."""
    graph = next((one.graph for one in ops or () if hasattr(one, "graph")), None)
    found: AbstractContextManager[None] = (
        graph or default_graph()
    ).control_dependencies(ops)
    return found


def name_scope(name: str | None) -> AbstractContextManager[str]:
    """Put names of new ops below `name`; gives the scope with a slash at its end."""
    return default_graph().name_scope(name)


def container(name: str) -> AbstractContextManager[None]:
    """Keep the state of new variables in a container of this name on their task."""
    return default_graph().in_container(name)
