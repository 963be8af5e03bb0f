"""The default graph, and its scopes: devices, control dependencies, names.

Pure. Each thread and coroutine has its own stack of default graphs, above one common
one. A scope is a context manager; `kit.device` and the others of the package are these.

    with device("/job:ps/task:0"), name_scope("model"):
        w = Variable(...)                        # model/w, on ps:0
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from kit.devices.device import check_device
from kit.devices.scope import Scope, parse_scope
from kit.graph.graph import Graph, default_graphs

_common: Graph | None = None


def default_graph() -> Graph:
    """Return the graph that new ops enter: the innermost default, or the common one."""
    stack = default_graphs.get()
    if stack:
        return stack[-1]
    global _common  # it is the process's
    if _common is None:
        _common = Graph()
    return _common


def reset_default_graph(graph: Graph | None = None) -> None:
    """Begin a new common graph, empty or the one given.

    Raises `RuntimeError` inside of `graph.as_default()`.
    """
    if default_graphs.get():
        raise RuntimeError("the default graph cannot be reset inside as_default().")
    global _common  # as above
    _common = graph


def graph_of(inputs: Sequence[Any]) -> Graph:
    """Return the graph of the first tensor among `inputs`, or the default graph."""
    for value in inputs:
        result = getattr(value, "graph", None)
        if result is not None:
            return result  # type: ignore[no-any-return]
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
    """Place the ops that are made in this scope where another op is.

    Device scopes outside do not count.

    Parameters
    ----------
    anchor : Op, Tensor, Variable or None
        Where to place them. None is for leaving all scopes, with `ignore_existing`.
    ignore_existing : bool, default False
        Forget device scopes and anchors outside.

    Returns
    -------
    context manager

    Raises
    ------
    ValueError
        `anchor` is None without `ignore_existing`, or belongs to another graph.
    TypeError
        It is neither an op nor a tensor.
    """
    graph = getattr(anchor, "graph", None) or default_graph()
    scope: AbstractContextManager[None] = graph.colocate_with(anchor, ignore_existing)
    return scope


def control_dependencies(ops: Sequence[Any] | None) -> AbstractContextManager[None]:
    """Make the ops of this scope run after others.

    Parameters
    ----------
    ops : sequence of Op, Tensor or Variable, or None
        What must run before. Nested scopes add up; None clears the outer ones.

    Returns
    -------
    context manager

    Raises
    ------
    TypeError
        Something is neither an op nor a tensor.
    ValueError
        Something belongs to another graph.

    Examples
    --------
    >>> import kit
    >>> with kit.Graph().as_default():
    ...     first = kit.constant(1.0, name="first")
    ...     with kit.control_dependencies([first]):
    ...         kit.constant(2.0).op.control_inputs
    (<op 'first' Const>,)
    """
    graph = next((op.graph for op in ops or () if hasattr(op, "graph")), None)
    scope: AbstractContextManager[None] = (
        graph or default_graph()
    ).control_dependencies(ops)
    return scope


def name_scope(name: str | None) -> AbstractContextManager[str]:
    """Put the names of ops that are made in this scope below a common one.

    Parameters
    ----------
    name : str or None
        A number is appended if the scope exists, unless the name ends in a slash: then
        that scope is entered again. None or "" is the root.

    Returns
    -------
    context manager
        Gives the full name of the scope, with a slash at its end.

    Raises
    ------
    ValueError
        The text cannot be a name.

    Examples
    --------
    >>> import kit
    >>> with kit.Graph().as_default(), kit.name_scope("model") as scope:
    ...     scope, kit.constant(1.0, name="one").name
    ('model/', 'model/one:0')
    """
    return default_graph().name_scope(name)


def container(name: str) -> AbstractContextManager[None]:
    """Keep the state of new variables in a container of this name on their task."""
    return default_graph().in_container(name)
