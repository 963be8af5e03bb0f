"""Which graph new ops enter.

Pure. Each thread and coroutine has its own stack of default graphs, above one common
one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

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
