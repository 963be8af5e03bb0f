"""Records of AES-256-GCM: what a data link between hosts carries once TLS has vouched.

Theory of operation. Mutual TLS 1.3 says who is at the other end, and the handshake that
both hold the cluster's key. After that a training sends megabytes in each step, and
Python's `ssl` seals them 16 KiB at a time, with a call and a copy for each piece. So
both ends of a data link leave TLS behind: they exchange fresh secrets inside it
(`handshake/keys.py`), derive one key per direction, and carry on over the same socket
with the records of this module, up to 256 KiB in one call of `cryptography`, which
encrypts and decrypts without the interpreter's lock.

    head, 4 bytes: length of the data, and the kind in the uppermost byte
    the data, encrypted; only records of kind DATA have any
    tag, 16 bytes

    DATA    1 to 262,144 bytes of the stream
    REKEY   all later records of this direction are under the next key
    CLOSE   the stream ends here, on purpose

What a record is sealed with. The key of its direction; as nonce its number under that
key, 96 bits, from 0; as associated data its head. The number is never sent: the
receiver counts. A record that was changed by one bit, left out, sent twice, put before
another one, taken from the other direction or from another link does not open, since
one of key, number and bytes differs; and no older record can be replayed, since no
number is used twice under a key. No byte of a record that does not open is passed on;
the link is lost then, for good, as a TLS connection would be.

The head is not secret (its size shows on the wire anyway) but it is authenticated. It
is used before the tag is checked for one thing only: to know how many bytes to wait
for, never more than 262,160.

Why nonces never repeat. Each direction has a key of its own, made of random bytes of
both ends for this one connection, and one counter, which is increased before a record
is sealed: an exception in between leaves a number out, and the receiver refuses the
next record. A sealed record is sent as it is however often the socket must be asked.

How long a key lasts. The 96-bit counter would last for ever, but an attacker's chance
grows with what one key has sealed: RFC 8446, 5.5, allows TLS 1.3 2^24.5 records of
16 KiB under one AES-GCM key, which is 2^20.5 of 256 KiB. So after 2^20 records the
sender sends REKEY and both ends go on with HKDF-Expand of the key, counting from 0; the
old key is forgotten, and cannot be computed from the new one. A receiver takes no
more than that many records under one key, whatever the sender does.

How an end differs from a cut. The side that closes the stream or shuts it down sends
CLOSE. The end of the connection without it is a `LinkLost`: bytes may be missing. CLOSE
is sent if the socket takes it at once, since neither call may wait; if not, the other
end sees a cut, which is what a peer that does not read has caused.

What this does not do: hide how much is sent and when, or keep an attacker from ending
a connection. TLS does neither.
"""

from __future__ import annotations

import hmac
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from kit.errors import LinkLost
from kit.wire.frame import Buffer
from kit.wire.stream import AES_GCM, Stream

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

HEAD_BYTES, TAG_BYTES, KEY_BYTES = 4, 16, 32
MAX_DATA: Final = 2**18
RECORDS_PER_KEY: Final = 2**20

_OVERHEAD: Final = HEAD_BYTES + TAG_BYTES
_KIND_SHIFT: Final = 24
_SIZE_MASK: Final = 2**_KIND_SHIFT - 1
_ASK: Final = "Ask who runs the network between the two hosts."
_NEXT_KEY: Final = b"psring records 1: next key"
# Buffers shorter than this are copied into one record with others as short; a longer
# one gets records of its own, so the other end decrypts them to where they belong.
_SHORT: Final = 2**14
# A piece that leaves in one call, of one or several records: a bucket's share of a ring
# (512 KiB) with its frame's head and a REKEY before it, which measured faster than two
# calls; beside it room for a CLOSE.
_BATCH: Final = 2 * MAX_DATA + _SHORT + 4 * _OVERHEAD
_ROOM: Final = _BATCH + _OVERHEAD
# How much is read beyond the record at hand: mostly the head of a frame and that of its
# first record. More would have to be moved to the front of the room later; only when
# nothing is left over is everything read that there is room for.
_AHEAD: Final = 128


class RecordKind(IntEnum):
    """What a record is for; no kind is 0, so that zeros are not a record."""

    DATA = 1
    REKEY = 2
    CLOSE = 3


_DATA: Final = RecordKind.DATA  # an enum's member is slower to find


