"""Tells values of tensors, now and then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kit.hooks import environment
from kit.hooks.hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from kit.hooks.timer import SecondOrStepTimer


class LoggingTensorHook(SessionRunHook):
    """Tells `loss = 0.25, step = 12` every `every_n_iter` runs or `every_n_secs`.

    `tensors` are tensors or their names: a list, whose order is kept, or a dict, whose
    keys are logged, sorted. This process's first run is logged, and counted from.
    With `at_end` the values at the end are logged as well, or alone. `formatter` makes
    the line from a dict of values.

    Raises `ValueError` for other than one of the two times (none is fine with
    `at_end`), for a number of runs below 1, and when it begins for anything that is not
    a tensor of the graph.
    """

    def __init__(
        self,
        tensors: dict[str, Any] | Sequence[Any],
        every_n_iter: int | None = None,
        every_n_secs: float | None = None,
        at_end: bool = False,
        formatter: Callable[[dict[Any, Any]], str] | None = None,
    ) -> None:
        both_or_none = (every_n_iter is None) == (every_n_secs is None)
        is_never = at_end and every_n_iter is None and every_n_secs is None
        if both_or_none and not is_never:
            raise ValueError(
                f"either at_end or exactly one of every_n_iter and every_n_secs must "
                f"be provided, not {every_n_iter} and {every_n_secs}."
            )
        if every_n_iter is not None and every_n_iter <= 0:
            raise ValueError(f"every_n_iter={every_n_iter} must be at least 1.")
        if isinstance(tensors, dict):
            self._asked, self._tags = dict(tensors), sorted(tensors)
        else:
            self._asked, self._tags = {one: one for one in tensors}, list(tensors)
        self._timer = SecondOrStepTimer(
            every_secs=every_n_secs, every_steps=1 if is_never else every_n_iter
        )
        self._is_never, self._at_end, self._formatter = is_never, at_end, formatter
        self._fetches: dict[Any, Any] = {}
        self._n_runs = 0
        self._is_due = False

    def begin(self) -> None:
        """Find the tensors."""
        where = environment.current()
        self._timer.reset()
        self._n_runs = 0
        self._fetches = {tag: where.fetch(one) for tag, one in self._asked.items()}

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Fetch the tensors with the run, if it is time."""
        self._is_due = not self._is_never and self._timer.should_trigger_for_step(
            self._n_runs
        )
        return SessionRunArgs(self._fetches) if self._is_due else None

    def after_run(
        self, run_context: SessionRunContext, run_values: SessionRunValues
    ) -> None:
        """Tell their values."""
        if self._is_due:
            self._tell(run_values.results)
        self._n_runs += 1

    def end(self, session: Any) -> None:
        """Tell the values at the end."""
        if self._at_end:
            self._tell(session.run(self._fetches))

    def _tell(self, values: dict[Any, Any]) -> None:
        seconds, _ = self._timer.update_last_triggered_step(self._n_runs)
        if self._formatter is not None:
            line = self._formatter(values)
        else:
            line = ", ".join(f"{tag} = {values[tag]!s}" for tag in self._tags)
            if seconds is not None:
                line += f" ({seconds:.3f} sec)"
        environment.current().progress(line)
