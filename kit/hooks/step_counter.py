"""Tells how many steps are made in a second."""

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
from kit.hooks.timer import SecondOrStepTimer

_MOST_WARNINGS = 5


class StepCounterHook(SessionRunHook):
    """Tells `global_step/sec` every so many steps or seconds, from the second time on.

    It warns, at most 5 times, if the global step does not move. `output_dir` is kept
    for programs that give it; nothing is written.

    Raises `ValueError` unless exactly one of the times is given, and `RuntimeError` at
    the begin where no global step is counted.
    """

    def __init__(
        self,
        every_n_steps: int | None = 100,
        every_n_secs: float | None = None,
        output_dir: str | None = None,
        summary_writer: Any = None,
    ) -> None:
        """`summary_writer`, if any, is kept as `output_dir` is."""
        if (every_n_steps is None) == (every_n_secs is None):
            raise ValueError(
                f"exactly one of every_n_steps and every_n_secs should be provided, "
                f"not {every_n_steps} and {every_n_secs}."
            )
        self._timer = SecondOrStepTimer(
            every_secs=every_n_secs, every_steps=every_n_steps
        )
        self._output_dir, self._summary_writer = output_dir, summary_writer
        self._step: Any = None
        self._before: int | None = None
        self._n_warnings = 0

    def begin(self) -> None:
        """Find out what counts the steps."""
        self._step = needed_global_step(environment.current(), self)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Count anew: after a recovery the steps may be those of long ago."""
        self._timer.reset()
        self._before = None

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Let the step be read."""
        return SessionRunArgs(self._step)

    def after_run(
        self, run_context: SessionRunContext, run_values: SessionRunValues
    ) -> None:
        """Count, and tell if it is time."""
        seen = int(run_values.results)
        if self._timer.should_trigger_for_step(seen + 1):
            step = int(run_context.session.run(self._step))
            if self._timer.should_trigger_for_step(step):
                seconds, steps = self._timer.update_last_triggered_step(step)
                if seconds is not None and steps is not None:
                    self._log_and_record(steps, seconds, step)
        if self._before == seen and self._n_warnings < _MOST_WARNINGS:
            self._n_warnings += 1
            environment.current().warning(
                f"The global step has not moved since the run before: it is {seen}. If "
                f"it never does, give global_step= to minimize() or to "
                f"apply_gradients(); with SyncReplicasOptimizer it moves once for all "
                f"workers."
            )
        self._before = seen

    def _log_and_record(
        self, elapsed_steps: int, elapsed_time: float, global_step: int
    ) -> None:
        """Tell the rate; a class below may do something else with it."""
        rate = elapsed_steps / elapsed_time if elapsed_time > 0 else float("inf")
        environment.current().progress(
            f"global_step/sec: {rate:g} (step {global_step})"
        )
