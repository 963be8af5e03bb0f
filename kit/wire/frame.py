"""The 64 bytes in front of every payload: layout, limits, checksum.

Pure: bytes in, values out. It opens no socket, allocates nothing whose size comes from
the wire, and does not know arrays. The byte table and examples are in `PROTOCOL.md`.

A header is parsed only on a connection that has passed the handshake, and even then no
field is trusted: `unpack` compares each one with `Bounds`, which the receiver makes
from what it knows itself (cluster, members, sizes of the registered buffers).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from kit.crc import crc32
from kit.errors import InvalidArgumentError, ProtocolError

Buffer = bytes | bytearray | memoryview

SIZE: Final = 64
MAGIC: Final = b"PSR1"
VERSION: Final = 1

HALT: Final = 1  # the sender has announced a halt at this step
CHECKSUM: Final = 2  # the checksum field is filled in
_KNOWN_FLAGS: Final = HALT | CHECKSUM

# Little-endian on every machine. Each number lies on a multiple of its size.
_LAYOUT: Final = struct.Struct("<4sBBHQIIQQIIIIII")
_FRONT: Final = struct.Struct("<4sBBHQIIQQIIII")  # all before the checksum
_CHECKSUM_AT: Final = 56
_BLANK: Final = bytes(SIZE - _CHECKSUM_AT)  # checksum and reserved field, both zero
_U32: Final = 2**32 - 1
_I64: Final = 2**63 - 1  # steps and sequences fit the signed numbers of others


class FrameKind(IntEnum):
    """What a frame is for."""

    CONTROL = 1  # a message: see kit/wire/message.py
    DATA = 2  # one chunk of a tensor
    ABORT = 3  # the sender gives up the step
    PING = 4  # nothing but a sign of life


class Header(NamedTuple):
    """One frame's header, in the order of the bytes; `checksum` is None without flag.

    `hold_us`: for how many microseconds after its arrival the receiver treats the
    payload as still on its way, which is how a slow line is simulated.
    """

    kind: int
    flags: int = 0
    cluster: int = 0
    epoch: int = 0
    sender: int = 0
    step: int = 0
    sequence: int = 0
    tensor: int = 0
    chunk: int = 0
    length: int = 0
    hold_us: int = 0
    checksum: int | None = None


class Bounds(NamedTuple):
    """The largest values that a receiver accepts, and the one cluster it belongs to."""

    cluster: int
    max_length: int
    max_sender: int = 65_535
    max_epoch: int = _U32
    max_tensor: int = _U32
    max_chunk: int = _U32
    max_hold_us: int = 60_000_000


def cluster_number(cluster_id: bytes) -> int:
    """Return the first 8 bytes of a 16-byte cluster id as the number that frames carry.

    >>> cluster_number(bytes([1, 2]) + bytes(14))
    513
    """
    return int.from_bytes(cluster_id[:8], "little")


def checksum(head: Buffer, *payload: Buffer) -> int:
    """Return the CRC-32 of a packed header, its checksum field as zero, and payload.

    Costs about 25 us per MiB in cache; it finds accidents, not attacks. A payload that
    comes in pieces may be counted piece by piece: `crc32(piece, checksum(head))`.
    """
    return _crc(memoryview(head)[:_CHECKSUM_AT], payload)


def _crc(front: Buffer, payload: Iterable[Buffer]) -> int:
    crc = crc32(_BLANK, crc32(front))
    for part in payload:
        crc = crc32(part, crc)
    return crc


def pack(header: Header, *payload: Buffer) -> bytes:
    """Return the 64 bytes of `header`, with the checksum if its flag is set.

    `header.length` is written as given: on shared memory the payload it counts does not
    follow on the link. Raises `InvalidArgumentError` for a value outside its field.

    >>> pack(Header(FrameKind.PING, cluster=7))[:16].hex(" ")
    '50 53 52 31 01 04 00 00 07 00 00 00 00 00 00 00'
    """
    return pack_fields(header[:11], payload)


def pack_fields(fields: Sequence[int], payload: Iterable[Buffer]) -> bytes:
    """Do what `pack` does for a header's first 11 fields, without making a `Header`."""
    try:
        front = _FRONT.pack(MAGIC, VERSION, *fields)
    except struct.error as exc:
        raise InvalidArgumentError(
            f"{Header(*fields)} does not fit its fields ({exc}); see the table in "
            f"PROTOCOL.md."
        ) from exc
    crc = _crc(front, payload) if fields[1] & CHECKSUM else 0
    # As eight bytes: the checksum, and the reserved field, which is zero.
    return front + crc.to_bytes(SIZE - _CHECKSUM_AT, "little")