class Direction:
    """The key of one direction and the number of its next record."""

    def __init__(self, key: bytes, *, most: int = RECORDS_PER_KEY) -> None:
        """Begin with `key`, 32 bytes; `most` records are sealed or opened under it."""
        self._most = most
        self._take(key)

    @property
    def is_last(self) -> bool:
        """Whether the key may seal only one more record, which must be a REKEY."""
        return self._count >= self._most - 1

    @property
    def is_unused(self) -> bool:
        """Whether no record has been sealed or opened under the key yet."""
        return not self._count

    def seal(self, kind: RecordKind, data: Buffer, room: memoryview) -> int:
        """Write a record of `data` to the front of `room`; return its size."""
        size = len(data)
        head = (kind << _KIND_SHIFT | size).to_bytes(HEAD_BYTES, "little")
        end = size + _OVERHEAD
        room[:HEAD_BYTES] = head
        nonce = self._next_nonce()
        self._cipher.encrypt_into(nonce, data, head, room[HEAD_BYTES:end])
        return end

    def open(self, head: bytes, sealed: memoryview, room: memoryview) -> None:
        """Decrypt a record into `room`, as large as its data.

        Raises `InvalidTag` of `cryptography` for anything but the record that is due;
        `room` may have been written to by then.
        """
        self._cipher.decrypt_into(self._next_nonce(), sealed, head, room)

    def rekey(self) -> None:
        """Replace the key by the one that follows from it."""
        self._take(expanded(self._key, _NEXT_KEY))

    def _take(self, key: bytes) -> None:
        self._key, self._cipher, self._count = key, _cipher(key), 0

    def _next_nonce(self) -> bytes:
        number = self._count
        self._count = number + 1  # before its use: see "Why nonces never repeat"
        return number.to_bytes(12, "little")


class RecordStream:
    """A stream of records over another stream, which it owns."""

    kind = AES_GCM

    def __init__(self, stream: Stream, *, sends: Direction, takes: Direction) -> None:
        """Go on over `stream`, of which both ends have used the same bytes until here.

        `sends` and `takes` hold the keys of the two directions.
        """
        self.peer = stream.peer
        self._stream, self._sends, self._takes = stream, sends, takes
        # What is sealed, and sent up to `_at`; where each record ends, and the size of
        # its data.
        self._out = memoryview(bytearray(_ROOM))
        self._at = self._end = 0
        self._records: deque[tuple[int, int]] = deque()
        self._sending = threading.Lock()  # `shutdown` may come from any thread
        self._is_shut = False
        # What has come: opened up to `_begun`, received up to `_came`.
        self._in = memoryview(bytearray(MAX_DATA + _OVERHEAD + 2 * _AHEAD))
        self._begun = self._came = 0
        self._head, self._due = b"", HEAD_BYTES  # of the next record: its bytes in all
        self._spare = memoryview(bytearray(MAX_DATA))
        self._opened = self._spare[:0]
        self._is_ended = False
        self._failure = ""  # why this stream is lost for good

    def fileno(self) -> int:
        """See `Stream`, as for all methods below."""
        return self._stream.fileno()

    def read_into(self, view: memoryview) -> int | None:
        """See `Stream.read_into`; an end without CLOSE is `LinkLost`.

        After an error `view` may hold bytes that failed their check.
        """
        # It goes on until there are data, an end or nothing to read: a REKEY alone, or
        # a head without its record, is nothing that a caller could be given. 0 would be
        # taken for the end.
        while not self._opened:
            if self._failure:
                raise self._lost(self._failure)
            if self._is_ended:
                return 0
            if self._came - self._begun < self._due:
                came = self._read_on()
                if not came:
                    return came if came is None else self._at_the_end()
            elif self._due == HEAD_BYTES:
                self._take_head()
            elif n_bytes := self._open_next(view):
                return n_bytes
        n_bytes = min(len(view), len(self._opened))
        view[:n_bytes] = self._opened[:n_bytes]
        self._opened = self._opened[n_bytes:]
        return n_bytes

    def write(self, buffers: Sequence[Buffer]) -> int | None:
        """See `Stream.write`."""
        with self._sending:
            if self._is_shut:
                raise LinkLost(f"the stream to {self.peer} is closed on this side.")
            if self._at == self._end:
                self._seal(buffers)
                if not self._end:
                    return 0
            sent = self._stream.write((self._out[self._at : self._end],))
            if sent is None:
                return None
            self._at += sent
            # A record that has left only in part is not counted yet. The caller offers
            # its bytes again, which is not sealed again: it would get another number,
            # and the other end would receive these bytes twice.
            taken = 0
            while self._records and self._records[0][0] <= self._at:
                taken += self._records.popleft()[1]
            return taken or None

    def shutdown(self) -> None:
        """See `Stream.shutdown`."""
        self._say_close()
        self._stream.shutdown()

    def close(self) -> None:
        """See `Stream.close`."""
        self._say_close()
        self._stream.close()

    def _say_close(self) -> None:
        # The socket takes no CLOSE while the peer does not read. Waiting for that could
        # hang a `close`, so it is tried once: see "How an end differs from a cut".
        with self._sending:
            if self._is_shut:
                return
            self._is_shut = True
            self._end += self._sends.seal(RecordKind.CLOSE, b"", self._out[self._end :])
            with suppress(LinkLost):
                self._stream.write((self._out[self._at : self._end],))

    def _seal(self, buffers: Sequence[Buffer]) -> None:
        """Fill the room for what is sealed with the first bytes of `buffers`."""
        self._at = self._end = 0
        self._records.clear()
        for data in _pieces(buffers):
            size = len(data)
            if self._end and self._end + size + _OVERHEAD > _BATCH:
                return
            if self._sends.is_last:
                if self._end:
                    return  # there is room for one REKEY, at the beginning
                self._end = self._sends.seal(RecordKind.REKEY, b"", self._out)
                self._sends.rekey()
                self._records.append((self._end, 0))
            self._end += self._sends.seal(_DATA, data, self._out[self._end :])
            self._records.append((self._end, size))

    def _read_on(self) -> int | None:
        """Read what is missing of a head or a record, and a little more."""
        here = self._came - self._begun
        until = self._begun + self._due + _AHEAD
        if not here or until > len(self._in):
            self._in[:here] = self._in[self._begun : self._came]
            self._begun, self._came = 0, here
            until = self._due + _AHEAD if here else len(self._in)
        came = self._stream.read_into(self._in[self._came : until])
        if came:
            self._came += came
        return came

    def _take_head(self) -> None:
        """Note how long the next record is. Refuses one that cannot be due.

        The head is not authenticated yet: an attacker can at most make us wait for a
        record's full size, which then does not open.
        """
        self._head = bytes(self._in[self._begun : self._begun + HEAD_BYTES])
        number = int.from_bytes(self._head, "little")
        kind, size = number >> _KIND_SHIFT, number & _SIZE_MASK
        if kind == _DATA:
            is_due = 0 < size <= MAX_DATA and not self._takes.is_last
        elif kind == RecordKind.REKEY:  # two in a row could go on for ever
            is_due = size == 0 and not self._takes.is_unused
        else:
            is_due = kind == RecordKind.CLOSE and size == 0
        if not is_due:
            raise self._lost(
                f"brought the head of a record of kind {kind} with {size} bytes, which "
                f"is not due: bytes were changed on the way. {_ASK}"
            )
        self._due = size + _OVERHEAD

    def _open_next(self, view: memoryview) -> int:
        """Open the next record, into `view` if it has room for all of it, else apart.

        Returns how many bytes are in `view` now.
        """
        size, end = self._due - _OVERHEAD, self._begun + self._due
        sealed = self._in[self._begun + HEAD_BYTES : end]
        # Straight into the caller's memory if all of it fits, which is nearly always
        # so: only then is the payload not copied once more.
        self._begun, self._due = end, HEAD_BYTES
        fits = size <= len(view)
        room = view[:size] if fits else self._spare[:size]
        try:
            self._takes.open(self._head, sealed, room)
        except _invalid_tag() as exc:
            raise self._lost(
                "brought a record that does not open: bytes were changed, left out or "
                f"repeated on the way. {_ASK}"
            ) from exc
        if not size:
            if self._head[-1] == RecordKind.REKEY:
                self._takes.rekey()
            else:
                self._is_ended = True
        if fits:
            return size
        self._opened = room
        return 0

    def _at_the_end(self) -> int:
        if self._is_shut:
            return 0
        raise self._lost(
            "ended without a sign that this was meant; what was sent last may be "
            "missing. See whether the task there still runs, and in its log why not."
        )

    def _lost(self, what: str) -> LinkLost:
        self._failure = self._failure or what
        return LinkLost(f"the {self.kind} connection to {self.peer} {self._failure}")


