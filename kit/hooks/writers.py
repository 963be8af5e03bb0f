"""Hooks that write down what runs did: timelines, and summaries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kit.hooks import environment
from kit.hooks.hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunValues,
)
from kit.hooks.steps import StepHook
from kit.hooks.timer import SecondOrStepTimer
from kit.regular_file import replace_regular


class ProfilerHook(StepHook):
    """Writes `<output_dir>/timeline-<step>.json` every few steps or seconds.

    The file is opened with chrome://tracing or Perfetto. A run that is written down
    takes longer than others.

    Parameters
    ----------
    save_steps : int, optional
        After how many steps.
    save_secs : float, optional
        After how many seconds. Give one of the two.
    output_dir : str, default ""
        Folder of the files; by default the current one.
    show_dataflow, show_memory : bool
        Kept for programs that give them; they change nothing.

    Raises
    ------
    ValueError
        Both or neither of the times are given.
    RuntimeError
        When it begins, no global step is counted.
    UnimplementedError
        Runs cannot note what they do here.
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
        self._options: Any = None
        self._next: int | None = None
        self._is_due = False

    def begin(self) -> None:
        """Find out what counts the steps, and how a run is noted."""
        super().begin()
        self._options = environment.current().tracing()
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
        # Usually read before the run's own update; if not, this writes one run early.
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
        replace_regular(path, [json.dumps({"traceEvents": list(events)}).encode()])
        writer = where.summary_writer(str(self._folder))
        if writer is not None:
            writer.add_run_metadata(run_metadata, f"step_{step}")


class SummarySaverHook(StepHook):
    """Calls `summary_writer.add_summary(value, step)` every few steps or seconds.

    Parameters
    ----------
    save_steps : int, optional
        After how many steps.
    save_secs : float, optional
        After how many seconds. Give one of the two.
    output_dir : str, optional
        In a session of `kit.tf1`, the folder of an event file, in place of a writer.
    summary_writer : object, optional
        Has a method `add_summary`, as a `tf.summary.FileWriter`.
    scaffold : Scaffold, optional
        Its `summary_op` is the value.
    summary_op : Tensor or list of Tensor, optional
        The value. Give one of `scaffold` and `summary_op`.

    Raises
    ------
    ValueError
        Both or neither of the times, or of `scaffold` and `summary_op`, are given.
    RuntimeError
        When it begins, no global step is counted.
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
        self._next: int | None = None
        self._is_due = False

    def begin(self) -> None:
        """Find out what counts the steps, and what writes."""
        self._next = None
        super().begin()
        if self._writer is None and self._output_dir:
            self._writer = environment.current().summary_writer(self._output_dir)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Warn if there is something to write, and nothing to write it with."""
        if self._writer is None and self._summaries() is not None:
            environment.current().warning(
                "SummarySaverHook writes nothing: it has no writer of event files. "
                "In a session of kit.tf1 give it an output_dir, with TensorBoard "
                "installed: pip install 'psring[tensorboard]'. Elsewhere give it a "
                "summary_writer with add_summary(value, step)."
            )

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Fetch the summaries with the run, if it is time."""
        summaries = self._summaries()
        if self._writer is None or summaries is None:
            return None
        wanted = {"global_step": self._step}
        self._is_due = self._next is None or self._timer.should_trigger_for_step(
            self._next
        )
        if self._is_due:
            wanted["summary"] = summaries
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
            summaries = run_values.results["summary"]
            for summary in (
                summaries if isinstance(summaries, list | tuple) else [summaries]
            ):
                self._writer.add_summary(summary, step)
        self._next = step + 1

    def end(self, session: Any) -> None:
        """Let the writer finish what it has."""
        flush = getattr(self._writer, "flush", None)
        if flush is not None:
            flush()

    def _summaries(self) -> Any:
        return self._op if self._scaffold is None else self._scaffold.summary_op
