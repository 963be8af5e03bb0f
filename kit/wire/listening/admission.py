"""Which new connections may go on, and which must go, while none has proved anything.

Pure: the acceptor brings connections and times, and carries out the decisions.

    SILENT --first byte--> READY --a place is free--> SHAKING --> a link, or refused

A silent connection costs a descriptor and nothing else; only a handshake takes one of
the places. Room and places are shared among the origins of the connections (a user of
this machine, or another machine): a stranger with many displaces only their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

# A handshake takes milliseconds; one that is younger than this is never ended.
PATIENCE_S: Final = 0.25


class LinkStage(IntEnum):
    """How far a connection is; the lowest is the first to go when room is needed."""

    SILENT = 0
    READY = 1
    SHAKING = 2


@dataclass(eq=False, slots=True)
class PendingConnection:
    """A connection that has proved nothing yet; `since` is when it reached its stage.

    `until` is when its time for all stages together ends.
    """

    origin: str
    until: float
    since: float
    stage: LinkStage = LinkStage.SILENT

    def reach(self, stage: LinkStage, now: float) -> None:
        """Note that it came this far."""
        self.stage, self.since = stage, now


class Decision(NamedTuple):
    """Whose handshake begins, who must go and why, and when to decide again."""

    begin: list[PendingConnection]
    end: list[tuple[PendingConnection, str]]
    again_at: float | None


class Admission:
    """The new connections of one listener: `places` for handshakes, `room` to wait."""

    def __init__(self, places: int, room: int) -> None:
        self._places, self._room = places, room
        self._arrivals: dict[PendingConnection, None] = {}  # the oldest first

    def __len__(self) -> int:
        return len(self._arrivals)

    def enter(self, connection: PendingConnection) -> PendingConnection | None:
        """Take in a connection; return the one that must make room for it, if any.

        It is the oldest silent one of the origin with the most connections: maybe the
        new one itself.
        """
        self._arrivals[connection] = None
        waiting = [each for each in self._arrivals if each.stage < LinkStage.SHAKING]
        if len(waiting) <= self._room:
            return None
        held, most = _counted(waiting)
        crowd = (each for each in waiting if held[each.origin] == most)
        # Silent ones first, and of these the oldest: `min` takes the first of equals.
        chosen = min(crowd, key=lambda each: each.stage)
        self.leave(chosen)
        return chosen

    def leave(self, connection: PendingConnection) -> None:
        """Forget a connection: it became a link, or it is gone."""
        self._arrivals.pop(connection, None)

    def decide(self, now: float) -> Decision:
        """Return what must happen now. Those that must go count until they `leave`.

        The next place is for the origin with the fewest handshakes. When all are taken,
        the oldest handshake of the origin with the most makes way, if that one has at
        least two more.
        """
        waiting = [each for each in self._arrivals if each.stage < LinkStage.SHAKING]
        end = [(each, _WHY_LATE[each.stage]) for each in waiting if each.until <= now]
        again = [each.until for each in waiting if each.until > now]
        ready = [
            pending
            for pending in waiting
            if pending.stage is LinkStage.READY and pending.until > now
        ]
        shaking = [
            arrival for arrival in self._arrivals if arrival.stage is LinkStage.SHAKING
        ]
        begin = self._begin(ready, shaking, now)
        blocked = self._blocked_by(ready, shaking)
        if blocked is not None and blocked.since + PATIENCE_S <= now:
            end.append((blocked, "its place was needed"))
        elif blocked is not None:
            again.append(blocked.since + PATIENCE_S)
        return Decision(begin, end, min(again, default=None))

    def _begin(
        self,
        ready: list[PendingConnection],
        shaking: list[PendingConnection],
        now: float,
    ) -> list[PendingConnection]:
        """Move those who get a free place from `ready` to `shaking`."""
        begun = []
        while ready and len(shaking) < self._places:
            held, _ = _counted(shaking)
            chosen = min(ready, key=lambda each: held[each.origin])
            chosen.reach(LinkStage.SHAKING, now)
            ready.remove(chosen)
            shaking.append(chosen)
            begun.append(chosen)
        return begun

    def _blocked_by(
        self, ready: list[PendingConnection], shaking: list[PendingConnection]
    ) -> PendingConnection | None:
        """Return the handshake whose place another origin should get, if any."""
        held, most = _counted(shaking)
        # Two more, not one: after the change the two origins are equal at most, else
        # they would go on displacing each other for ever.
        if not ready or most < min(held[each.origin] for each in ready) + 2:
            return None
        crowd = [each for each in shaking if held[each.origin] == most]
        return min(crowd, key=lambda each: each.since)


_WHY_LATE: Final = {
    LinkStage.SILENT: "it was silent for too long",
    LinkStage.READY: "no place for its handshake came free in time",
}


def _counted(arrivals: Iterable[PendingConnection]) -> tuple[Counter[str], int]:
    """Return how many come from each origin, and the highest of these numbers."""
    held = Counter(each.origin for each in arrivals)
    return held, max(held.values(), default=0)
