"""How far another machine's clock is ahead of this one's.

Times of a trace are those of each task's monotonic clock, which counts from the boot of
its machine. A process that gathers rows of several tasks converts them to its own
clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kit.trace.log import Rows

_DRIFT: Final = 1e-4  # of one machine's clock against another's, with a margin
_TIMES: Final = ("start", "end", "sent", "arrived")


@dataclass
class ClockOffset:
    """An estimate from questions and answers; all times are in nanoseconds.

    An answer was given at some time between the question and its arrival, so an
    estimate is wrong by at most half of that time (Cristian's algorithm). The best one
    is kept until the clocks may have drifted apart by more than a new one is uncertain.
    Tasks of one machine have the same clock, so if an answer allows an offset of 0,
    that is the estimate: for two machines it is then wrong by the whole time at most.

    >>> clock = ClockOffset()
    >>> clock.hear(asked=1_000, reported=500_500, heard=2_000)
    >>> clock.ahead
    499000
    >>> clock.hear(asked=9_000, reported=500_900, heard=900_000)  # took longer
    >>> clock.ahead
    499000
    """

    ahead: int = 0
    _uncertain: float = float("inf")
    _heard: int = 0

    def hear(self, asked: int, reported: int, heard: int) -> None:
        """Learn from one answer: asked and heard by this clock, given by the other."""
        uncertain, ahead = (heard - asked) / 2, reported - (asked + heard) // 2
        if uncertain <= self._uncertain + _DRIFT * (heard - self._heard):
            self.ahead = 0 if abs(ahead) <= uncertain + 1 else ahead
            self._uncertain, self._heard = uncertain, heard

    def here(self, rows: Rows) -> Rows:
        """Return the other machine's rows by this clock; the same ones if it is one."""
        names = rows.dtype.names or ()
        if self.ahead and len(rows):
            rows = rows.copy()
            for name in _TIMES:
                if name in names:
                    rows[name] -= np.int64(self.ahead)
        return rows
