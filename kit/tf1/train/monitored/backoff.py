"""How long a monitored session waits for others, and how often it checks and reports.

The original checks every 30 seconds, and waits silently for hours or for ever. A check
costs less than a millisecond: here the pauses grow from 0.1 s to 1 s, so that a worker
begins as soon as its chief is ready, and a long wait is logged.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from kit.settings import current
from kit.tf1 import logging

# Restarting a lost task, by hand or by a scheduler, takes longer than a run may wait.
_RUNS = 4
_SHORTEST_S, _LONGEST_S = 0.1, 1.0
_FIRST_WORD_S, _NEXT_WORD_S = 1.0, 10.0


def limit_s(max_wait_secs: float | None = None) -> float:
    """Return the seconds to wait: those given, else 4 times the deadline of a run."""
    if max_wait_secs is None:
        return _RUNS * current().run_deadline_s
    return max_wait_secs


class Backoff:
    """Growing pauses, up to a time limit, with a log message now and then."""

    def __init__(
        self,
        seconds: float,
        longest_pause_s: float = _LONGEST_S,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Start the time; no pause is longer than `longest_pause_s` or one second."""
        self.seconds = seconds
        self._longest_s = min(_LONGEST_S, longest_pause_s)
        self._clock, self._sleep = clock, sleep
        self._begin = clock()
        self._pause_s = _SHORTEST_S
        self._word_s = _FIRST_WORD_S

    @property
    def left_s(self) -> float:
        """Seconds until the limit; not below 0."""
        return max(0.0, self._begin + self.seconds - self._clock())

    def pause(self, what: str) -> None:
        """Sleep for the next pause; sometimes log `what` is being waited for."""
        waited_s = self._clock() - self._begin
        if waited_s >= self._word_s:
            self._word_s = waited_s + _NEXT_WORD_S
            logging.warning(
                "Waited %.0f s, at most %.0f s: %s", waited_s, self.seconds, what
            )
        self._sleep(min(self._pause_s, self._longest_s, self.left_s))
        self._pause_s = min(2 * self._pause_s, self._longest_s)
