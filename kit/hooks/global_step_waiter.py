"""Lets a worker begin later than others: when the global step has got so far."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kit.errors import DeadlineExceededError
from kit.hooks import environment
from kit.hooks.hook import SessionRunArgs, SessionRunContext, SessionRunHook
from kit.hooks.step_counting import needed_global_step
from kit.settings import current

_LOOK_S = 0.5
_TELL_S = 10.0


class GlobalStepWaiterHook(SessionRunHook):
    """Waits before the first run until the global step is `wait_until_step`.

    It looks twice a second. The original waits for ever; here `DeadlineExceededError`
    is raised when the step has not moved for `run_deadline_s` of the settings, as then
    nobody trains. Raises `RuntimeError` when it begins and no global step is counted.
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
        self._step: Any = None

    def begin(self) -> None:
        """Find out what counts the steps."""
        self._has_begun = False
        self._step = needed_global_step(environment.current(), self)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Wait, before the first run."""
        if not self._has_begun and self._wanted > 0:
            self._wait(run_context.session)
        self._has_begun = True
        return None

    def _wait(self, session: Any) -> None:
        where, limit = environment.current(), current().run_deadline_s
        told = moved = self._clock()
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
                    f"{last} for {limit:g} s: nobody trains. Start the other workers, "
                    f"or wait for an earlier step."
                )
            if now - told >= _TELL_S:
                told = now
                where.info(f"Waiting for global step {self._wanted}; it is {last}.")
