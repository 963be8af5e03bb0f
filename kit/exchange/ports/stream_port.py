"""A port to a member on another host: ranges travel as frames over a socket.

One thread does everything: frames wait in a queue and leave when the socket takes them;
bytes are read straight to their place. A frame says where its bytes lie in the sender's
memory, as the address of the first one. The plan says what each incoming frame must be,
so no size, place or name from the wire is trusted; a frame that differs is a
`ProtocolError` that names both.

A gradient is kept apart, because the receiver's own gradient is in that place; finished
parameters and optimizer slots go straight into the receiver's own region, where they
would be copied to anyway.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from kit.crc import crc32
from kit.errors import Fenced, LinkLost, ProtocolError
from kit.exchange.layout import Range
from kit.exchange.ports.memory import Array, Memory, Mirror, region_bytes
from kit.exchange.ports.port import NO_HALT, Arrival, Expected, Stamp, named
from kit.wire import frame
from kit.wire.shaping import LineOut
from kit.wire.stream import MPI, Stream

_DATA = int(frame.FrameKind.DATA)
_VECTORS = 64  # buffers handed to one system call
_FAR = (1 << 31) - 1  # no halt is announced so many steps ahead
_U32 = (1 << 32) - 1


class StreamPort:
    """The data link to a member whose memory cannot be mapped here."""

    shared = False

    def __init__(
        self,
        *,
        me: int,
        peer: int,
        memory: Memory,
        stream: Stream,
        stamp: Stamp,
        bounds: frame.Bounds,
        clock: Callable[[], int],
        checksum: bool = True,
    ) -> None:
        """`memory` is our own; what comes from the peer is written into it."""
        self.peer, self.lost, self.silent = peer, False, stream.kind == MPI
        self.line_out: LineOut | None = None
        self._me, self._memory, self._stamp = me, memory, stamp
        self.stream = stream
        self.mirror = Mirror(memory.layout)  # for what is kept apart
        self._bounds, self._clock = bounds, clock
        self._flags = frame.CHECKSUM if checksum else 0
        self._region_bytes = region_bytes(memory.layout)  # the same on both sides
        self._queue: deque[memoryview] = deque()
        self.sent = 0
        self._scripts: Sequence[Sequence[Expected]] = ((), ())
        self._place, self._step_parity = 0, 0
        self._head = memoryview(bytearray(frame.SIZE))
        self._n_head = 0
        self._header: frame.Header | None = None
        self._rest = memoryview(b"")
        self._sum = 0
        self._begun = 0
        self.received = 0
        self._arrived: deque[Arrival] = deque()

    def expect(self, scripts: Sequence[Sequence[Expected]], first: int) -> None:
        """Start over with the messages of even and odd steps."""
        self._scripts = scripts
        self._place, self._step_parity = 0, first

    def window(self, region: int, part: Range, *, separate: bool) -> Array:
        """Return where the peer's range is kept here."""
        memory = self.mirror if separate else self._memory
        return memory.typed(region, part)

    def post(self, region: int, part: Range) -> None:
        """Queue a frame and send what the socket takes now."""
        stamp, size = self._stamp, part.hi - part.lo
        payload = self._memory.raw(region, part)
        # The halt travels as its distance from this step, above the frame's number.
        ahead = stamp.halt - stamp.step - 1
        halting, ahead = (frame.HALT, max(0, ahead)) if ahead <= _FAR else (0, 0)
        # The receiver simulates a slow line: it holds the frame back for this long. A
        # duration, not a moment, since the clocks of two hosts differ.
        now = self._clock()
        hold = self.line_out.reaches_at(now, size) - now if self.line_out else 0
        self.sent += 1
        address = region * self._region_bytes + part.lo
        header = (
            *(_DATA, self._flags | halting, self._bounds.cluster, stamp.epoch),
            *(self._me, stamp.step, ahead << 32 | self.sent & _U32),
            *(address >> 32, address & _U32, size, round(hold / 1000)),
        )
        head = frame.pack_fields(header, (payload,))
        # The payload is not copied. Nothing writes to it before it has left: a plan
        # lets a range be written again only after its reader has it, and a step ends
        # with `flush`.
        self._queue.append(memoryview(head))
        if size:
            self._queue.append(payload)
        try:
            self._write()
        except LinkLost:
            # Not raised: a post may be to one that nobody waits for. The wait for this
            # peer finds it lost, and its error names it.
            self.lost = True

    def has_arrived(self) -> bool:
        """Whether a whole frame is here."""
        return bool(self._arrived)

    def n_arrived(self) -> int:
        """Return how many whole frames are here."""
        return len(self._arrived)

    def take(self) -> Arrival:
        """Take the next message."""
        return self._arrived.popleft()

    def pump(self) -> bool:
        """Write and read what the socket allows; return whether anything moved."""
        try:
            wrote = self._write()
            return self._read() or wrote
        except (LinkLost, OSError):
            self.lost = True
            return False

    def is_idle(self) -> bool:
        """Whether the queue is empty."""
        return not self._queue

    def fileno(self) -> int:
        """Return the socket's."""
        return self.stream.fileno()

    def close(self) -> None:
        """Close the socket."""
        self._queue.clear()
        self.stream.close()

    def _write(self) -> bool:
        moved = False
        queue = self._queue
        while queue:
            few = [queue[index] for index in range(min(len(queue), _VECTORS))]
            taken = self.stream.write(few)
            if taken is None:
                break
            moved = True
            while queue and taken >= len(queue[0]):
                taken -= len(queue.popleft())
            if taken:
                queue[0] = queue[0][taken:]
        return moved

    def _read(self) -> bool:
        moved = False
        # Not a byte beyond what this step's script expects: what follows may belong to
        # the next script, of other regions, or to whatever uses the stream after that.
        while self._place < len(self._scripts[self._step_parity]):
            view = self._head[self._n_head :] if self._header is None else self._rest
            size = self.stream.read_into(view)
            if size is None:
                break
            if size == 0:
                self.lost = True
                break
            moved = True
            if self._header is None:
                self._take_head(size)
            else:
                self._take_piece(self._header, size)
        return moved

    def _take_head(self, size: int) -> None:
        # When its first bytes came: the sender's clock may be another machine's.
        if not self._n_head:
            self._begun = self._clock()
        self._n_head += size
        if self._n_head < frame.SIZE:
            return
        self._header = header = frame.unpack(self._head, bounds=self._bounds)
        expected = self._scripts[self._step_parity][self._place]
        about = self.peer, self.received + 1, self._stamp, self._region_bytes
        check(header, expected, *about)
        memory = self.mirror if expected.separate else self._memory
        self._rest = memory.raw(expected.region, expected.range)
        if header.checksum is not None:
            self._sum = frame.checksum(self._head)
        if not self._rest:
            self._finish(header)

    def _take_piece(self, header: frame.Header, size: int) -> None:
        rest = self._rest
        if header.checksum is not None:
            # At once: when the rest has come, these bytes have left the cache.
            self._sum = crc32(rest[:size], self._sum)
        self._rest = rest[size:]
        if size == len(rest):
            self._finish(header)

    def _finish(self, header: frame.Header) -> None:
        # The bytes are in place by now. A wrong checksum ends the training before
        # anybody has used them: the message has not arrived until the next lines.
        frame.compare(header, self._sum)
        self.received += 1
        is_halting = header.flags & frame.HALT
        halt = header.step + 1 + (header.sequence >> 32) if is_halting else NO_HALT
        usable = self._clock() + header.hold_us * 1000
        region, part = _posted(header, self._region_bytes)
        arrival = Arrival(self._begun, usable, header.step, halt, region, *part)
        self._arrived.append(arrival)
        self._header, self._n_head = None, 0
        self._place += 1
        if self._place == len(self._scripts[self._step_parity]):
            self._place, self._step_parity = 0, 1 - self._step_parity


