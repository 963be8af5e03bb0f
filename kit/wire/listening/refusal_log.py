"""A line in the log for each refused connection, but not for each of thousands.

A stranger decides how often he comes; he does not decide how much is written about it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

_log = logging.getLogger(__name__)

MOST_LINES: Final = 10
PERIOD_S: Final = 10.0


class RefusalLog:
    """Counts refusals; logs at most `MOST_LINES` lines in `PERIOD_S`, then a sum."""

    def __init__(self, task: str, clock: Callable[[], float]) -> None:
        self.count = 0
        self._task, self._clock = task, clock
        self._guard = threading.Lock()
        self._period_ends, self._in_period = 0.0, 0

    def note(self, reason: object, origin: str = "") -> None:
        """Count a refusal, and write it down unless there were too many of late."""
        with self._guard:
            if self._clock() >= self._period_ends:
                self._sum_up()
                self._period_ends = self._clock() + PERIOD_S
            self._in_period += 1
            if self._in_period <= MOST_LINES:
                whose = f" of {origin}" if origin else ""
                _log.warning("%s refused a connection%s: %s", self._task, whose, reason)
            self.count += 1

    def close(self) -> None:
        """Write what was not written yet."""
        with self._guard:
            self._sum_up()

    def _sum_up(self) -> None:
        if self._in_period > MOST_LINES:
            more = self._in_period - MOST_LINES
            _log.warning("%s refused %d more connections", self._task, more)
        self._in_period = 0
