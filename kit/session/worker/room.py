"""Where the ops of one session keep what outlives a run, on one task."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from kit.session.worker.state import Store


class Room:
    """A session's place on a task: its variables, and what is its alone.

    `store` is that of all sessions, or its own if it is isolated. A run keeps the room
    that it began in, so that what is late for the end of its session changes nothing
    elsewhere.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._own: dict[str, Any] = {}
        self._lock = threading.Lock()

    def own(self, name: str, make: Callable[[], Any]) -> Any:
        """Return what this session keeps under a name, made at the first use."""
        with self._lock:
            if name not in self._own:
                self._own[name] = make()
            return self._own[name]
