"""Hooks on the global step: end at one, wait for one, report the speed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, SupportsIndex

from kit.errors import DeadlineExceededError
from kit.graph.ops.state.summaries import scalar_summary
from kit.hooks import environment
from kit.hooks.hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from kit.hooks.timer import SecondOrStepTimer
from kit.settings import current


class StepHook(SessionRunHook):
    """Base of hooks that read the global step along with each run.

    Raises `RuntimeError` when it begins and no global step is counted.
    """

    _step: Any = None

    def begin(self) -> None:
        """Find out what counts the steps."""
        self._step = environment.current().global_step()
        if self._step is None:
            raise RuntimeError(
                f"Global step should be created to use {type(self).__name__}: call "
                f"tf.train.get_or_create_global_step() and give it to minimize()."
            )

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Let the step be read."""
        return SessionRunArgs(self._step)


class StopAtStepHook(StepHook):
    """Asks for the end at a global step.

    One run is made in any case. The step is read along with each run, and once more
    where it may be the last.

    Parameters
    ----------
    num_steps : int, optional
        How many steps after those that were done when the session began; a recovery
        does not begin to count anew.
    last_step : int, optional
        The global step at which to end. Give one of the two.

    Raises
    ------
    ValueError
        Both or neither are given.
    RuntimeError
        When it begins, no global step is counted.
    """

    def __init__(
        self, num_steps: float | None = None, last_step: float | None = None
    ) -> None:
        if (num_steps is None) == (last_step is None):
            raise ValueError(
                f"Exactly one of num_steps and last_step must be given, not "
                f"num_steps={num_steps} and last_step={last_step}."
            )
        for name, value in (("num_steps", num_steps), ("last_step", last_step)):
            # Programs of Python 2 divide whole numbers, which gives a float today.
            if value is not None and not isinstance(value, SupportsIndex | float):
                raise ValueError(f"{name} is {value!r}; give a number.")
        self._num_steps, self._last_step = num_steps, last_step

    def after_create_session(self, session: Any, coord: Any) -> None:
        """See from where to count."""
        if self._last_step is None:
            assert self._num_steps is not None
            self._last_step = int(session.run(self._step)) + self._num_steps

    def after_run(
        self, run_context: SessionRunContext, run_values: SessionRunValues
    ) -> None:
        """Ask for the end if it was the last step."""
        assert self._last_step is not None
        # The step that came along was read before or after the run's own update, in no
        # fixed order; where that matters it is read once more.
        may_be_last = run_values.results + 1 >= self._last_step
        if may_be_last and run_context.session.run(self._step) >= self._last_step:
            run_context.request_stop()


_LOOK_S = 0.5  # between two reads of the step
_TELL_S = 10.0  # between two reports that it still waits


class GlobalStepWaiterHook(StepHook):
    """Waits before the first run for a global step, which it reads twice a second.

    Parameters
    ----------
    wait_until_step : int
        The step; 0 does not wait.
    clock, sleep : callable
        Give seconds, and wait for some; replaced in tests.

    Raises
    ------
    DeadlineExceededError
        The step has not moved for `run_deadline_s` of the settings, so nobody trains.
        TensorFlow waits without end.
    RuntimeError
        When it begins, no global step is counted.
    """

    def __init__(
        self,
        wait_until_step: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`clock` gives seconds, `sleep` waits for some."""
        self._wanted = wait_until_step
        self._clock, self._sleep = clock, sleep
        self._has_begun = False

    def begin(self) -> None:
        """Find out what counts the steps."""
        self._has_begun = False
        super().begin()

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Wait, before the first run."""
        if not self._has_begun and self._wanted > 0:
            self._wait(run_context.session)
        self._has_begun = True
        return None

    def _wait(self, session: Any) -> None:
        where, limit = environment.current(), current().run_deadline_s
        last_word = moved = self._clock()
        last = int(session.run(self._step))
        where.info(f"Waiting for global step {self._wanted}; it is {last}.")
        while last < self._wanted:
            self._sleep(min(_LOOK_S, limit))
            step, now = int(session.run(self._step)), self._clock()
            if step != last:
                last, moved = step, now
            elif now - moved >= limit:
                raise DeadlineExceededError(
                    f"waited for global step {self._wanted}, but it has stood at "
                    f"{last} for {limit:g} s: no worker trains. Start the others, "
                    f"or wait for an earlier step."
                )
            if now - last_word >= _TELL_S:
                last_word = now
                where.info(f"Waiting for global step {self._wanted}; it is {last}.")


_MOST_WARNINGS = 5


class StepCounterHook(StepHook):
    """Logs `global_step/sec` every few steps or seconds, from the second time on.

    It warns, at most 5 times, if the global step does not move.

    Parameters
    ----------
    every_n_steps : int, default 100
        After how many steps. Give None for seconds.
    every_n_secs : float, optional
        After how many seconds.
    output_dir : str, optional
        In a session of `kit.tf1`, the folder of an event file to which it is written.
    summary_writer : object, optional
        Gets it by its method `add_summary`.

    Raises
    ------
    ValueError
        Both or neither of the times are given.
    RuntimeError
        When it begins, no global step is counted.
    """

    def __init__(
        self,
        every_n_steps: int | None = 100,
        every_n_secs: float | None = None,
        output_dir: str | None = None,
        summary_writer: Any = None,
    ) -> None:
        """`summary_writer`, if any, is used in place of one for `output_dir`."""
        if (every_n_steps is None) == (every_n_secs is None):
            raise ValueError(
                f"exactly one of every_n_steps and every_n_secs should be provided, "
                f"not {every_n_steps} and {every_n_secs}."
            )
        self._timer = SecondOrStepTimer(
            every_secs=every_n_secs, every_steps=every_n_steps
        )
        self._output_dir, self._summary_writer = output_dir, summary_writer
        self._before: int | None = None
        self._n_warnings = 0
        self._tag = ""

    def begin(self) -> None:
        """Find out what counts the steps, and what writes."""
        super().begin()
        # In a graph what reads the step is an operation below the step's own name.
        read = getattr(getattr(self._step, "op", None), "name", "global_step/read")
        self._tag = f"{read.rpartition('/')[0]}/sec"
        if self._summary_writer is None and self._output_dir:
            where = environment.current()
            self._summary_writer = where.summary_writer(self._output_dir)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Count anew: after a recovery the steps may be those of long ago."""
        self._timer.reset()
        self._before = None

    def after_run(
        self, run_context: SessionRunContext, run_values: SessionRunValues
    ) -> None:
        """Count, and report the rate if it is time."""
        seen = int(run_values.results)
        # `seen` may be of before the update: see `StopAtStepHook`.
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
        """Report the rate; a derived class may do something else with it."""
        rate = elapsed_steps / elapsed_time if elapsed_time > 0 else float("inf")
        environment.current().progress(f"{self._tag}: {rate:g} (step {global_step})")
        if self._summary_writer is not None:
            made = scalar_summary(self._tag, rate)
            self._summary_writer.add_summary(made, global_step)
