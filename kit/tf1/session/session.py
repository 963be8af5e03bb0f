"""`tf.Session` and `tf.InteractiveSession`: how they become the default, and end."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from kit.tf1.graph.graph import Graph
from kit.tf1.session.base_session import BaseSession
from kit.tf1.session.running import sessions
from kit.tf1.session.targets import text_of
from kit.tf1.session.tf_errors import originals


class Session(BaseSession):
    """Runs a graph.

        with tf.Session("grpc://host:2222") as sess:
            sess.run(train_op, {x: images})

    `target` is '' for this process alone, or a server's target; `graph` is the default
    graph unless given. Leaving the block closes the session.
    """

    def __init__(
        self, target: Any = "", graph: Graph | None = None, config: Any = None
    ) -> None:
        super().__init__(target, graph, config)
        self._entered: AbstractContextManager[Any] | None = None

    def __enter__(self) -> Session:
        if self._entered is not None:
            raise RuntimeError("Session context managers are not re-entrant.")
        self._entered = self._block()
        self._entered.__enter__()
        return self

    def __exit__(self, *exc_info: Any) -> None:
        block, self._entered = self._entered, None
        try:
            if block is not None:
                block.__exit__(*exc_info)
        finally:
            self.close()

    @contextmanager
    def _block(self) -> Iterator[None]:
        with self._graph.as_default(), self.as_default():
            yield

    @staticmethod
    def reset(target: Any, containers: Any = None, config: Any = None) -> None:
        """Clear containers on all tasks of a cluster and end the target's sessions.

        Without `containers` it is the default one. A session of this process alone has
        nothing to clear. Raises `NotFoundError` for an unknown target, and
        `DeadlineExceededError` when a task does not answer.
        """
        text = text_of(target)
        if not text:
            return
        session = BaseSession(text, Graph(), config)
        try:
            names = [str(one) for one in containers or [""]]
            limit = session._deadline_s(None)
            with originals():
                session._meet(limit)
                session._native.reset(names, deadline_s=limit)
                session._is_met = False  # it was ended with all others
        finally:
            session.close()


class InteractiveSession(BaseSession):
    """A session that makes itself the default one, until it is closed."""

    _n_open = 0
    _prunes_first = True

    def __init__(
        self, target: Any = "", graph: Graph | None = None, config: Any = None
    ) -> None:
        super().__init__(target, graph, config)
        if InteractiveSession._n_open:
            warnings.warn(
                "An interactive session is already active. This can cause "
                "out-of-memory errors in some cases. You must explicitly call "
                "`InteractiveSession.close()` to release resources held by the other "
                "session(s).",
                stacklevel=2,
            )
        InteractiveSession._n_open += 1
        self._explicit = graph
        if graph is not None:
            graph._install()
        sessions.push(self)

    def close(self) -> None:
        """End the session, and let what was the default before be it again."""
        if not self._is_closed:
            InteractiveSession._n_open -= 1
            sessions.remove(self)
            if self._explicit is not None:
                self._explicit._uninstall()
        super().close()
