"""A training on its way to its loggers, from where it was begun.

A thread looks at the run's curves, as everybody does who draws them, and hands on what
is new. So what is logged is what `kit.compare(...).frame()` has: the loss of all
workers, all measures, the bytes of all links.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from contextlib import suppress
from threading import Event, Thread
from typing import Final

from kit.errors import CancelledError, KitError
from kit.experiments.comparison import outcome_of
from kit.hooks.loggers import LoggerHook, Setting
from kit.hooks.validation import PREFIX
from kit.trace.trace import Trace
from kit.training.client.run import Run
from kit.training.client.statement import statement
from kit.training.core.job import Job
from kit.training.optimizers.rules import named

_LOOK_S: Final = 0.5
_END_S: Final = 30.0
_TRAFFIC: Final = ("examples", "seconds", "bytes")


def hyperparameters_of(job: Job) -> dict[str, Setting]:
    """Return what `kit.train` was given, as plain values by name."""
    own = named(job.inner or job.optimizer)
    settings: dict[str, Setting] = {
        "optimizer": str(own.pop("name") or own.pop("class")),
        **{name: _plain(value) for name, value in own.items()},
        **{name: getattr(job, name) for name in ("batch", "steps", "seed", "topology")},
        **{name: getattr(job, name) for name in ("link", "compress", "aggregate")},
        "accumulate": job.accumulate,
        "local_steps": job.local_steps,
        "sync": job.synchronous,
        "workers": len(job.workers),
        "servers": len(job.ps),
    }
    return settings | ({"outer": str(job.optimizer)} if job.local_steps else {})


def _plain(value: object) -> Setting:
    return value if isinstance(value, bool | int | float | str) else str(value)


def follow(run: Run, loggers: Sequence[LoggerHook]) -> Log:
    """Open loggers, and hand on to them what becomes known of a run until its end.

    Raises what a logger raises when it is opened; the others are closed then.
    """
    settings = hyperparameters_of(run.job)
    log = Log(run)
    try:
        for logger in loggers:
            logger.open(run.job.run[:8], settings | logger.hyperparameters)
            log.loggers.append(logger)
    except BaseException:
        log.close()
        raise
    log.begin()
    return log


class Log:
    """What hands a run on to its loggers.

    Attributes:
        loggers: those that have not failed.
        errors: what others failed with, as sentences.
    """

    def __init__(self, run: Run) -> None:
        self.loggers, self.errors = list[LoggerHook](), list[str]()
        self._run, self._stop, self._ended = run, Event(), Event()
        before = run.curves_before
        self._first = int(before.step[-1]) + 1 if before and len(before.step) else 0
        self._newest: dict[str, int] = {}  # the newest step that was logged, by measure
        self._state = "failed"

    def begin(self) -> None:
        """Hand on in a thread what becomes known; at once if the training is over."""
        source = self._run.source
        if source.at_end(self._end):
            Thread(target=self._go_on, name="kit-logger", daemon=True).start()
            return
        wait([source.finished])
        self._state = self._run.state
        self._stop.set()
        self._go_on()

    def _end(self, failure: KitError | None) -> None:
        """Return when all is logged, so that it is when `run.wait()` returns."""
        is_closed = isinstance(failure, CancelledError)
        self._state = "closed" if is_closed else "failed" if failure else "done"
        self._stop.set()
        self._ended.wait(_END_S)

    def _go_on(self) -> None:
        while not self._stop.wait(_LOOK_S):
            self._hand_on(is_last=False)
        self._hand_on(is_last=True)
        self.close()
        self._ended.set()

    def close(self) -> None:
        """Close the loggers."""
        said = statement(self._run)
        self._tell("close", lambda logger: logger.close(self._state, said))

    def _hand_on(self, *, is_last: bool) -> None:
        rows = self._rows(is_last=is_last)
        last = max(rows, default=0)

        def hand_on(logger: LoggerHook) -> None:
            for step, measures in sorted(rows.items()):
                is_due = not (step + 1) % logger.every or (is_last and step == last)
                wanted = {
                    name: value
                    for name, value in measures.items()
                    if is_due or name.startswith(PREFIX)
                }
                if wanted and logger.log(step, wanted) and not self._stop.is_set():
                    with suppress(KitError):  # it may be over
                        self._run.stop()

        self._tell("log", hand_on)

    def _rows(self, *, is_last: bool) -> dict[int, dict[str, float]]:
        """Return by step what is new of the steps that all workers have told of."""
        outcome = outcome_of(self._run, "")
        series = outcome.curves()
        end = math.inf if is_last else self._n_complete(outcome.trace)
        rows: dict[int, dict[str, float]] = {}
        for name in ("loss", *series.measures, *_TRAFFIC):
            steps, values = (
                (series.step.astype(float), getattr(series, name))
                if name in _TRAFFIC
                else series.points(name, "step")
            )
            newest = self._newest.get(name, self._first - 1)
            is_new = (steps > newest) & (steps < end)
            for step, value in zip(steps[is_new], values[is_new], strict=True):
                rows.setdefault(int(step), {})[name] = float(value)
                self._newest[name] = int(step)
        return rows

    def _n_complete(self, trace: Trace) -> int:
        """Return before which step nothing is missing: a worker tells in order."""
        rows, lost = trace.steps, self._run.source.lost()
        own = [
            rows["step"][rows["task"] == worker].max(initial=-1) + 1
            for worker in self._run.job.workers
            if worker not in lost
        ]
        return int(min(own, default=0))

    def _tell(self, method: str, call: Callable[[LoggerHook], None]) -> None:
        for logger in list(self.loggers):
            try:
                call(logger)
            except Exception as error:  # whatever it is, it must not end the training
                self.loggers.remove(logger)
                self.errors.append(
                    f"{type(logger).__name__}.{method} raised "
                    f"{type(error).__name__}: {error}. Nothing more was logged by it; "
                    f"the training went on, and run.frame() has all."
                )
