"""Hooks on the values of a run: fed, logged, checked, evaluated at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex

import numpy as np

from kit.errors import OutOfRangeError
from kit.hooks import environment
from kit.hooks.hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from kit.hooks.timer import SecondOrStepTimer


class FeedFnHook(SessionRunHook):
    """Feeds what a function returns to each run.

    Parameters
    ----------
    feed_fn : callable
        Called without arguments before each run; returns a dict of values for tensors.
    """

    feed_fn: Callable[[], Any]

    def __init__(self, feed_fn: Callable[[], Any]) -> None:
        self.feed_fn = feed_fn

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Feed what the function returns."""
        return SessionRunArgs(fetches=None, feed_dict=self.feed_fn())


class LoggingTensorHook(SessionRunHook):
    """Logs a line such as `loss = 0.25, step = 12` every few runs or seconds.

    This process's first run is logged, and counted from.

    Parameters
    ----------
    tensors : list or dict
        Tensors or their names: a list, whose order is kept, or a dict, whose keys are
        logged, sorted.
    every_n_iter : int, optional
        After how many runs; at least 1.
    every_n_secs : float, optional
        After how many seconds. Give one of the two, or none with `at_end`.
    at_end : bool, default False
        Log the values at the end as well, or alone.
    formatter : callable, optional
        Makes the line from a dict of values.

    Raises
    ------
    ValueError
        Both or neither of the two times are given, or fewer than 1 run; when it begins,
        something is not a tensor of the graph.
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
                f"be provided, not {every_n_iter} and {every_n_secs}: "
                f"LoggingTensorHook(tensors, every_n_iter=100)."
            )
        if isinstance(tensors, str):
            raise ValueError(
                f"tensors is {tensors!r}; give a list, also for a single one: "
                f"[{tensors!r}]."
            )
        is_number = isinstance(every_n_iter, SupportsIndex | float)
        if every_n_iter is not None and not (is_number and every_n_iter > 0):
            raise ValueError(f"every_n_iter={every_n_iter!r} must be at least 1.")
        if isinstance(tensors, dict):
            self._asked, self._tags = dict(tensors), sorted(tensors)
        else:
            self._asked, self._tags = (
                {tensor: tensor for tensor in tensors},
                list(tensors),
            )
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
        self._fetches = {
            tag: where.fetch(tensor) for tag, tensor in self._asked.items()
        }

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Fetch the tensors with the run, if it is time."""
        self._is_due = not self._is_never and self._timer.should_trigger_for_step(
            self._n_runs
        )
        return SessionRunArgs(self._fetches) if self._is_due else None

    def after_run(
        self, run_context: SessionRunContext, run_values: SessionRunValues
    ) -> None:
        """Log their values."""
        if self._is_due:
            self._tell(run_values.results)
        self._n_runs += 1

    def end(self, session: Any) -> None:
        """Log the values at the end."""
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


class NanLossDuringTrainingError(RuntimeError):
    """The loss has become NaN.

    Raised by a `NanTensorHook`, which ends the training. The caller lowers the learning
    rate or checks the data, and goes on from an older checkpoint. A retry from the
    same state mostly meets it again.
    """

    def __str__(self) -> str:
        return ". ".join(map(str, self.args)) or "NaN loss during training."


class NanTensorHook(SessionRunHook):
    """Ends the training when the loss is NaN. Infinity is not a NaN, and passes.

    Parameters
    ----------
    loss_tensor : Tensor or str
        The loss, or its name.
    fail_on_nan_loss : bool, default True
        Raise `NanLossDuringTrainingError`; else only ask for the end.
    """

    def __init__(self, loss_tensor: Any, fail_on_nan_loss: bool = True) -> None:
        self._loss, self._fails = loss_tensor, fail_on_nan_loss

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Let the loss be run along."""
        return SessionRunArgs(self._loss)

    def after_run(
        self, run_context: SessionRunContext, run_values: SessionRunValues
    ) -> None:
        """Check the loss; raises `ValueError` if it is several numbers."""
        loss = np.asarray(run_values.results)
        if loss.size > 1:
            raise ValueError(
                f"a loss is one number, and this one has the shape {list(loss.shape)}: "
                f"give its mean or its sum."
            )
        if not np.isnan(loss).any():
            return
        text = "Model diverged with loss = NaN."
        if self._fails:
            environment.current().error(text)
            raise NanLossDuringTrainingError
        environment.current().warning(text)
        run_context.request_stop()


class FinalOpsHook(SessionRunHook):
    """Runs something at the end and keeps what comes out in `final_ops_values`.

    Parameters
    ----------
    final_ops : object
        Any structure that a session takes; None for nothing.
    final_ops_feed_dict : dict, optional
        Values for tensors.
    """

    def __init__(self, final_ops: Any, final_ops_feed_dict: Any = None) -> None:
        self._ops, self._feeds = final_ops, final_ops_feed_dict
        self._values: Any = None

    @property
    def final_ops_values(self) -> Any:
        """What came out; None before the end."""
        return self._values

    def end(self, session: Any) -> None:
        """Run them."""
        if self._ops is None:
            return
        try:
            self._values = session.run(self._ops, feed_dict=self._feeds)
        except (OutOfRangeError, StopIteration):
            environment.current().warning(
                "FinalOpsHook found no more input for its final ops: give them one "
                "that does not end with the training's."
            )
            raise
