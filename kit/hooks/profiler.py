"""Writes down what ran where and when, as a Chrome trace, every so often."""

from __future__ import annotations

import json
from pathlib import Path
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


class ProfilerHook(SessionRunHook):
    """Writes `<output_dir>/timeline-<step>.json` every so many steps or seconds.

    The file is opened with chrome://tracing or Perfetto. A run that is written down
    takes longer than others. `show_dataflow` and `show_memory` change nothing.

    Raises `ValueError` unless exactly one of the times is given, `RuntimeError` at the
    begin where no global step is counted, `UnimplementedError` where runs cannot note
    what they do.
    """

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: str = "",
        show_dataflow: bool = True,
        show_memory: bool = False,
    ) -> None:
        self._folder = Path(output_dir)
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)
        self._step: Any = None
        self._options: Any = None
        self._next: int | None = None
        self._is_due = False

    def begin(self) -> None:
        """Find out what counts the steps, and how a run is noted."""
        where = environment.current()
        self._step = needed_global_step(where, self)
        self._options = where.tracing()
        self._next = None

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Let the step be read and, if it is time, the run be noted."""
        self._is_due = self._next is not None and self._timer.should_trigger_for_step(
            self._next
        )
        options = self._options if self._is_due else None
        return SessionRunArgs({"global_step": self._step}, options=options)

    def after_run(
        self, run_context: SessionRunContext, run_values: SessionRunValues
    ) -> None:
        """Write what was noted."""
        # Read before the run's own update, as a rule; else it is written a run early.
        before = int(run_values.results["global_step"])
        if self._next is None:
            # The first run is unlike all others: it makes the plan.
            self._timer.update_last_triggered_step(before)
        step = before + 1
        if self._is_due:
            step = int(run_context.session.run(self._step))
            self._timer.update_last_triggered_step(step)
            self._write(step, run_values.run_metadata)
        self._next = step + 1

    def _write(self, step: int, run_metadata: Any) -> None:
        where = environment.current()
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"timeline-{step}.json"
        where.info(f"Saving timeline for {step} into {str(path)!r}.")
        events = where.timeline(run_metadata)
        path.write_text(json.dumps({"traceEvents": list(events)}), "utf-8")
