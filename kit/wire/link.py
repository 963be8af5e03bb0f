"""One authenticated connection between two tasks: whole frames and messages.

A link numbers its frames and refuses a gap or a repeat; it checks size and checksum
before a payload is handed out. Several threads may send and receive; each frame is
whole. A link that fails once has failed for good, for every thread that waits on it.

Its clock and deadlines are monotonic seconds. It does not know what messages mean.

Theory of operation. Each direction has a lock, which a thread holds for one whole
frame, wait included: so frames never mix, and one thread may wait for a frame while
another one sends. What may end a link are errors of the stream, a frame that cannot be
right, a deadline or an interrupt within a frame, and `close`. All of them go through
`_fail`: it keeps the first reason and shuts the stream down, and that wakes the threads
that wait on it, which find the reason there. A deadline *between* two frames ends
nothing: no byte was consumed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from kit.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    KitError,
    LinkLost,
    ProtocolError,
)
from kit.system import has_hung_up
from kit.task import Task
from kit.wire.frame import (
    CHECKSUM,
    Bounds,
    Buffer,
    FrameKind,
    Header,
    pack_fields,
)
from kit.wire.frame_reader import FrameReader
from kit.wire.handshake.messages import BULK, Role
from kit.wire.message import pack_message, unpack_message
from kit.wire.stream import ENCRYPTED, Clock, Stream, write_all, write_joined

MAX_BODY: Final = 16 * 2**20

_CONTROL, _PING = int(FrameKind.CONTROL), int(FrameKind.PING)  # quicker than members

# A unix socket damages nothing, and TLS checks better than we could. A checksum finds
# only our own mistakes there, and for a large frame it takes longer than sending it.
_CHECKED: Final = 4096

# Copying this much costs less than handing the kernel a list of buffers.
_SMALL: Final = 8192

# A thread that was woken by shutdown leaves at once; this is for a machine that swaps.
_LEAVE_S: Final = 1.0


class Link:
    """A link of `local` to `peer` over an authenticated stream, which it owns.

    `heard_at` is the clock's time of the last frame received, for failure detectors.
    """

    def __init__(
        self,
        stream: Stream,
        *,
        local: Task,
        peer: Task,
        role: Role,
        bounds: Bounds,
        run_id: bytes = bytes(16),
        incarnation: int = 0,
        checksum: bool = True,
        clock: Clock = time.monotonic,
    ) -> None:
        self.local, self.peer, self.role = local, peer, role
        self.run_id, self.incarnation = run_id, incarnation
        self.heard_at = clock()
        self._stream, self._bounds, self._clock = stream, bounds, clock
        self._flags = CHECKSUM if checksum else 0
        # Bytes read ahead would be missing elsewhere. On a data link they belong to the
        # data path, which takes the stream over; and on a link for copies descriptors
        # may follow a question, which a read of plain bytes would lose.
        may_read_ahead = role not in (*BULK, Role.COPIES)
        is_safe = stream.kind in ("unix", *ENCRYPTED)
        self._most_checked = _CHECKED if is_safe else bounds.max_length
        self._reader = FrameReader(stream, bounds, clock, ahead=may_read_ahead)
        self._sent = 0
        self._sending, self._receiving = threading.Lock(), threading.Lock()
        self._state = threading.Lock()  # taken last, and never held during a wait
        # The message alone: an exception's traceback would keep its frames alive, and
        # with them the link and whatever waits on it.
        self._failure = ""
        self._is_closed = False

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "lost" if self._failure else "open"
        return f"<Link {self.local.short} - {self.peer.short} {self.transport} {state}>"

    @property
    def transport(self) -> str:
        """One of `unix`, `tcp`, `tls`, `aes-gcm`, `memory`."""
        return self._stream.kind

    @property
    def stream(self) -> Stream:
        """The stream below, for the data path, which has its own frames.

        Only of links for data and copies: others read ahead, so bytes would be missing.
        """
        return self._stream

    def fileno(self) -> int:
        """Return the descriptor, -1 once closed.

        A link reads ahead: poll only after `recv` has found nothing.
        """
        return self._stream.fileno()

    def has_hung_up(self) -> bool:
        """Whether the other side has closed its end; costs a system call.

        A thread that is preparing an answer can find out that nobody waits for it.
        """
        try:
            return has_hung_up(self._stream.fileno())
        except (OSError, ValueError):
            return True  # closed on this side

    def send(
        self,
        *payload: Buffer,
        deadline_s: float,
        kind: FrameKind = FrameKind.CONTROL,
        flags: int = 0,
        epoch: int = 0,
        step: int = 0,
        tensor: int = 0,
        chunk: int = 0,
    ) -> None:
        """Send one frame; the parts of `payload` go out one after the other, uncopied.

        Raises `LinkLost`. A peer that does not take the whole frame in time loses the
        link as well (`DeadlineExceededError`): half a frame cannot be taken back.
        """
        deadline = self._clock() + deadline_s
        length = 0
        for part in payload:
            length += len(part) if type(part) is bytes else memoryview(part).nbytes
        if length > self._bounds.max_length:
            raise InvalidArgumentError(
                f"a frame to {self.peer.short} may carry {self._bounds.max_length} "
                f"bytes, not {length}; send it in several.",
                task=str(self.peer),
            )
        self._take(self._sending, deadline, "sending")
        try:
            # The number goes into the head, so the head is made under the lock: frames
            # must leave in the order of their numbers.
            cluster, sender = self._bounds.cluster, self.local.index
            if length <= self._most_checked:
                flags |= self._flags
            fields = (kind, flags, cluster, epoch, sender, step)
            head = pack_fields((*fields, self._sent, tensor, chunk, length, 0), payload)
            try:
                write = write_joined if length <= _SMALL else write_all
                write(self._stream, (head, *payload), deadline, self._clock)
            except KitError as exc:
                raise self._fail(self._named(exc, "sending")) from exc
            except BaseException:
                self._interrupted("sending")
                raise
            self._sent += 1
        finally:
            self._sending.release()

    def recv(self, *, deadline_s: float) -> tuple[Header, bytearray]:
        """Return the next frame.

        Raises `DeadlineExceededError` when none has begun in time: the link is whole
        then, ask again. Raises `LinkLost` when the peer is gone or stops within a
        frame, `ProtocolError` for a frame that cannot be right; both end the link.
        No memory is taken for a payload before its length has been checked.
        """
        return self._recv(self._clock() + deadline_s)

    def send_message(
        self, message: Mapping[str, Any], blob: Buffer = b"", *, deadline_s: float
    ) -> None:
        """Send plain data and bytes as one control frame; raises as `send` does."""
        self.send(*pack_message(message, blob), deadline_s=deadline_s)

    def recv_message(self, *, deadline_s: float) -> tuple[dict[str, Any], bytearray]:
        """Return the next message and its blob; raises as `recv` does.

        Signs of life are passed over. Any other frame but CONTROL is a `ProtocolError`.
        """
        deadline = self._clock() + deadline_s
        header, body = self._recv(deadline)
        while header.kind == _PING:
            header, body = self._recv(deadline)
        try:
            if header.kind != _CONTROL:
                raise ProtocolError(
                    f"a frame of kind {FrameKind(header.kind).name} came where a "
                    f"message was due."
                )
            return unpack_message(body)
        except KitError as exc:
            raise self._fail(self._named(exc, "receiving")) from exc

    def close(self) -> None:
        """End the link and wake every thread that waits on it. May be called twice."""
        with self._state:
            if self._is_closed:
                return
            self._is_closed = True
        # Before taking the locks: threads that hold them wait on the stream, and this
        # is what wakes them.
        self._fail(LinkLost(f"the link to {self.peer.short} was closed on this side."))
        # Both locks first: else a thread about to poll this descriptor could poll the
        # file that gets its number next.
        locks = self._sending, self._receiving
        taken = [lock for lock in locks if lock.acquire(timeout=_LEAVE_S)]
        self._stream.close()
        for lock in taken:
            lock.release()

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _recv(self, deadline: float) -> tuple[Header, bytearray]:
        self._take(self._receiving, deadline, "receiving")
        try:
            if not self._reader.has_begun:
                self._begin(deadline)
            # From here on a deadline ends the link as well: part of a frame has been
            # consumed, and the next call would take the rest for a header.
            try:
                frame = self._reader.take(deadline)
            except KitError as exc:
                raise self._fail(self._named(exc, "receiving")) from exc
            except BaseException:
                self._interrupted("receiving")
                raise
            self.heard_at = self._clock()
            return frame
        finally:
            self._receiving.release()

    def _begin(self, deadline: float) -> None:
        """Wait for the first bytes of a frame; a deadline here harms nothing."""
        try:
            is_here = self._reader.begin(deadline)
        except DeadlineExceededError as exc:
            raise DeadlineExceededError(
                f"{self.peer.short} sent nothing in time. Ask again, or see in its log "
                f"what it is doing.",
                task=str(self.peer),
            ) from exc
        except KitError as exc:
            raise self._fail(self._named(exc, "receiving")) from exc
        if not is_here:
            raise self._fail(
                LinkLost(
                    f"{self.peer.short} closed its link to {self.local.short} after "
                    f"{self._reader.received} frames; see in its log why.",
                    task=str(self.peer),
                )
            )

    def _take(self, lock: threading.Lock, deadline: float, doing: str) -> None:
        """Take one direction of the link, if the link is still good."""
        # First without reading the clock: the lock is nearly always free.
        if not lock.acquire(False) and not lock.acquire(
            timeout=max(0.0, deadline - self._clock())
        ):
            raise DeadlineExceededError(
                f"another thread was {doing} on the link to {self.peer.short} all the "
                f"time; allow a longer deadline or use a link of your own.",
                task=str(self.peer),
            )
        # Only once the lock is ours: the thread before us may have lost the link.
        if self._failure:
            lock.release()
            raise self._lost()

    def _fail(self, error: KitError) -> KitError:
        """End the link and return what to raise: `error`, or that it was lost before.

        Shutting the stream down wakes the threads that wait on it. Each of them fails
        too, with an error that says less; all but the first get that first reason.
        """
        with self._state:
            is_first = not self._failure
            if is_first:
                self._failure = error.message
        self._stream.shutdown()
        return error if is_first else self._lost()

    def _interrupted(self, doing: str) -> None:
        """End the link: an interrupt (Ctrl-C) may have left half a frame behind."""
        self._fail(LinkLost(f"{doing} was interrupted ({self.peer.short})."))

    def _lost(self) -> LinkLost:
        return LinkLost(
            f"the link to {self.peer.short} is lost since this: {self._failure}",
            task=str(self.peer),
        )

    def _named(self, exc: KitError, doing: str) -> KitError:
        return type(exc)(
            f"{doing} failed on the link to {self.peer.short}: {exc.message}",
            task=str(self.peer),
            step=exc.step,
        )
