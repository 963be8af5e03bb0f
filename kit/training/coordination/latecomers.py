"""Who keeps the others waiting at a boundary, and since when.

Pure: whoever asks says what time it is.
"""

from __future__ import annotations

from kit.training.coordination.membership import Agreement, Verdict


class Latecomers:
    """Since when members of one training are waited for, at each boundary.

    >>> from kit.training.coordination.membership import Epoch
    >>> agreement, late = Agreement([0, 1], Epoch(0, "ring"), steps=9), Latecomers()
    >>> agreement.arrive(0, 0, step=0); late.begin(0, now=7.0)
    >>> late.found(agreement, now=36.0, deadline_s=30.0)
    {}
    >>> late.found(agreement, now=38.0, deadline_s=30.0)
    {0: {1}}
    """

    def __init__(self) -> None:
        """Begin where nobody waits."""
        self._since: dict[int, tuple[Verdict, float]] = {}

    def begin(self, number: int, now: float) -> None:
        """Note that a member waits at boundary `number`; the first one counts."""
        self._since.setdefault(number, (Verdict.WAIT, now))

    def found(
        self, agreement: Agreement, now: float, deadline_s: float
    ) -> dict[int, frozenset[int]]:
        """Return who has been waited for too long, by the boundary.

        Ask regularly: the time until all are ready for what was decided begins when
        the decision is first seen here. All may have stood there for long, in a pause.
        """
        late = {}
        for number, (verdict, since) in list(self._since.items()):
            meeting = agreement.rounds.get(number)
            # A round that is forgotten was complete; an idle server may be far ahead.
            if meeting is None:
                del self._since[number]
            elif meeting.verdict is not verdict:
                self._since[number] = meeting.verdict, now
            elif now - since > deadline_s and (missing := agreement.missing(number)):
                late[number] = missing
        return late