def check(
    header: frame.Header,
    expected: Expected,
    peer: int,
    number: int,
    stamp: Stamp,
    region_bytes: int,
) -> None:
    """Raise what is wrong with a frame that should be message `number` of a member.

    `Fenced` for one of an older epoch: that is not a mistake but a process that was
    left behind. By another error than `ProtocolError` it knows that it must join again.
    """
    if header.epoch < stamp.epoch:
        raise Fenced(
            f"member {peer} sent a frame of epoch {header.epoch}; this training is in "
            f"epoch {stamp.epoch}. It must join again.",
            step=header.step,
        )
    got = header.kind, header.sender, header.sequence & _U32
    want = _DATA, peer, number & _U32
    region, part = _posted(header, region_bytes)
    if (got, region, part) != (want, expected.region, expected.range):
        raise ProtocolError(
            f"member {peer} sent (kind, sender, sequence) {got} with "
            f"{named(region, part)} in step {header.step}, where {want} with "
            f"{named(*expected[:2])} were due. Nothing of it was used or counted. The "
            f"two do not run the same plan: start all tasks with the same release and "
            f"the same program.",
            step=header.step,
        )


def _posted(header: frame.Header, region_bytes: int) -> tuple[int, Range]:
    """Return which bytes of which region a frame says that it carries."""
    address = header.tensor << 32 | header.chunk
    region, lo = divmod(address, region_bytes)
    return region, Range(lo, lo + header.length)
