"""The graphs that are the default now, innermost last: of each thread and coroutine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kit.graph.graph import Graph

default_graphs: ContextVar[tuple[Graph, ...]] = ContextVar("graphs", default=())


@contextmanager
def entered(graph: Graph) -> Iterator[Graph]:
    """Let `graph` be the default graph; yields it."""
    token = default_graphs.set((*default_graphs.get(), graph))
    try:
        yield graph
    finally:
        default_graphs.reset(token)
