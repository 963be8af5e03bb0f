"""When something is due that happens every few steps, or every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable


class SecondOrStepTimer:
    """Due at the first step it is asked about, then every few seconds or steps.

    It is never due twice for the same step.

    Parameters
    ----------
    every_secs : float, optional
        After how many seconds.
    every_steps : int, optional
        After how many steps. Give one of the two.
    clock : callable
        Gives seconds.

    Raises
    ------
    ValueError
        Both or neither are given.

    Examples
    --------
    >>> timer = SecondOrStepTimer(every_steps=3)
    >>> due = []
    >>> for step in range(8):
    ...     if timer.should_trigger_for_step(step):
    ...         due.append(step)
    ...         _ = timer.update_last_triggered_step(step)
    >>> due
    [0, 3, 6]
    """

    def __init__(
        self,
        every_secs: float | None = None,
        every_steps: int | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock` gives seconds."""
        if every_secs is None and every_steps is None:
            raise ValueError("Either every_secs or every_steps should be provided.")
        if every_secs is not None and every_steps is not None:
            raise ValueError(
                f"Can not provide both every_secs and every_steps: {every_secs} s and "
                f"{every_steps} steps; leave one of them out."
            )
        self._every_secs, self._every_steps = every_secs, every_steps
        self._clock = clock
        self.reset()

    def reset(self) -> None:
        """Forget the last time, so that the next step is the first again."""
        self._last_step: int | None = None
        self._last_time: float | None = None

    def should_trigger_for_step(self, step: int) -> bool:
        """Whether it is due at `step`."""
        if self._last_step is None or self._last_time is None:
            return True
        if self._last_step == step:
            return False
        if self._every_secs is not None:
            return self._clock() >= self._last_time + self._every_secs
        assert self._every_steps is not None
        return step >= self._last_step + self._every_steps

    def update_last_triggered_step(
        self, step: int
    ) -> tuple[float, int] | tuple[None, None]:
        """Note that it happened at `step`.

        Returns
        -------
        tuple of float and int
            The seconds and the steps since the time before; (None, None) at first.
        """
        now, then, before = self._clock(), self._last_time, self._last_step
        self._last_time, self._last_step = now, step
        if then is None or before is None:
            return None, None
        return now - then, step - before

    def last_triggered_step(self) -> int | None:
        """Return the step at which it happened last, None if it never did."""
        return self._last_step
