"""Hooks that hand a training on to the tools in which its owner looks at all of them.

They are called where the training was begun, not in a task: there the loss of all
workers, all measures and all traffic are known, and there the tools are logged in.
`kit.experiments.logged` calls them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from importlib.util import find_spec
from os import PathLike
from typing import Any, Final, TypeAlias

from kit.errors import InvalidArgumentError, NotFoundError, UnimplementedError
from kit.hooks.hook import SessionRunHook
from kit.regular_file import user_path

Setting: TypeAlias = bool | int | float | str
_FLUSH_S: Final = 2.0


class LoggerHook(SessionRunHook):
    """Base of hooks that hand a training on to a tool, from the process that began it.

    Its methods are called by one thread there, so a slow tool does not hold up the
    training. Where one raises, logging ends, the training goes on, and `run.wait()`
    warns of it.

    Parameters
    ----------
    hyperparameters : mapping of str to bool, int, float or str, optional
        What to log of the model, beside what `kit.train` was given.
    every : int, default 1
        Log each so many steps. What is measured more rarely, as by a `ValidationHook`,
        is always logged.

    Raises
    ------
    InvalidArgumentError
        A hyperparameter is of another type, or `every` is below 1.

    Examples
    --------
    A logger of your own needs three methods::

        class Printing(kit.hooks.LoggerHook):
            def open(self, name, hyperparameters):
                print(name, hyperparameters["optimizer"])

            def log(self, step, measures):
                print(step, measures.get("loss"))

            def close(self, state, statement):
                print(state)
    """

    hyperparameters: dict[str, Setting]
    every: int

    def __init__(
        self, *, hyperparameters: Mapping[str, Setting] | None = None, every: int = 1
    ) -> None:
        if not (isinstance(every, int) and every >= 1):
            raise InvalidArgumentError(f"every is {every!r}; give 1 step or more.")
        self.hyperparameters, self.every = dict(hyperparameters or {}), every
        for name, value in self.hyperparameters.items():
            is_plain = isinstance(value, bool | int | float | str)
            if not (isinstance(name, str) and is_plain):
                raise InvalidArgumentError(
                    f"hyperparameters has {name!r}: {value!r}; give numbers, texts, "
                    f"True or False, by name."
                )

    def begin(self) -> None:
        """Refuse a session: there is nothing to look at but in `kit.train`."""
        raise UnimplementedError(
            f"{type(self).__name__} logs a training of kit.train; in a session write "
            f"summaries with tf.summary.FileWriter."
        )

    def open(self, name: str, hyperparameters: Mapping[str, Setting]) -> None:
        """Begin to log a training.

        Parameters
        ----------
        name : str
            That of the training, 8 letters.
        hyperparameters : mapping of str to bool, int, float or str
            What `kit.train` was given, and this object.
        """

    def log(self, step: int, measures: Mapping[str, float]) -> bool | None:
        """Log what is known of a step.

        Parameters
        ----------
        step : int
            The step. One may come again, with what was measured after it.
        measures : mapping of str to float
            The loss, what else was measured, and `examples`, `seconds` and `bytes`, as
            in the columns of `kit.compare(...).frame()`.

        Returns
        -------
        bool or None
            True ends the training: some steps later, as it goes on meanwhile.
        """
        return None

    def close(self, state: str, statement: str) -> None:
        """End logging.

        Parameters
        ----------
        state : {"done", "failed"}
            How the training ended.
        statement : str
            That of `run.statement()`.
        """


class TensorBoardHook(LoggerHook):
    """Writes an event file, which TensorBoard shows: curves, hyperparameters, traffic.

    Needs TensorBoard's own package and no TensorFlow: `pip install
    'psring[tensorboard]'`.

    Parameters
    ----------
    folder : str or PathLike
        Where to write, on this machine. One folder for each training, in a folder for
        all of them: `tensorboard --logdir logs` shows these beside each other.
    hyperparameters, every
        As for `LoggerHook`.

    Raises
    ------
    NotFoundError
        TensorBoard is not installed.

    Examples
    --------
    ::

        hook = kit.hooks.TensorBoardHook("logs/wide", hyperparameters={"width": 256})
        run = kit.train(step, params, data, hooks=[hook])
    """

    def __init__(
        self,
        folder: str | PathLike[str],
        *,
        hyperparameters: Mapping[str, Setting] | None = None,
        every: int = 1,
    ) -> None:
        super().__init__(hyperparameters=hyperparameters, every=every)
        self._folder = user_path(folder, "a folder for event files").absolute()
        check_installed("tensorboard")
        self._writer: Any = None

    def open(self, name: str, hyperparameters: Mapping[str, Setting]) -> None:
        """Begin an event file, with the hyperparameters."""
        from tensorboard.plugins.hparams.summary_v2 import hparams_pb
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._writer = EventFileWriter(str(self._folder), flush_secs=_FLUSH_S)
        self._add(0, hparams_pb(dict(hyperparameters), trial_id=name))

    def log(self, step: int, measures: Mapping[str, float]) -> None:
        """Write a scalar for each."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=k, simple_value=v) for k, v in measures.items()]
        self._add(step, Summary(value=values))

    def close(self, state: str, statement: str) -> None:
        """Write the statement, and close the file."""
        from tensorboard.plugins.text.summary_v2 import text_pb

        self._add(0, text_pb("statement", statement))
        self._writer.close()

    def _add(self, step: int, summary: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        event = Event(wall_time=time.time(), step=step, summary=summary)
        self._writer.add_event(event)


class WandbHook(LoggerHook):
    """Logs a training to Weights & Biases: `pip install 'psring[wandb]'`.

    Parameters
    ----------
    project : str
        The project of the run.
    hyperparameters, every
        As for `LoggerHook`.
    **options
        Given to `wandb.init`: `name`, `group`, `tags`, `dir`, or `mode="offline"`,
        which writes files that `wandb sync` sends later.

    Raises
    ------
    NotFoundError
        wandb is not installed.

    Examples
    --------
    ::

        hook = kit.hooks.WandbHook("digits", mode="offline", group="wide")
        run = kit.train(step, params, data, hooks=[hook])
    """

    def __init__(
        self,
        project: str,
        *,
        hyperparameters: Mapping[str, Setting] | None = None,
        every: int = 1,
        **options: Any,
    ) -> None:
        super().__init__(hyperparameters=hyperparameters, every=every)
        self._options = {"project": project, **options}
        check_installed("wandb")
        self._run: Any = None

    def open(self, name: str, hyperparameters: Mapping[str, Setting]) -> None:
        """Begin a run of wandb, whose config is the hyperparameters."""
        import wandb

        options = {"name": name, **self._options}
        self._run = wandb.init(config=dict(hyperparameters), **options)
        # A step may come again with what was measured after it, which wandb's own
        # count of steps would drop.
        self._run.define_metric("*", step_metric="step")

    def log(self, step: int, measures: Mapping[str, float]) -> None:
        """Log them as a row, with the step."""
        self._run.log({"step": step, **measures})

    def close(self, state: str, statement: str) -> None:
        """Finish the run."""
        self._run.summary["statement"] = statement
        self._run.finish(exit_code=0 if state == "done" else 1)


class OptunaHook(LoggerHook):
    """Reports a measure to a trial of optuna, and ends a training that it prunes.

    Parameters
    ----------
    trial : optuna.Trial
        The trial, as an objective gets it.
    measure : str, default "validation_loss"
        What is reported, at the step at which it was measured.

    Attributes
    ----------
    is_pruned : bool
        Whether the trial has asked for the end.

    Examples
    --------
    An objective (`pip install optuna`)::

        def objective(trial):
            rate = trial.suggest_float("rate", 1e-3, 1.0, log=True)
            hook = kit.hooks.OptunaHook(trial)
            run = kit.train(
                step, params, data, optimizer=kit.Adam(rate),
                hooks=[kit.hooks.ValidationHook(step, held_out, every=20), hook],
            ).wait()
            if hook.is_pruned:
                raise optuna.TrialPruned
            return run.frame()["validation_loss"].dropna().iloc[-1]
    """

    is_pruned: bool

    def __init__(self, trial: Any, measure: str = "validation_loss") -> None:
        super().__init__()
        self._trial, self._measure, self.is_pruned = trial, measure, False

    def log(self, step: int, measures: Mapping[str, float]) -> bool:
        """Report the measure, and ask whether to go on."""
        if self._measure in measures and not self.is_pruned:
            self._trial.report(measures[self._measure], step)
            self.is_pruned = bool(self._trial.should_prune())
        return self.is_pruned


def check_installed(package: str) -> None:
    """Raise `NotFoundError` with the line that installs a package, if it is not."""
    if find_spec(package) is None:
        raise NotFoundError(
            f"{package} is not installed. Install it with: "
            f"pip install 'psring[{package}]'"
        )