def expanded(key: bytes, label: bytes) -> bytes:
    """Return 32 bytes for one use of a key: HKDF-Expand with SHA-256 (RFC 5869)."""
    return hmac.digest(key, label + b"\x01", "sha256")


def extracted(salt: bytes, secret: bytes) -> bytes:
    """Return a key made of a secret: HKDF-Extract with SHA-256 (RFC 5869)."""
    return hmac.digest(salt, secret, "sha256")


def _cipher(key: bytes) -> AESGCM:
    # Imported late: a cluster on one host does not need it, and it takes 0.1 s.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)


def _invalid_tag() -> type[Exception]:
    # Imported as late as in `_cipher`; `except` asks only once something was raised.
    from cryptography.exceptions import InvalidTag

    return InvalidTag


def _pieces(buffers: Sequence[Buffer]) -> Iterator[Buffer]:
    """Yield the data of one record after the other: short buffers share one."""
    few = b""
    for buffer in buffers:
        if not len(buffer):
            continue
        view = memoryview(buffer).cast("B")
        while len(view) >= _SHORT:
            if few:
                yield few
                few = b""
            yield view[:MAX_DATA]
            view = view[MAX_DATA:]
        if len(few) + len(view) > _SHORT:
            yield few
            few = b""
        few += view
    if few:
        yield few
