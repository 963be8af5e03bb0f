"""A port to a neighbour on the same host: its memory is mapped here and used in place.

Each member's arena begins with control words: for each other member a line with the
number of messages posted so far, and a ring with what each message carries (when it was
posted, when it reaches the other end, step and halt, and which bytes of which region it
announces: the receiver compares these with its plan). Posting stores the counter once
the data are complete; taking reads it. Both are single aligned 64-bit accesses, with
fences (`kit/memory_order.py`) between them and the data: a peer that sees the counter
sees data and notes as well.

    arena   | asleep | line 0 | line 1 | ... | notes 0 | notes 1 | ... | regions ...

A member that sleeps says so in its first line, and a member that posts to it then rings
its doorbell. It says so before it looks at the counters once more, and who
posts counts before it looks at the word, both with a fence between: so either the
sleeper sees the message, or its sender sees it asleep. Where no fence was compiled, as
is allowed on x86-64 alone, a ring can be lost: that costs one poll slice and no more.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from struct import Struct

from kit.exchange.layout import Range
from kit.exchange.ports.memory import Array, Memory
from kit.exchange.ports.port import Expected, Stamp, Taken
from kit.memory_order import fence
from kit.system import ring
from kit.wire.shaping import LineOut
from kit.wire.stream import Stream

_LINE = 8  # 64-bit words in a cache line
# Words a message: those of an `Arrival`, and the epoch, for frames. So a note is a
# cache line, and writing one does not take another one away from its reader.
_NOTE, _ARRIVAL = _LINE, Struct("7Q")
_NOTE_BYTES = 8 * _NOTE
POSTED, TAKEN, _BELL = range(3)


class Control:
    """The control words of one member's arena."""

    def __init__(self, words: memoryview, n_members: int, depth: int) -> None:
        """`words` are 64-bit; `depth` notes are kept for each other member."""
        self._words = words
        self._n_members = n_members
        self.depth = depth

    @staticmethod
    def n_words(n_members: int, depth: int) -> int:
        """Return how many 64-bit words the control part takes."""
        return _LINE * (1 + n_members) + _NOTE * depth * n_members

    @property
    def asleep(self) -> memoryview:
        """One word: 1 while the member sleeps."""
        return self._words[0:1]

    def line(self, member: int) -> memoryview:
        """Return what this arena's owner has posted to `member`."""
        start = _LINE * (1 + member)
        return self._words[start : start + _LINE]

    def notes(self, member: int) -> memoryview:
        """Return what each of the last messages to `member` carries."""
        size = _NOTE * self.depth
        start = _LINE * (1 + self._n_members) + size * member
        return self._words[start : start + size]


class SharedPort:
    """The data link to a member whose arena is mapped here."""

    shared, silent = True, False

    def __init__(
        self,
        *,
        me: int,
        peer: int,
        ours: Control,
        theirs: Control,
        memory: Memory,
        doorbell: int,
        stream: Stream,
        stamp: Stamp,
        clock: Callable[[], int],
    ) -> None:
        """Own the peer's memory and doorbell; `stream` only shows when it ends."""
        self.peer, self.lost = peer, False
        self.line_out: LineOut | None = None
        self._out, self._in = ours.line(peer), theirs.line(me)
        self._notes_out, self._notes_in = ours.notes(peer), theirs.notes(me)
        self.mask = ours.depth - 1
        self._asleep = theirs.asleep
        self._memory, self._stream = memory, stream
        self._stamp, self._clock = stamp, clock
        # Posted, taken, doorbell: in memory that the compiled loop changes as well, so
        # that both executors can go on from where the other one stopped.
        self._own = memoryview(bytearray(24)).cast("q")
        self._own[_BELL] = doorbell

    def words(self) -> tuple[memoryview, ...]:
        """Return the words that posting and taking touch, in the order of hops.c.

        Counters of both directions, notes of both, whether the peer sleeps, and our
        own: how many messages we posted and took, and the peer's doorbell.
        """
        counters, notes = (self._out, self._in), (self._notes_out, self._notes_in)
        return *counters, *notes, self._asleep, self._own

    def expect(self, scripts: Sequence[Sequence[Expected]], first: int) -> None:
        """Do nothing: what is posted is already where the plan says."""

    def window(self, region: int, part: Range, *, separate: bool) -> Array:
        """Return the peer's own memory."""
        return self._memory.typed(region, part)

    def post(self, region: int, part: Range) -> None:
        """Publish a counter and wake a peer that sleeps; takes about a microsecond."""
        own = self._own
        own[POSTED] = number = own[POSTED] + 1
        slot = (number & self.mask) * _NOTE
        notes, stamp, line_out = self._notes_out, self._stamp, self.line_out
        lo, hi = part
        notes[slot] = now = self._clock()
        notes[slot + 1] = line_out.reaches_at(now, hi - lo) if line_out else now
        notes[slot + 2] = stamp.step
        notes[slot + 3] = stamp.halt
        notes[slot + 4] = region
        notes[slot + 5] = lo
        notes[slot + 6] = hi
        notes[slot + 7] = stamp.epoch
        # The counter last: a peer that sees it reads the notes at once. Only then the
        # word: a peer sets it before it checks the counter again, so one of us sees the
        # other.
        fence()
        self._out[0] = number
        fence()
        if self._asleep[0]:
            ring(self._own[_BELL])

    def has_arrived(self) -> bool:
        """Whether the peer has posted more than we took."""
        return bool(self._in[0] > self._own[TAKEN])

    def n_arrived(self) -> int:
        """Return how much more the peer has posted than we took."""
        return int(self._in[0] - self._own[TAKEN])

    def next(self) -> Taken:
        """Return the next message, an `Arrival` without field names, which cost time.

        Only after `has_arrived` was true. The message is not taken.
        """
        fence()
        offset = ((self._own[TAKEN] + 1) & self.mask) * _NOTE_BYTES
        arrival: Taken = _ARRIVAL.unpack_from(self._notes_in, offset)
        return arrival

    def take(self) -> Taken:
        """Take the next message."""
        fence()
        self._own[TAKEN] = number = self._own[TAKEN] + 1
        offset = (number & self.mask) * _NOTE_BYTES
        arrival: Taken = _ARRIVAL.unpack_from(self._notes_in, offset)
        return arrival

    def pump(self) -> bool:
        """Find out whether the peer is gone; it never sends anything on this stream."""
        try:
            self.lost = self._stream.read_into(memoryview(bytearray(1))) is not None
        except OSError:
            self.lost = True
        return False

    def is_idle(self) -> bool:
        """Say yes: posting leaves nothing behind."""
        return True

    def fileno(self) -> int:
        """Return the stream's, which shows the peer's end."""
        return self._stream.fileno()

    def close(self) -> None:
        """Close the stream and our copy of the doorbell."""
        self._stream.close()
        if self._own[_BELL] >= 0:
            os.close(self._own[_BELL])
            self._own[_BELL] = -1
