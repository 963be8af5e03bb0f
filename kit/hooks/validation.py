"""How good a model is on data that it does not train on, measured now and then."""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any, Literal

from kit.checkpoint import SUFFIX, Folder, Manifest, Piece, graph_hash, write_shard
from kit.checkpoint.folder import LEAST_KEPT
from kit.errors import FailedPreconditionError, InvalidArgumentError
from kit.hooks import environment
from kit.hooks.hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from kit.regular_file import user_path
from kit.trace.log import LONGEST_NAME, encoded_name

PREFIX = "validation_"
_LONGEST = LONGEST_NAME - len(PREFIX)


class ValidationHook(SessionRunHook):
    """Measures a model on held-out data, every so many steps and after the last.

    `run.frame()` has what the function gives as `validation_loss`,
    `validation_accuracy` and the like, at the step after whose update it was measured;
    `kit.compare` draws it beside the loss. It is called in the first worker between two
    steps, with a copy of the parameters, and all others wait for it in their next step.
    After the last step it is always called, also where the training was stopped, or
    each worker goes at its own pace.

    Parameters
    ----------
    function : callable
        `function(params, data)` returns the loss, or what a step function returns: the
        loss, the gradients, which are not used, and a dict of further measures. So the
        step function itself will do. If it returns anything else, the training ends
        with `InvalidArgumentError`. A parameter called `state` gets a copy of what the
        first worker's step function keeps, such as the averages of a batch norm.
    data : object
        Given to the function as it is.
    every : int, default 50
        After how many steps; at least 1.
    decay : float, optional
        Measure the exponential mean of the parameters (EMA) in place of themselves, of
        which so much is kept in a step: the mean of `kit.Averaged(optimizer, decay)`.
        The first worker follows it by a copy of the parameters in each step; in a
        training that resumes it begins anew.

    Raises
    ------
    InvalidArgumentError
        The function cannot be called, `every` is below 1, or `decay` is not from 0 to
        below 1.

    Examples
    --------
    Every 50 steps, on what is kept for the test::

        hook = kit.hooks.ValidationHook(step, (test_images, test_labels), every=50)
        run = kit.train(step, params, data, hooks=[hook])
    """

    def __init__(
        self,
        function: Callable[..., Any],
        data: Any,
        every: int = 50,
        *,
        decay: float | None = None,
    ) -> None:
        if not callable(function):
            raise InvalidArgumentError(
                f"the function is {type(function).__name__}; give one that is called "
                f"with parameters and data, such as the step function."
            )
        try:
            self._every = operator.index(every)
        except TypeError:
            self._every = 0
        if self._every < 1:
            raise InvalidArgumentError(f"every is {every!r}; give 1 step or more.")
        if decay is not None and not (
            isinstance(decay, int | float) and 0 <= decay < 1
        ):
            raise InvalidArgumentError(
                f"decay is {decay!r}; give a number from 0 to below 1, such as 0.999."
            )
        self._decay, self._mean = decay, dict[str, Any]()
        self._function, self._data = function, data
        self._takes_state = _takes(function, "state")
        self._due, self._step, self._n_seen = self._every, None, 0
        self._context: SessionRunContext | None = None

    def begin(self) -> None:
        """Find what counts the steps; `UnimplementedError` in a session."""
        where = environment.current()
        where.measuring()
        self._due, self._step, self._n_seen = self._every, where.global_step(), 0
        self._mean = {}

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Find where a training that resumes begins."""
        self._due_after(int(session.run(self._step)))

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Ask for the number of the step."""
        return SessionRunArgs(self._step)

    def after_run(
        self, run_context: SessionRunContext, run_values: SessionRunValues
    ) -> None:
        """Measure, if it is time."""
        step, self._context = int(run_values.results), run_context
        self._follow()
        if step + 1 < self._due and not environment.current().measuring().is_last(step):
            return
        self._due_after(step + 1)
        self._look(step, run_context)

    def _follow(self) -> None:
        """Move the mean by a step, as `kit.Averaged` does."""
        if self._decay is None:
            return
        values = environment.current().measuring().parameters()
        if not self._mean:
            self._mean = values
            return
        for name, mean in self._mean.items():
            mean += (values[name] - mean) * mean.dtype.type(1 - self._decay)

    def _parameters(self) -> dict[str, Any]:
        """Return what is measured, as arrays of the caller's own."""
        if self._mean:
            return {name: mean.copy() for name, mean in self._mean.items()}
        return environment.current().measuring().parameters()

    def _due_after(self, n_done: int) -> None:
        # The next multiple, not `every` steps on: a training that resumes then measures
        # at the same steps.
        self._due = (n_done // self._every + 1) * self._every

    def end(self, session: Any) -> None:
        """Measure after the last step, if that was not done yet."""
        n_done = int(session.run(self._step))
        if n_done > self._n_seen and self._context is not None:
            self._look(n_done - 1, self._context)

    def _look(self, step: int, run_context: SessionRunContext) -> None:
        where, self._n_seen = environment.current().measuring(), step + 1
        more = {"state": where.state()} if self._takes_state else {}
        numbers = _numbers(self._function(self._parameters(), self._data, **more))
        where.measured(step, {PREFIX + k: v for k, v in numbers.items()})
        self.measured(step, numbers, run_context)

    def measured(
        self, step: int, measures: Mapping[str, float], run_context: SessionRunContext
    ) -> None:
        """Do nothing. A derived class sees here what was measured, and may act on it.

        Parameters
        ----------
        step : int
            The step after whose update it was measured.
        measures : mapping of str to float
            The loss, under the name `loss`, and what else the function returned.
        run_context : SessionRunContext
            Its `request_stop()` ends the training after this step.
        """


class EarlyStoppingHook(ValidationHook):
    """Ends a training when a measure on held-out data has stopped improving.

    It measures and records as `ValidationHook` does. With it all members meet after
    each step, so that none makes a step too many; that costs a question and an answer.
    The line that it logs at the end names the best step; `run.frame()` has all values.

    Parameters
    ----------
    function, data, every, decay
        As for `ValidationHook`. With `decay` the best parameters are means.
    patience : int, default 5
        How many measurements in a row may pass without an improvement; at least 1.
    measure : str, default "loss"
        What is looked at: "loss", or a measure that the function returns.
    mode : {"min", "max"}, default "min"
        Whether smaller or greater is better.
    min_delta : float, default 0
        A change below this counts as none.
    save_best : str or PathLike, optional
        A folder of the first worker's host, for the parameters of the two best
        measurements: `kit.load_checkpoint` reads the best of them. It is written
        between two steps, at each improvement.
    restore_best : bool, default False
        End with the parameters of the best measurement: `run.params` are these. A
        checkpoint and a recording keep those of the last step. Costs a copy of the
        parameters at each improvement. Needs steps that all workers make together.

    Raises
    ------
    InvalidArgumentError
        An argument is out of range, or the function does not return `measure`.
    FailedPreconditionError
        A training that begins at step 0 finds checkpoints in `save_best`.

    Examples
    --------
    Stop when the accuracy has not grown for 3 measurements, 20 steps apart::

        hook = kit.hooks.EarlyStoppingHook(
            step, (test_images, test_labels), every=20, patience=3,
            measure="accuracy", mode="max",
        )
        run = kit.train(step, params, data, hooks=[hook])
    """

    def __init__(
        self,
        function: Callable[..., Any],
        data: Any,
        every: int = 50,
        *,
        patience: int = 5,
        measure: str = "loss",
        mode: Literal["min", "max"] = "min",
        min_delta: float = 0.0,
        save_best: str | PathLike[str] | None = None,
        restore_best: bool = False,
        decay: float | None = None,
    ) -> None:
        super().__init__(function, data, every, decay=decay)
        if not (isinstance(patience, int) and patience >= 1):
            raise InvalidArgumentError(
                f"patience is {patience!r}; give 1 measurement or more."
            )
        if mode not in ("min", "max"):
            raise InvalidArgumentError(
                f"mode is {mode!r}; give 'min' where smaller is better, or 'max'."
            )
        if not (isinstance(min_delta, int | float) and min_delta >= 0):
            raise InvalidArgumentError(
                f"min_delta is {min_delta!r}; give a number of at least 0."
            )
        self._patience, self._measure = patience, measure
        self._sign, self._min_delta = (1.0 if mode == "min" else -1.0), min_delta
        self._restores = restore_best
        self._folder: Folder | None = None
        if save_best is not None:
            path = user_path(save_best, "a folder for the best parameters")
            self._folder = Folder(path.absolute(), keep=LEAST_KEPT)
        self._forget()

    def _forget(self) -> None:
        self._best: float = math.nan
        self._best_step, self._n_worse = -1, 0
        self._kept: dict[str, Any] = {}

    def begin(self) -> None:
        """Begin anew: nothing was measured yet."""
        super().begin()
        self._forget()

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Go on from the best that a training before has saved."""
        super().after_create_session(session, coord)
        if self._folder is None or not self._folder.steps():
            return
        if not int(session.run(self._step)):
            raise FailedPreconditionError(
                f"{self._folder.path} holds the best parameters of another training; "
                f"give save_best= another folder, or delete that one."
            )
        manifest = self._folder.load_newest()[0].manifest
        self._best, self._best_step = manifest.extra["best"], manifest.step - 1

    def measured(
        self, step: int, measures: Mapping[str, float], run_context: SessionRunContext
    ) -> None:
        """Ask for the end where nothing got better for too long."""
        if self._measure not in measures:
            raise InvalidArgumentError(
                f"its function does not measure {self._measure!r}, only "
                f"{', '.join(map(repr, measures))}; name one of these as measure=."
            )
        value = measures[self._measure]
        gain = self._sign * (self._best - value)
        if self._best_step < 0 or gain > self._min_delta:
            self._best, self._best_step, self._n_worse = value, step, 0
            if self._restores or self._folder is not None:
                self._keep(self._parameters())
            return
        self._n_worse += 1
        if self._n_worse >= self._patience:
            environment.current().info(
                f"stopped early after step {step}: {self._measure} was best at step "
                f"{self._best_step}, {self._best:g}."
            )
            run_context.request_stop()

    def _keep(self, parameters: dict[str, Any]) -> None:
        if self._restores:
            self._kept = parameters
        if self._folder is None:
            return
        step = self._best_step + 1
        draft = self._folder.draft(step)
        pieces = [Piece.whole(name, value) for name, value in parameters.items()]
        shard = write_shard(draft / f"best{SUFFIX}", pieces)
        specs = {piece.name: (piece.shape_of_whole, piece.dtype) for piece in pieces}
        extra = {"best": self._best, "measure": self._measure}
        manifest = Manifest(step, 0, graph_hash(specs), (shard,), extra)
        self._folder.commit(draft, manifest)

    def end(self, session: Any) -> None:
        """Measure after the last step; go back to the best parameters, if asked to."""
        super().end(session)
        if self._kept:
            environment.current().measuring().restore(self._kept)


def _takes(function: Callable[..., Any], name: str) -> bool:
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):  # a built-in function has no signature
        return False


def _numbers(result: Any) -> dict[str, float]:
    """Return the loss and the measures of what a step function or a loss gave.

    >>> _numbers((0.5, {"w": 1}, {"accuracy": 1}))
    {'loss': 0.5, 'accuracy': 1.0}
    """
    parts = result if isinstance(result, tuple) else (result,)
    more = parts[-1] if len(parts) > 2 and isinstance(parts[-1], Mapping) else {}
    try:
        numbers = {"loss": float(parts[0])}
        for name, value in more.items():
            if not name or not encoded_name(PREFIX + name):
                raise InvalidArgumentError(
                    f"it measured {name!r}; a name has 1 to {_LONGEST} printable "
                    f"letters."
                )
            # One of them may be called as the loss is.
            numbers[f"{name} (2)" if name in numbers else name] = float(value)
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"its function returned {result!r:.200}; let it return the loss, or the "
            f"loss, the gradients and a dict of numbers."
        ) from error
    return numbers
