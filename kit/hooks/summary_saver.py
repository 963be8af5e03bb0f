"""Hands summaries to a writer that the program brings along.

There are no summary operations and no event files here: without your own writer
there is nothing to do, and the hook says so once.
"""

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


class SummarySaverHook(SessionRunHook):
    """Calls `summary_writer.add_summary(value, step)` every so many steps or seconds.

    The value is that of `summary_op`, or of the scaffold's `summary_op`: a tensor or a
    list of them. With `output_dir` in the place of a writer nothing is written.

    Raises `ValueError` unless exactly one of `scaffold` and `summary_op` and exactly
    one of the times is given, and `RuntimeError` when it begins and no global step is
    counted.
    """

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: str | None = None,
        summary_writer: Any = None,
        scaffold: Any = None,
        summary_op: Any = None,
    ) -> None:
        if (scaffold is None) == (summary_op is None):
            raise ValueError("Exactly one of scaffold or summary_op must be provided.")
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)
        self._op, self._scaffold = summary_op, scaffold
        self._writer, self._output_dir = summary_writer, output_dir
        self._step: Any = None
        self._next: int | None = None
        self._is_due = False

    def begin(self) -> None:
        """Find out what counts the steps."""
        self._next = None
        self._step = needed_global_step(environment.current(), self)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Say so if there is something to write, and nobody to write it."""
        if self._writer is None and self._summaries() is not None:
            environment.current().warning(
                "SummarySaverHook writes nothing: there are no event files here. Give "
                "it a summary_writer with add_summary(value, step), or use "
                "LoggingTensorHook."
            )

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Fetch the summaries with the run, if it is time."""
        found = self._summaries()
        if self._writer is None or found is None:
            return None
        wanted = {"global_step": self._step}
        self._is_due = self._next is None or self._timer.should_trigger_for_step(
            self._next
        )
        if self._is_due:
            wanted["summary"] = found
        return SessionRunArgs(wanted)

    def after_run(
        self, run_context: SessionRunContext, run_values: SessionRunValues
    ) -> None:
        """Hand them to the writer."""
        if run_values.results is None:
            return
        step = int(run_values.results["global_step"])
        if self._is_due:
            step = int(run_context.session.run(self._step))
            self._timer.update_last_triggered_step(step)
            found = run_values.results["summary"]
            for one in found if isinstance(found, list | tuple) else [found]:
                self._writer.add_summary(one, step)
        self._next = step + 1

    def end(self, session: Any) -> None:
        """Let the writer finish what it has."""
        flush = getattr(self._writer, "flush", None)
        if flush is not None:
            flush()

    def _summaries(self) -> Any:
        return self._op if self._scaffold is None else self._scaffold.summary_op
