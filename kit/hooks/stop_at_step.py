"""Ends a training when its global step has got far enough."""

from __future__ import annotations

from typing import Any

from kit.hooks import environment
from kit.hooks.hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from kit.hooks.step_counting import needed_global_step


class StopAtStepHook(SessionRunHook):
    """Asks for the end when the global step has reached `last_step`.

    With `num_steps` it is so many steps after those that were done when the session
    began; a recovery does not begin to count anew. One run is made in any case. The
    step is read along with each run, and once more where it may be the last.

    Raises `ValueError` unless exactly one of the two is given, and `RuntimeError` at
    the begin where no global step is counted.
    """

    def __init__(
        self, num_steps: int | None = None, last_step: int | None = None
    ) -> None:
        if (num_steps is None) == (last_step is None):
            raise ValueError(
                f"Exactly one of num_steps and last_step must be given, not "
                f"num_steps={num_steps} and last_step={last_step}."
            )
        self._num_steps, self._last_step = num_steps, last_step
        self._step: Any = None

    def begin(self) -> None:
        """Find out what counts the steps."""
        self._step = needed_global_step(environment.current(), self)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """See from where to count."""
        if self._last_step is None:
            assert self._num_steps is not None
            self._last_step = int(session.run(self._step)) + self._num_steps

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Let the step be read."""
        return SessionRunArgs(self._step)

    def after_run(
        self, run_context: SessionRunContext, run_values: SessionRunValues
    ) -> None:
        """Ask for the end if it was the last step."""
        assert self._last_step is not None
        # What came along was read before or after the update: look again if in doubt.
        may_be_last = run_values.results + 1 >= self._last_step
        if may_be_last and run_context.session.run(self._step) >= self._last_step:
            run_context.request_stop()
