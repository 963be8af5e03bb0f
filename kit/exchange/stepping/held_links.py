"""Links in memory that hold each message until they are told to release it.

A `HeldPort` keeps what arrives where a port between two hosts keeps it: a gradient
apart, a finished range in the receiver's own region. The difference is that a message
waits in the `HeldMessages`, so that all buffers can be inspected before it arrives.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from kit.exchange.layout import Range
from kit.exchange.plan import NEXT
from kit.exchange.ports.memory import Array, Memory, Mirror, is_apart
from kit.exchange.ports.port import Arrival, Expected, Stamp
from kit.wire.shaping import LineOut


class HeldMessage(NamedTuple):
    """A message on its way: from whom to whom, its place, and its bytes.

    `arrival` is what it carries besides; all its times are 0.
    """

    source: int
    destination: int
    region: int
    range: Range
    payload: bytes
    arrival: Arrival


class HeldMessages:
    """All messages that were posted and have not arrived, in order of posting."""

    def __init__(self) -> None:
        self.messages: list[HeldMessage] = []
        self.ports: dict[tuple[int, int], HeldPort] = {}  # by owner and peer

    def let_go(self, held: HeldMessage) -> None:
        """Let a message arrive."""
        self.messages.remove(held)
        self.ports[held.destination, held.source].arrive(held)

    def let_all_go(self) -> set[int]:
        """Let all messages arrive; returns the members that have received any."""
        messages, self.messages = self.messages, []
        for held in messages:
            self.ports[held.destination, held.source].arrive(held)
        return {held.destination for held in messages}


class HeldPort:
    """One member's end of a link; see `kit.exchange.ports.port.Port`."""

    shared = True  # there are no bytes to pump
    silent = False
    line_out: LineOut | None = None

    def __init__(
        self, hold: HeldMessages, me: int, peer: int, memory: Memory, stamp: Stamp
    ) -> None:
        """`memory` is our own; what comes from the peer is kept beside it."""
        self.peer, self.lost = peer, False
        self._hold, self._me, self._memory, self._stamp = hold, me, memory, stamp
        self._mirror = Mirror(memory.layout)
        self._arrived: deque[Arrival] = deque()
        hold.ports[me, peer] = self

    def expect(self, scripts: Sequence[Sequence[Expected]], first: int) -> None:
        """Do nothing: a held message says where it belongs."""

    def window(self, region: int, part: Range, *, separate: bool) -> Array:
        """Return where the peer's range is kept here."""
        memory = self._mirror if separate else self._memory
        return memory.typed(region, part)

    def post(self, region: int, part: Range) -> None:
        """Copy the range and hold it."""
        payload = bytes(self._memory.raw(region, part))
        arrival = Arrival(0, 0, self._stamp.step, self._stamp.halt, region, *part)
        held = HeldMessage(self._me, self.peer, region, part, payload, arrival)
        self._hold.messages.append(held)

    def arrive(self, held: HeldMessage) -> None:
        """Put a message's bytes into their place."""
        # Where parameters stay, a gradient's place in odd steps is that of NEXT.
        is_separate = is_apart(held.region) or (
            self._stamp.stays and held.region == NEXT
        )
        memory = self._mirror if is_separate else self._memory
        memory.raw(held.region, held.range)[:] = held.payload
        self._arrived.append(held.arrival)

    def has_arrived(self) -> bool:
        """Whether a message was let go and is not taken yet."""
        return bool(self._arrived)

    def n_arrived(self) -> int:
        """Return how many messages were let go and are not taken yet."""
        return len(self._arrived)

    def take(self) -> Arrival:
        """Take the next message."""
        return self._arrived.popleft()

    def pump(self) -> bool:
        """Move nothing: `HeldMessages` does that."""
        return False

    def is_idle(self) -> bool:
        """Say yes: what was posted has left this port."""
        return True

    def fileno(self) -> int:
        """Return no descriptor: nobody waits on this port."""
        return -1

    def close(self) -> None:
        """Let the other end know; nothing is open here."""
        other = self._hold.ports.get((self.peer, self._me))
        if other is not None:
            other.lost = True
