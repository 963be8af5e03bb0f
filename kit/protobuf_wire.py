"""Messages of protocol buffers as bytes: the little of it that records and graphs need.

Pure. A field is a key, `number << 3 | wire type`, and its contents.
"""

from __future__ import annotations

from collections.abc import Iterator

VARINT, DOUBLE, BYTES, FLOAT = 0, 1, 2, 5  # the wire types
_SIZES = {DOUBLE: 8, FLOAT: 4}


def varint(number: int) -> bytes:
    """Return a whole number of at least 0, seven bits in a byte.

    >>> list(varint(300))
    [172, 2]
    """
    made = bytearray()
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    made.append(number)
    return bytes(made)


def block(field: int, value: bytes) -> bytes:
    """Return a field that holds bytes, a text or a message."""
    return varint(field << 3 | BYTES) + varint(len(value)) + value


def fields(message: bytes, *wanted: int) -> Iterator[tuple[int, bytes]]:
    """Yield number and contents of the wanted fields; a number as its own bytes.

    Raises `IndexError` for bytes that are not a message.
    """
    at = 0
    while at < len(message):
        key, at = read_varint(message, at)
        field, wire, begin = key >> 3, key & 7, at
        if wire == VARINT:
            _, at = read_varint(message, at)
        elif wire in _SIZES:
            at += _SIZES[wire]
        elif wire == BYTES:
            size, begin = read_varint(message, at)
            at = begin + size
        if wire not in (VARINT, BYTES, *_SIZES) or not field:
            raise IndexError(f"{key} begins no field")
        if at > len(message):
            raise IndexError(f"field {field} ends after the message")
        if field in wanted:
            yield field, message[begin:at]


def read_varint(message: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins at a byte, and where the next byte is."""
    number = shift = 0
    while True:
        byte = message[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return number, at
        if shift > 63:
            raise IndexError("a number of more than 64 bits")
