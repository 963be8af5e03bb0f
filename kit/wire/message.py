"""The body of a control frame: one JSON object and one blob of bytes.

    u32 length of the JSON text | JSON text, UTF-8 | blob: all the rest

Pure. Plain data only: a message never makes the receiver run code, and its numbers,
texts and lists mean what JSON says. Arrays travel in the blob, or in
session messages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from kit.errors import InvalidArgumentError, ProtocolError
from kit.wire.frame import Buffer

_PREFIX: Final = 4

# Made once: json.dumps with separators makes an encoder for every call.
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))
_DECODER: Final = json.JSONDecoder()


def pack_message(message: Mapping[str, Any], blob: Buffer = b"") -> tuple[Buffer, ...]:
    r"""Return the parts of the body, to be written one after the other, uncopied.

    Raises `InvalidArgumentError` when `message` is not plain data.

    >>> b"".join(pack_message({"do": "stop"}, b"xyz"))
    b'\r\x00\x00\x00{"do":"stop"}xyz'
    """
    text = pack_text(message)
    return len(text).to_bytes(_PREFIX, "little") + text, blob


def unpack_message(body: bytearray) -> tuple[dict[str, Any], bytearray]:
    r"""Return message and blob of `body`, which is used up: the blob is its rest.

    Raises `ProtocolError` for anything but one JSON object within the body.

    >>> unpack_message(bytearray(b'\r\x00\x00\x00{"do":"stop"}xyz'))
    ({'do': 'stop'}, bytearray(b'xyz'))
    """
    end = _PREFIX + int.from_bytes(body[:_PREFIX], "little")
    if len(body) < _PREFIX or end > len(body):
        raise ProtocolError(
            f"a message of {len(body)} bytes says that its text ends at byte {end}; "
            f"drop this connection."
        )
    message = unpack_text(body[_PREFIX:end])
    del body[:end]  # moves a pointer, not the bytes
    return message, body


def pack_text(message: Mapping[str, Any]) -> bytes:
    """Return plain data as the bytes of one JSON object.

    Raises `InvalidArgumentError` when `message` is not plain data.

    >>> pack_text({"do": "stop", "at": [7, None]})
    b'{"do":"stop","at":[7,null]}'
    """
    try:
        return _ENCODER.encode(message).encode()
    except (TypeError, ValueError, RecursionError) as exc:
        raise InvalidArgumentError(
            f"a message must be plain data (dict, list, str, int, float, bool, None), "
            f"but {exc}; send arrays in the blob."
        ) from exc


def unpack_text(text: bytes | bytearray) -> dict[str, Any]:
    """Return the JSON object that `text` is.

    Raises `ProtocolError` for anything else.

    >>> unpack_text(b'{"do":"stop"}')
    {'do': 'stop'}
    """
    try:
        characters = text.decode().strip(" \t\n\r")
        # decode() would look for white space with a regular expression, which costs as
        # much as reading a small message.
        message, end = _DECODER.raw_decode(characters)
    except (ValueError, RecursionError) as exc:  # JSON and UTF-8 errors are ValueErrors
        raise ProtocolError(
            f"a message's {len(text)} bytes of text are not JSON in UTF-8 ({exc}); "
            f"drop this connection."
        ) from exc
    if end != len(characters):
        raise ProtocolError(
            f"a message's JSON ends at character {end} of {len(characters)}; drop this "
            f"connection."
        )
    if not isinstance(message, dict):
        raise ProtocolError(
            f"a message must be a JSON object, this one is a "
            f"{type(message).__name__}; drop this connection."
        )
    return message
