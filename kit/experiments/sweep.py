"""`kit.sweep`: train with all combinations of some values, one after the other."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import math
import os
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kit.errors import InvalidArgumentError, KitError
from kit.experiments.comparison import outcome_of
from kit.experiments.folder import SweepFolder
from kit.experiments.results import REPEAT, Sweep, Trial
from kit.experiments.summary import RunSummary, row
from kit.progress import Output, PlainLines, output_for
from kit.trace.trace import Trace
from kit.training.arguments import whole
from kit.training.client.run import Run

if TYPE_CHECKING:
    from kit.cluster.polling import Polling

_LOOK_S = 0.05
_TELL_S = 0.5
_MOST = 10_000
_USE_ASYNC = "train is an async function: use `await kit.sweep_async(...)`."
_PLAIN = (str, int, float, bool, type(None))


def sweep(
    train: Callable[..., Any],
    *,
    repeat: int = 1,
    folder: str | os.PathLike[str] | None = None,
    on_error: str = "record",
    **values: Any,
) -> Sweep:
    """Call a function of yours with all combinations of values; keep the results.

    Parameters
    ----------
    train : callable
        Takes the parameters by name and returns a `Run`. It should not wait for the
        run: then the stop button can stop that between two steps.
    repeat : int, default 1
        How often to run each combination. If the function has a parameter called
        `repeat`, it gets the number of the repeat, from 0, to use as a seed.
    folder : str or PathLike, optional
        Where to keep results and curves, in small files. A later call does not repeat
        what is done there, and says so; with more values, more repeats or other
        parameters it adds to the folder. `kit.load_sweep` reads all of it.
    on_error : {"record", "raise"}
        What an error of one combination does: it is noted in its row, or ends the
        sweep.
    **values : list
        The values to try: text, finite numbers, True, False, None. The last parameter
        varies fastest.

    Returns
    -------
    Sweep
        `frame()` has a row for each combination, `best()` the parameters of the best
        one, `compare()` the curves.

    Raises
    ------
    InvalidArgumentError
        The function does not take these parameters, or a value cannot be written to a
        file. Nothing has been run.
    DataLossError
        A file of the folder is damaged.

    Notes
    -----
    Blocks, while the table in the cell fills; `await kit.sweep_async(...)` does not
    block. Ctrl-C or the stop button stops the current run between two steps and returns
    what there is; a second one ends the sweep at once. The next call runs again what
    failed or was stopped.

    Examples
    --------
    >>> import kit, numpy as np
    >>> from kit.testing.cluster import local_cluster
    >>> def step(params, batch):
    ...     error = batch[0] @ params["w"] - batch[1]
    ...     return (error**2).mean(), {"w": batch[0].T @ error / len(error)}
    >>> data, start = (np.eye(4), np.arange(4.0)), {"w": np.zeros(4)}
    >>> with local_cluster(ps=1, worker=2) as cluster:  # in this process
    ...     def train(topology, batch):
    ...         asked = {"steps": 5, "batch": batch, "cluster": cluster}
    ...         return kit.train(step, start, data, topology=topology, **asked)
    ...     sweep = kit.sweep(train, topology=["ps", "ring"], batch=[2, 4])
    1 of 4: topology=ps, batch=2, done...
    2 of 4: topology=ps, batch=4, done...
    3 of 4: topology=ring, batch=2, done...
    4 of 4: topology=ring, batch=4, done...
    >>> sweep.frame()["bytes_per_step"].tolist()
    [128.0, 128.0, 64.0, 64.0]
    """
    from kit.cluster.polling import drive  # a task's process does without its package

    return drive(_polling(train, repeat, folder, on_error, values, is_async=False))


async def sweep_async(
    train: Callable[..., Any],
    *,
    repeat: int = 1,
    folder: str | os.PathLike[str] | None = None,
    on_error: str = "record",
    **values: Any,
) -> Sweep:
    """Sweep as `kit.sweep` does, without blocking the running event loop.

    Parameters
    ----------
    train : callable
        As for `kit.sweep`; here it may be an `async def` function.
    repeat, folder, on_error, **values
        As for `kit.sweep`.

    Returns
    -------
    Sweep
        As that of `kit.sweep`.

    Raises
    ------
    InvalidArgumentError, DataLossError
        As by `kit.sweep`.
    """
    from kit.cluster.polling import drive_async

    polling = _polling(train, repeat, folder, on_error, values, is_async=True)
    return await drive_async(polling)


def _polling(
    train: Callable[..., Any],
    repeat: int,
    folder: str | os.PathLike[str] | None,
    on_error: str,
    values: Mapping[str, Any],
    *,
    is_async: bool,
) -> Polling[Sweep]:
    """Check everything, then run what is not done.

    Yields how many seconds to wait before it looks again; see `kit.cluster.polling`.
    """
    if on_error not in ("record", "raise"):
        raise InvalidArgumentError(
            f"on_error is {on_error!r}; give 'record' or 'raise'."
        )
    grid = {name: _values(name, listed) for name, listed in values.items()}
    trials = _trials(grid, whole(REPEAT, repeat))
    call = _caller(train, trials[0], is_async)
    kept = None if folder is None else SweepFolder(folder)
    result = Sweep(trials, "" if kept is None else str(kept.path))
    if kept is not None:
        for trial in trials:
            kept.fill(trial)
    teller = _Teller(result)
    for number, trial in enumerate(trials):
        if trial.state == "done":
            continue
        yield from _run(trial, call, teller, is_async=is_async)
        if kept is not None:
            kept.keep(trial)
        teller.ended(number, trial)
        if trial.state == "stopped":
            break
        if trial.state == "failed" and on_error == "raise":
            raise _error(trial)
    teller.finish()
    return result


def _run(
    trial: Trial, call: Callable[[Trial], Any], teller: _Teller, *, is_async: bool
) -> Generator[float, None, None]:
    """Run one combination, and note in it how it went."""
    trial.state, trial.run = "running", None
    try:
        result = yield from _result(call(trial), is_async)
        if not isinstance(result, Run):
            raise InvalidArgumentError(
                f"the function returned {type(result).__name__} for {trial.name}; let "
                f"it return the run, as kit.train gives it."
            )
        trial.run = result
        while not result.done:
            teller.look(trial)
            yield _LOOK_S
    except KeyboardInterrupt:  # thrown in at a yield, or while the function ran
        trial.state = "stopped"
        if trial.run is not None:
            yield from _stopped(trial.run)
    except Exception as error:
        trial.state, trial.error = "failed", _text_of(error)
        trial.cause = error
    if trial.run is not None:
        _note(trial, trial.run)


def _result(result: Any, is_async: bool) -> Generator[float, None, Any]:
    """Return what a call returned, or for a coroutine what it returns in the end."""
    if not inspect.iscoroutine(result):
        return result
    if not is_async:
        result.close()  # otherwise Python warns that it was never awaited
        raise InvalidArgumentError(_USE_ASYNC)
    task = asyncio.ensure_future(result)
    try:
        while not task.done():
            yield _LOOK_S
    except KeyboardInterrupt:
        task.cancel()
        # What it started it must end, which may take a while.
        while not task.done():
            yield _LOOK_S
        raise
    return task.result()


def _stopped(run: Run) -> Generator[float, None, None]:
    """Let a run end between two steps, and wait for that."""
    run.stop()
    give_up = time.monotonic() + run.job.settings.step_deadline_s
    while not run.done and time.monotonic() < give_up:
        yield _LOOK_S


def _note(trial: Trial, run: Run) -> None:
    """Take over the row of a run, and how it ended."""
    outcome = outcome_of(run, "")
    outcome_row, trial.curves = row(outcome), outcome.curves()
    error = str(outcome_row.pop("error"))
    del outcome_row["run"], outcome_row["state"]
    trial.result = outcome_row
    if trial.state == "running":
        trial.state = "failed" if error else "done"
    if error and not trial.error:
        trial.error, trial.cause = error, run.error


def _text_of(error: BaseException) -> str:
    text = error.message if isinstance(error, KitError) else str(error)
    return f"{type(error).__name__}: {text}"


def _error(trial: Trial) -> BaseException:
    """Return what a combination failed with, with a note of which one it was."""
    error = trial.cause or RuntimeError(trial.error)
    error.add_note(f"This was the combination {trial.name}.")
    return error


# --------------------------------------------------------------------------------------
# What is asked for.


def _values(name: str, values: Any) -> list[Any]:
    """Return the values of a parameter; a single value counts as a list of one."""
    # The columns of a run's row are taken, except those that say what was asked for.
    asked_for = {"topology", "link", "tasks", "steps"}
    if name in row(RunSummary("", Trace(()), "", 0, "")).keys() - asked_for:
        raise InvalidArgumentError(
            f"a parameter cannot be called {name!r}: the table has a column of that "
            f"name."
        )
    try:
        listed = [values] if isinstance(values, _PLAIN) else list(values)
    except TypeError:
        raise InvalidArgumentError(
            f"{name} is {values!r}; give a list of values to try."
        ) from None
    if not listed:
        raise InvalidArgumentError(f"{name} is empty; give at least one value to try.")
    for value in listed:
        is_plain = isinstance(value, _PLAIN) and not (
            isinstance(value, float) and not math.isfinite(value)
        )
        if not is_plain:
            raise InvalidArgumentError(
                f"{name} has the value {value!r}; values are texts, finite numbers, "
                f"True, False or None, so that they can be written down. Give a name "
                f"and let the function make of it what it needs."
            )
    if len({repr(value) for value in listed}) < len(listed):
        raise InvalidArgumentError(
            f"{name} has a value twice: {listed}; use repeat= to run all again."
        )
    return listed


def _trials(grid: Mapping[str, list[Any]], repeat: int) -> list[Trial]:
    if repeat < 1:
        raise InvalidArgumentError(f"repeat is {repeat}; give at least 1.")
    count = math.prod(map(len, grid.values())) * repeat
    if count > _MOST:
        raise InvalidArgumentError(
            f"these are {count:,} combinations; a sweep has at most {_MOST:,}."
        )
    return [
        Trial(dict(zip(grid, some, strict=True)) | ({REPEAT: n} if repeat > 1 else {}))
        for some in itertools.product(*grid.values())
        for n in range(repeat)
    ]


def _caller(
    train: Callable[..., Any], first: Trial, is_async: bool
) -> Callable[[Trial], Any]:
    """Return a call of the function for a trial, if it takes the parameters."""
    if not callable(train):
        raise InvalidArgumentError(
            f"train is {type(train).__name__}; give a function that takes the "
            f"parameters and returns a run."
        )
    if inspect.iscoroutinefunction(train) and not is_async:
        raise InvalidArgumentError(_USE_ASYNC)
    signature = inspect.signature(train)
    takes_repeat = REPEAT in signature.parameters

    def arguments(trial: Trial) -> dict[str, Any]:
        result = {k: v for k, v in trial.parameters.items() if k != REPEAT}
        if takes_repeat:
            result[REPEAT] = trial.parameters.get(REPEAT, 0)
        return result

    try:
        signature.bind(**arguments(first))
    except TypeError as error:
        name = getattr(train, "__name__", "train")
        raise InvalidArgumentError(
            f"{name}{signature} cannot be called with {', '.join(arguments(first))}: "
            f"{error}."
        ) from error
    return lambda trial: train(**arguments(trial))


# --------------------------------------------------------------------------------------
# What is shown while it runs.


class _Teller:
    """Shows how far a sweep is: in a cell a table that fills, elsewhere lines."""

    def __init__(self, sweep: Sweep, output: Output | None = None) -> None:
        self._found = sweep
        self._output = output or output_for(sys.stdout)
        self._is_plain = isinstance(self._output, PlainLines)
        self._due = 0.0
        skipped = sum(trial.state == "done" for trial in sweep.trials)
        if skipped:
            n = len(sweep.trials)
            text = f"{skipped} of {n} combinations are done in {sweep.folder}."
            self._output.show(text, sweep.html(text))

    def look(self, trial: Trial) -> None:
        """Show how far a run is, now and then."""
        now = time.monotonic()
        if self._is_plain or now < self._due:
            return
        self._due = now + _TELL_S
        run = trial.run
        at = f", step {run.step:,} of {run.job.steps:,}" if run is not None else ""
        self._show(self._found.trials.index(trial), trial, at)

    def ended(self, number: int, trial: Trial) -> None:
        """Show how a run ended."""
        ms, loss = trial.result.get("ms_per_step"), trial.result.get("loss")
        said = f": {ms:.3g} ms a step, loss {loss:.4g}" if trial.result else ""
        self._show(number, trial, f"{said}{f' ({trial.error})' if trial.error else ''}")

    def _show(self, number: int, trial: Trial, more: str) -> None:
        position = f"{number + 1} of {len(self._found.trials)}"
        text = f"{position}: {trial.name}, {trial.state}{more}"
        self._output.show(text, self._found.html(text))

    def finish(self) -> None:
        """Show the last state for good."""
        with suppress(OSError):
            self._output.finish()
