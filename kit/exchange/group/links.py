"""A member's data links: opened along the plans, before they are needed.

Two members have a link when the plan of one names the other, or when something moves
between them before its first step. Theory of operation:

    open      the links of the first plan: all members do so at the same time
    prepare   another plan: each member dials what it lacks to lower numbers, and says a
              first word; it waits for no other that does the same
    adopt     all have prepared, so all links are there: take those that were dialled
              here, exchange the arenas, make the ports

Links that no plan needs any more stay, for the next one. What was dialled for a plan
that was abandoned stays too: the other end has it and would take it first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack

from kit.exchange.plan import Add, Copy, Op, Plan, Receive, Send
from kit.exchange.ports.connect import Joining
from kit.wire.local.arena import Arena
from kit.wire.stream import Stream

# Opens data streams to members that we dial, and to others that dial us, by a moment of
# `time.monotonic`; all of them, or raises `DeadlineExceededError`.
OpenStreams = Callable[[Sequence[int], Sequence[int], float], dict[int, Stream]]


class Links:
    """One member's data links and the neighbours' arenas."""

    def __init__(
        self,
        me: int,
        joining: Joining,
        streams: OpenStreams,
        arenas: dict[int, Arena],
        stack: ExitStack,
    ) -> None:
        """`arenas` belong to the member; `stack` closes what is not a port yet."""
        self._me, self._joining, self._streams = me, joining, streams
        self._arenas = arenas
        stack.callback(self._close)
        self._dialled: dict[int, Stream] = {}  # that are not ports yet
        # Whom the plan that is prepared needs links to: dialled here, and there.
        self._lower: list[int] = []
        self._higher: list[int] = []
        self._opening: list[Stream] = []  # that wait for the other side's arena
        self._is_aborted = False

    def open(self, partners: Iterable[int], deadline: float) -> None:
        """Open links to some members, which do the same at the same time."""
        lower, higher = self._split(partners)
        self._join(self._streams(lower, higher, deadline), deadline)

    def prepare(self, partners: Iterable[int], deadline: float) -> None:
        """Dial what a plan needs besides the links that exist."""
        missing = {
            partner
            for partner in partners
            if partner not in self._joining.endpoint.ports
        }
        self._lower, self._higher = self._split(missing)
        for peer in self._lower:
            if peer not in self._dialled:
                self._dialled |= self._streams((peer,), (), deadline)

    def adopt(self, deadline: float) -> None:
        """Make ports of what all have dialled for the plan that begins."""
        streams = self._streams((), self._higher, deadline)
        streams |= {peer: self._dialled.pop(peer) for peer in self._lower}
        self._lower, self._higher = [], []
        if streams:
            self._join(streams, deadline)

    def abort(self) -> None:
        """End the wait for the neighbours' arenas, now and later; from any thread."""
        # Set first: `_join` reads it after it has listed its streams, so one of the two
        # always shuts them down.
        self._is_aborted = True
        for stream in self._opening:
            stream.shutdown()

    def _join(self, streams: dict[int, Stream], deadline: float) -> None:
        self._opening = list(streams.values())
        if self._is_aborted:
            self.abort()
        self._arenas |= self._joining.join(streams, deadline)
        self._opening = []

    def _close(self) -> None:
        # Ports close their own streams, when nothing uses them any more.
        for stream in (*self._opening, *self._dialled.values()):
            stream.close()

    def _split(self, peers: Iterable[int]) -> tuple[list[int], list[int]]:
        """Return those that we dial, and those that dial us."""
        ordered = sorted(peers)
        lower = [peer for peer in ordered if peer < self._me]
        return lower, ordered[len(lower) :]


def partners_of(plan: Plan | None) -> Iterator[int]:
    """Yield the other members that a plan deals with, some of them several times."""
    for op in plan.ops if plan is not None else ():
        yield from (member for member in _members(op) if member >= 0)


def _members(op: Op) -> Iterable[int]:
    match op:
        case Send():
            return (op.to,)
        case Receive():
            return (op.source,)
        case Add():
            return (term.member for term in op.terms)
        case Copy():
            return (op.source.member,)
        case _:
            return ()
