"""From TLS to records: both ends of a data link exchange secrets inside TLS, then go.

`ready` is the last step of opening a link. On a data link under TLS each end sends 40
bytes: four letters, how it wants to encrypt from here on (the setting `encryption`),
and a fresh random secret. They cross, and each end reads those of the other. If both
say AES-GCM, the socket is taken back from TLS, and all that follows are records
(`kit/wire/records.py`); if both say TLS, nothing changes; if they differ, both refuse
and name both settings.

The two keys come from both secrets, the client's first, by HKDF with the cluster's key
as salt; a label tells the directions apart. So a key is fresh even if one end's random
numbers are poor, and the cluster's key alone reveals nothing.

Taking the socket back. What must not be lost is a record that the other end sends right
after its 40 bytes. OpenSSL takes from the socket what the TLS record at hand needs and
not a byte more (`SSL_CTX_set_read_ahead(3)`: off unless asked for), so what follows is
still in the socket. No message of TLS itself can follow: there are no tickets
(`num_tickets = 0`), neither end asks for new keys, and dropping the object sends no
closing message. Bytes that TLS has decrypted beyond the 40 are refused.
"""

from __future__ import annotations

import secrets
import struct
import time
from typing import Final

from kit.errors import FailedPreconditionError, LinkLost, ProtocolError
from kit.wire.handshake.messages import BULK, Role
from kit.wire.handshake.tls import TlsStream
from kit.wire.records import Direction, RecordStream, expanded, extracted
from kit.wire.stream import AES_GCM, Clock, Stream, read_some, write_all

SECRET_BYTES: Final = 32
_EXCHANGE: Final = struct.Struct("<4sHH32s")  # magic, encryption, reserved, secret
_MAGIC: Final = b"PSRK"
_CODES: Final = {"tls": 1, AES_GCM: 2}
_NAMES: Final = {code: name for name, code in _CODES.items()}


def ready(
    stream: Stream,
    role: Role,
    key: bytes,
    *,
    encryption: str,
    is_client: bool,
    deadline: float,
    clock: Clock = time.monotonic,
) -> Stream:
    """Return what a link goes on with after the handshake; mostly `stream` itself.

    `key` is the cluster's. Raises `FailedPreconditionError` if the other end encrypts
    in another way, `ProtocolError`, `LinkLost` or `DeadlineExceededError`.
    """
    if role not in BULK or not isinstance(stream, TlsStream):
        return stream
    ours = secrets.token_bytes(SECRET_BYTES)
    # Both ends write before they read, so neither waits for the other: 40 bytes always
    # fit into the socket's buffer.
    write_all(stream, [pack_exchange(encryption, ours)], deadline, clock)
    message = _received(stream, _EXCHANGE.size, deadline, clock)
    wanted, theirs = unpack_exchange(message)
    if wanted != encryption:
        raise FailedPreconditionError(
            f"this side has the setting encryption={encryption!r}, {stream.peer} has "
            f"encryption={wanted!r}. Give all tasks of the cluster the same, for "
            f"example by KIT_ENCRYPTION={AES_GCM}."
        )
    if encryption == "tls":
        return stream
    both = (ours, theirs) if is_client else (theirs, ours)
    sends, takes = direction_keys(key, *both)
    if not is_client:
        sends, takes = takes, sends
    bare = stream.taken_back(AES_GCM)
    return RecordStream(bare, sends=Direction(sends), takes=Direction(takes))


def direction_keys(key: bytes, client: bytes, server: bytes) -> tuple[bytes, bytes]:
    """Return the keys from client to server and back, of the secrets of both."""
    common = extracted(key, client + server)
    labels = (b"psring records 1: client", b"psring records 1: server")
    to_server, to_client = (expanded(common, label) for label in labels)
    return to_server, to_client


def pack_exchange(encryption: str, secret: bytes) -> bytes:
    """Return the 40 bytes that an end sends."""
    return _EXCHANGE.pack(_MAGIC, _CODES[encryption], 0, secret)


def unpack_exchange(message: bytes) -> tuple[str, bytes]:
    """Return encryption and secret; raises `ProtocolError` for other bytes."""
    magic, code, reserved, secret = _EXCHANGE.unpack(message)
    if magic != _MAGIC or code not in _NAMES or reserved:
        raise ProtocolError(
            f"{message[:8].hex()} came where a data link says how it encrypts; install "
            f"the same psring on both sides."
        )
    return _NAMES[code], secret


def _received(stream: Stream, n_bytes: int, deadline: float, clock: Clock) -> bytes:
    room = memoryview(bytearray(n_bytes))
    at = 0
    while at < n_bytes:
        came = read_some(stream, room[at:], deadline, clock)
        if not came:
            raise LinkLost(
                f"{stream.peer} closed a data link before it said how it encrypts; see "
                f"in its log why."
            )
        at += came
    return bytes(room)
