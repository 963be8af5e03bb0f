"""How long a member that asks is kept waiting, and a stop for the end of a step."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, NamedTuple

from kit.training.coordination.membership import Agreement, Verdict

_LOOK_S: Final = 0.1  # between two checks whether the caller has hung up
HungUp = Callable[[], bool]


def never() -> bool:
    """Return False: the caller that waits for an answer is always there."""
    return False


class Patience(NamedTuple):
    """For how many seconds a question is kept, unless the caller has hung up."""

    seconds: float
    has_hung_up: HungUp = never

    def wait(
        self,
        ask: Callable[[], Verdict],
        changed: threading.Condition,
        clock: Callable[[], float],
    ) -> Verdict:
        """Return the first verdict that is not WAIT, or WAIT; `changed` is held."""
        end = clock() + self.seconds
        while (verdict := ask()) is Verdict.WAIT:
            rest = end - clock()
            if rest <= 0 or self.has_hung_up():
                break
            changed.wait(min(rest, _LOOK_S))
        return verdict


class Stopping:
    """How long a stop waits for the end of the step under way.

    >>> from kit.training.coordination.epoch import Epoch
    >>> agreement, stop = Agreement([0], Epoch(1, "ring"), steps=9), Stopping(10.0)
    >>> agreement.command("stop"); stop.takes_too_long(agreement, 5.0)
    False
    >>> stop.takes_too_long(agreement, 7.5), stop.takes_too_long(agreement, 8.5)
    (False, True)

    Attributes:
        at: the step before which the coordinator's own member has asked for a halt.
    """

    # The rest is for the end of the user's function, and for a new process.
    _PART = 0.3

    def __init__(self, deadline_s: float) -> None:
        """`deadline_s` is that of the whole stop."""
        self._limit_s, self.at = self._PART * deadline_s, -1
        self._since: float | None = None
        self._stood: object = None

    def takes_too_long(self, agreement: Agreement, now: float) -> bool:
        """Return whether members take too long from one step or boundary to the next.

        A halt may take some steps to get to all members; see `Halts`.
        """
        if not agreement.now.is_stopped or agreement.is_over:
            return False
        stands = self.at, tuple(agreement.rounds), agreement.awaited
        if self._since is None or stands != self._stood:
            self._since, self._stood = now, stands
        return now - self._since > self._limit_s