def unpack(view: Buffer, *, bounds: Bounds) -> Header:
    """Return the header in the first 64 bytes of `view`; every field is checked.

    Raises `ProtocolError` naming the field, its value and the bound. Takes about 1.5 us
    and no memory beyond the result. The checksum, which needs the payload, is compared
    by `verify` or `compare`.

    >>> head = pack(Header(FrameKind.DATA, cluster=7, sequence=3, length=12))
    >>> unpack(head, bounds=Bounds(cluster=7, max_length=100)).length
    12
    """
    if len(view) < SIZE:
        raise ProtocolError(
            f"a frame header has {SIZE} bytes, {len(view)} are here; read on."
        )
    fields = _LAYOUT.unpack_from(view)
    # Tuples are taken apart whole: each name asked of `bounds` would take 30 ns.
    magic, version, kind, flags, cluster, epoch, sender, step, sequence = fields[:9]
    tensor, chunk, length, hold_us, crc, reserved = fields[9:]
    own, max_length, max_sender, max_epoch, max_tensor, max_chunk, max_hold_us = bounds
    # All in one condition for the usual case: which field it was is searched for only
    # once something is wrong.
    if (
        magic == MAGIC
        and version == VERSION
        and 1 <= kind <= 4
        and flags <= _KNOWN_FLAGS
        and cluster == own
        and epoch <= max_epoch
        and sender <= max_sender
        and step <= _I64
        and sequence <= _I64
        and tensor <= max_tensor
        and chunk <= max_chunk
        and length <= max_length
        and hold_us <= max_hold_us
        and reserved == 0
        and (crc == 0 or flags & CHECKSUM)
    ):
        return Header._make((*fields[2:13], crc if flags & CHECKSUM else None))
    raise ProtocolError(_complaint(fields, bounds))


def verify(head: Buffer, header: Header, *payload: Buffer) -> None:
    """Compare the checksum that a frame carries, if it carries one, with its bytes.

    Raises `ProtocolError` with both values.
    """
    if header.checksum is not None:
        compare(header, checksum(head, *payload))


def compare(header: Header, checksum: int) -> None:
    """Do what `verify` does, with a `checksum` found elsewhere."""
    if header.checksum not in (None, checksum):
        raise ProtocolError(
            f"frame {header.sequence} is damaged: its checksum says "
            f"{header.checksum:#010x}, its {header.length} bytes give "
            f"{checksum:#010x}. Nothing of it was used; drop this connection and open "
            f"a new one.",
            step=header.step,
        )


def _complaint(fields: tuple[int, ...], bounds: Bounds) -> str:
    """Return which field of a header that `unpack` refuses is wrong, and how."""
    limits = (
        *(("magic", MAGIC, MAGIC), ("version", VERSION, VERSION), ("kind", 1, 4)),
        *(("flags", 0, _KNOWN_FLAGS), ("cluster", bounds.cluster, bounds.cluster)),
        *(("epoch", 0, bounds.max_epoch), ("sender", 0, bounds.max_sender)),
        *(("step", 0, _I64), ("sequence", 0, _I64), ("tensor", 0, bounds.max_tensor)),
        *(("chunk", 0, bounds.max_chunk), ("length", 0, bounds.max_length)),
        ("hold_us", 0, bounds.max_hold_us),
        ("checksum", 0, _U32 if fields[3] & CHECKSUM else 0),
        ("reserved", 0, 0),
    )
    for value, (name, low, high) in zip(fields, limits, strict=True):
        if not low <= value <= high:  # type: ignore[operator]  # magic: bytes
            expected = f"{low!r}" if low == high else f"{low!r} to {high!r}"
            return (
                f"frame header field {name!r} is {value!r}, accepted is {expected}; "
                f"drop this connection: its bytes cannot be trusted any more."
            )
    raise AssertionError(f"a header was refused without a reason: {fields}")
