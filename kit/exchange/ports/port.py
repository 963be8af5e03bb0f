"""One member's end of the data link to one other member.

A port does four things: it announces our ranges (`post`), lets us read the other's
memory (`window`), says whether the next message has arrived (`has_arrived`), and takes
it (`take`). There are three kinds: `SharedPort` reads a neighbour's arena in place,
`StreamPort` carries bytes over a socket, and `PumpedPort` has threads that do so. A
plan means the same over all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kit.exchange.layout import Range
from kit.exchange.ports.memory import Array, physical
from kit.wire.shaping import LineOut

NO_HALT = (1 << 62) - 1


class Expected(NamedTuple):
    """What the next message of a port must be."""

    region: int  # physical
    range: Range
    separate: bool = False  # is kept apart from our own range of that name


class Arrival(NamedTuple):
    """What a message says of itself: never what the plan says of it."""

    posted: int  # when it was handed over, nanoseconds
    usable: int  # when it may be used, nanoseconds
    step: int  # the sender's
    halt: int  # the first step that the sender must not begin, see `Stamp`
    region: int  # physical, of the sender; its bytes are those from `lo` up to `hi`
    lo: int
    hi: int


def named(region: int, part: Range) -> str:
    """Return how an error calls what was posted, or is due.

    >>> named(0, Range(8, 16))
    'bytes 8 to 16 of region 0 (8 bytes)'
    """
    return f"bytes {part.lo} to {part.hi} of region {region} ({part.size} bytes)"


Taken = tuple[int, int, int, int, int, int, int]  # an `Arrival`, without its names


class Stamp:
    """What every message of this member carries: epoch, step and the halt.

    `parity` says which of two regions is NOW; it changes with each step that this
    member completes. `overwrites`: whether the next parameters overwrite the gradients.
    `stays`: whether there are no next ones (see `kit.exchange.ports.memory.physical`).

    `halt` is the first step that must not begin, as far as this member knows. It
    travels with the messages: so when a member has completed a step, it knows of every
    halt that the coordinator announced before it contributed to that step. If not all
    messages of a step depend on the coordinator's, this holds for a step some steps
    before (see `steps_to_all` in `kit.exchange.topologies.topology`).
    """

    def __init__(self) -> None:
        self.epoch = 0
        self.step = 0
        self.parity = 0
        self.overwrites = self.stays = False
        self.halt = NO_HALT

    def where(self, region: int) -> int:
        """Return the physical region of a plan's region in this step."""
        return physical(region, self.parity, self.overwrites, self.stays)

    def at(self, region: int, parity: int) -> int:
        """Return the same for steps of a parity."""
        return physical(region, parity, self.overwrites, self.stays)


class Port(Protocol):
    """See the module's docstring."""

    peer: int
    lost: bool  # the other side closed the link
    shared: bool  # reads the peer's memory in place; nothing to pump
    silent: bool  # its descriptor does not show what comes: pump it often
    line_out: LineOut | None  # how fast we send, None for full speed

    def expect(self, scripts: Sequence[Sequence[Expected]], first: int) -> None:
        """Take the messages of steps of each parity; `first` is the next step's."""

    def window(self, region: int, part: Range, *, separate: bool) -> Array:
        """Return the other's range as seen here; valid once it has arrived.

        If memory is `shared`, it is the other's own, which may be written as well; else
        our own range of that name, or one that is kept `separate` from it.
        """

    def post(self, region: int, part: Range) -> None:
        """Announce one of our ranges; never blocks."""

    def has_arrived(self) -> bool:
        """Whether the next message is here; costs one read of memory."""

    def n_arrived(self) -> int:
        """Return how many messages are here and not taken yet."""

    def take(self) -> Taken:
        """Take the next message, an `Arrival`; only after `has_arrived` was true.

        It has the region and the bytes that were posted, which `Endpoint.take` compares
        with those that are due. A port that knows them before may refuse others itself.
        """

    def pump(self) -> bool:
        """Send and receive what can be at once; return whether anything moved."""

    def is_idle(self) -> bool:
        """Whether everything that was posted has left this process."""

    def fileno(self) -> int:
        """Return the descriptor to poll."""

    def close(self) -> None:
        """Let go of the link."""
