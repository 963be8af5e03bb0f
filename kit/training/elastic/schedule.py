"""When the coordinator of an elastic training calls for a copy of the state.

Pure but for the clock that it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

#: Least seconds between two copies: this many seconds of steps may be done again.
EVERY_S: Final = 0.3
# A copy may take this share of the time: after a slow one the next comes later.
_SHARE: Final = 0.1
# When one was not confirmed for so long, a message was lost: begin another.
_GIVE_UP_S: Final = 5.0


class CopySchedule:
    """The coordinator's account of copies: one is on its way at a time.

    >>> seconds = [0.0]
    >>> copies = CopySchedule(lambda: seconds[0])
    >>> copies.is_due
    True
    >>> copies.begin([0, 1]); copies.agreed(8); copies.end(0, 8), copies.is_due
    (False, False)
    >>> seconds[0] = 0.25; copies.end(1, 8), copies.is_due, copies.step
    (True, False, 8)
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._missing: set[int] = set()
        self._is_called = False  # and the members have not met for it yet
        self._made = -1  # before which step they make the one that is under way
        self.step = -1  # of the newest copy that is whole
        self._next = clock()
        self._begun = clock()

    @property
    def is_due(self) -> bool:
        """Whether the next copy should be made at the next boundary."""
        now = self._clock()
        if self._missing:
            return now - self._begun > _GIVE_UP_S
        return now >= self._next

    def begin(self, writers: Iterable[int]) -> None:
        """Note that a copy is called for; these members make it."""
        self._begun, self._missing = self._clock(), set(writers)
        self._is_called = True

    def agreed(self, step: int) -> None:
        """Note that the members have come to the boundary to make it, before `step`."""
        if self._is_called:
            self._begun, self._is_called, self._made = self._clock(), False, step

    def lose(self, member: int) -> None:
        """Wait for a member no more; a copy that waited for it alone is not whole."""
        self._missing.discard(member)

    @property
    def is_under_way(self) -> bool:
        """Whether a copy was called for and is not whole yet."""
        return bool(self._missing)

    @property
    def waits_s(self) -> float:
        """For how many seconds one has been under way; 0 if none is."""
        return self._clock() - self._begun if self._missing else 0.0

    def end(self, member: int, step: int) -> bool:
        """Note that a member's copy before `step` is safe; whether all are now.

        The word of an earlier copy, which was given up, may come this late: it does not
        count for the one that was called for since.
        """
        if self._is_called or step != self._made or member not in self._missing:
            return False
        self._missing.remove(member)
        if not self._missing:
            now = self._clock()
            self._next = self._begun + max(EVERY_S, (now - self._begun) / _SHARE)
            self.step = step
        return not self._missing
