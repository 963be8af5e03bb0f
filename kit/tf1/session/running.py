"""The default session, which `tensor.eval()` and `op.run()` use."""

from __future__ import annotations

from typing import Any

from kit.session.client.dask_graph import add_default
from kit.tf1.graph.stack import DefaultStack

sessions: DefaultStack[Any] = DefaultStack()


def get_default_session() -> Any:
    """Return the innermost default session of this thread, None if there is none."""
    return sessions.top()


add_default(get_default_session)


def session_for(element: Any, session: Any, what: str) -> Any:
    """Return the session that should run an element of a graph: this, or the default.

    Raises `ValueError` if there is none or if it is of another graph.
    """
    chosen = sessions.top() if session is None else session
    if chosen is None:
        raise ValueError(
            f"Cannot use {what}() without a session: no default session is registered. "
            f"Use `with sess.as_default()` or pass a session to {what}(session=sess)."
        )
    if chosen.graph is not element.graph:
        raise ValueError(
            f"Cannot use the session for {what}() of {element.name!r}: it is of "
            f"another graph. Make the session with graph=..., or pass the right one."
        )
    return chosen
