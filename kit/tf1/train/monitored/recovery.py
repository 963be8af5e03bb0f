"""What a recovery has cost, in one line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from kit.errors import AbortedError, KitError
from kit.task import Task
from kit.tf1 import logging

_TASK = re.compile(r"/job:(\w+)(?:/replica:\d+)?/task:(\d+)")


class Recovery:
    """Knows how far a training was, so that the loss can be reported."""

    def __init__(self, creator: Any) -> None:
        """Ask `creator`, who makes the sessions, how the last one was made ready.

        It may be a program's own, and know nothing of that.
        """
        self._creator = creator
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
        done = str(getattr(self._creator, "what_it_did", ""))
        parts = [what_happened(error), done or "made a new session"]
        now = getattr(self._creator, "began_at", None)
        now = self._step() if now is None else now
        if now is not None:
            parts.append(f"goes on at step {now}")
            furthest = self._furthest()
            # A worker that only waited cannot know what its chief has undone.
            if furthest is not None and getattr(self._creator, "gives_values", True):
                parts.append(f"{max(0, furthest - now)} steps are lost")
            self._seen = now
        logging.warning("%s.", "; ".join(parts))

    def _furthest(self) -> int | None:
        """Return the last step that was made, as far as is known.

        What a hook has seen may be some steps old, and the step that the cluster was
        found at is lost when the task that counts is.
        """
        known = (self._seen, getattr(self._creator, "was_at", None))
        return max((one for one in known if one is not None), default=None)

    def _step(self) -> int | None:
        if self._tensor is None:
            return None
        try:
            return int(self._session.run(self._tensor))
        except KitError:
            return None  # lost again: the next run will notice


def what_happened(error: KitError) -> str:
    """Return who was lost and how, in a few words; else what the error says."""
    found = _TASK.search(error.task or error.message)
    if found is None:
        return error.message.rstrip(".")
    task = Task(found[1], int(found[2])).short
    came_back = isinstance(error, AbortedError) and "restarted" in error.message
    return f"{task} came back empty" if came_back else f"{task} was lost"
