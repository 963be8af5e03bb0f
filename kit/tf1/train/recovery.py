"""What a recovery has cost, told in one line."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from kit.errors import AbortedError, KitError
from kit.task import Task
from kit.tf1 import logging

_TASK = re.compile(r"/job:(\w+)(?:/replica:\d+)?/task:(\d+)")


class Recovery:
    """Knows how far a training was, so that what is lost can be told."""

    def __init__(self, what_it_did: Callable[[], str]) -> None:
        """Let `what_it_did()` tell how the last session was made ready."""
        self._what_it_did = what_it_did
        self._tensor: Any = None
        self._session: Any = None
        self._seen: int | None = None

    def watch(self, session: Any, tensor: Any) -> None:
        """Take note of `tensor`, the global step, in what a new session runs."""
        self._session, self._tensor = session, tensor

    def note(self, fetches: Sequence[Any], values: Sequence[Any]) -> None:
        """See which step it is, if some hook has fetched it."""
        for one, value in zip(fetches, values, strict=True):
            if one is self._tensor and one is not None:
                self._seen = int(value)
                return

    def tell(self, error: KitError) -> None:
        """Tell who was lost, what was done about it, and how many steps it has cost."""
        parts = [_what_happened(error), self._what_it_did() or "made a new session"]
        now = self._step()
        if now is not None:
            parts.append(f"goes on at step {now}")
            if self._seen is not None:
                parts.append(f"{max(0, self._seen - now)} steps are lost")
            self._seen = now
        logging.warning("%s.", "; ".join(parts))

    def _step(self) -> int | None:
        if self._tensor is None:
            return None
        try:
            return int(self._session.run(self._tensor))
        except KitError:
            return None  # lost again: the next run will notice


def _what_happened(error: KitError) -> str:
    found = _TASK.search(error.task or error.message)
    if found is None:
        return error.message.rstrip(".")
    task = Task(found[1], int(found[2])).short
    came_back = isinstance(error, AbortedError) and "restarted" in error.message
    return f"{task} came back empty" if came_back else f"{task} was lost"
