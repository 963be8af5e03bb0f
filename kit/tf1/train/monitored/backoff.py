"""How long a monitored session waits for others, and how often it checks and reports.

The original checks every 30 seconds, and waits silently. A check
costs less than a millisecond: here the pauses grow from 0.1 s to 1 s, so that a worker
begins as soon as its chief is ready, and a long wait is logged.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from kit.tf1 import logging

_SHORTEST_S, _LONGEST_S = 0.1, 1.0
_FIRST_WORD_S, _NEXT_WORD_S = 1.0, 10.0


class Backoff:
    """Growing pauses, up to a time limit, with a log message now and then.

    `seconds` is the limit; None is none.
    """

    def __init__(
        self,
        seconds: float | None = None,
        longest_pause_s: float = _LONGEST_S,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Start the time; no pause is longer than `longest_pause_s` or one second."""
        self.seconds = math.inf if seconds is None else seconds
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
            most = "" if self.seconds == math.inf else f", at most {self.seconds:.0f} s"
            logging.warning("Waited %.0f s%s: %s", waited_s, most, what)
        self._sleep(min(self._pause_s, self._longest_s, self.left_s))
        self._pause_s = min(2 * self._pause_s, self._longest_s)
