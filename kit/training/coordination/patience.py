"""How long a member that asks is kept waiting for its answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, NamedTuple

from kit.training.coordination.membership import Verdict

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
