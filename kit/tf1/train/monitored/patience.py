"""How long a monitored session waits for others, and how often it looks and reports.

The original looks every 30 seconds, and waits for hours or for ever without a word. A
look costs less than a millisecond: we look after 0.1 s, then ever less often up to
once a second, so that a worker begins as soon as its chief is ready.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from kit.settings import current
from kit.tf1 import logging

# What a lost task needs to be started again, by hand or by a scheduler, is more than
# what one run may wait for.
_RUNS = 4
_SHORTEST_S, _LONGEST_S = 0.1, 1.0
_FIRST_WORD_S, _NEXT_WORD_S = 1.0, 10.0

# The original's own limits, when the caller has not said another.
UNSAID = frozenset({7200, 1800, float("inf")})


def limit_s(max_wait_secs: float | None = None) -> float:
    """Return how long to wait: what the caller has said, else 4 times a run's deadline.

    The original's defaults, 1800 and 7200 seconds, count as nothing said.
    """
    if max_wait_secs is None or max_wait_secs in UNSAID:
        return _RUNS * current().run_deadline_s
    return max_wait_secs


class Patience:
    """Some time to wait for something that others do."""

    def __init__(
        self,
        seconds: float,
        longest_pause_s: float = _LONGEST_S,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`clock` gives seconds, `sleep` waits for some."""
        self.seconds = seconds
        self._longest_s = min(_LONGEST_S, longest_pause_s)
        self._clock, self._sleep = clock, sleep
        self._begin = clock()
        self._pause_s = _SHORTEST_S
        self._word_s = _FIRST_WORD_S

    @property
    def left_s(self) -> float:
        """Seconds until it ends; not below 0."""
        return max(0.0, self._begin + self.seconds - self._clock())

    def pause(self, what: str) -> None:
        """Wait a little, and tell now and then for `what`."""
        waited_s = self._clock() - self._begin
        if waited_s >= self._word_s:
            self._word_s = waited_s + _NEXT_WORD_S
            logging.warning(
                "Waited %.0f s, at most %.0f s: %s", waited_s, self.seconds, what
            )
        self._sleep(min(self._pause_s, self._longest_s, self.left_s))
        self._pause_s = min(2 * self._pause_s, self._longest_s)
