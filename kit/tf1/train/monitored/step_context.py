"""What a function that makes one step of a monitored session is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn


class StepContext:
    """The session of a step: with hooks and without, and a way to end the loop."""

    def __init__(self, session: Any, run_with_hooks_fn: Callable[..., Any]) -> None:
        """Let `run_with_hooks_fn` be what runs with hooks, `session` without."""
        self._session, self._run_with_hooks = session, run_with_hooks_fn

    @property
    def session(self) -> Any:
        """The session itself: what it runs calls no hooks."""
        return self._session

    def run_with_hooks(self, *args: Any, **kwargs: Any) -> Any:
        """Run as the monitored session does."""
        return self._run_with_hooks(*args, **kwargs)

    def request_stop(self) -> NoReturn:
        """End the loop: the `with` block of the session is left, without an error."""
        raise StopIteration("step_fn has requested the iterations to stop.")
