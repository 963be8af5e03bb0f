"""Records of training data: a `tf.train.Example` is lists of values by name.

Pure. A record is a message of protocol buffers, which is read and written by hand here,
so that neither a task nor a program needs their package.

    Example   1: Features
    Features  1: entries of a map, 1: name, 2: Feature
    Feature   one of 1: texts, 2: float32, 3: int64, each in a list whose field is 1
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from kit.errors import InvalidArgumentError
from kit.graph.dtypes import STRING, Array, DType

# By the field of a Feature.
KINDS: Final[Mapping[int, DType]] = {
    1: STRING,
    2: np.dtype(np.float32),
    3: np.dtype(np.int64),
}
_VARINT, _DOUBLE, _BYTES, _FLOAT = 0, 1, 2, 5  # the wire types
_SIZES: Final = {_DOUBLE: 8, _FLOAT: 4}


def encode(features: Mapping[str, tuple[int, Sequence[Any]]]) -> bytes:
    """Return a record with the values of some names, each with its field of `KINDS`.

    >>> decode(encode({"n": (3, [1, -1])}))["n"]
    array([ 1, -1])
    """
    made = bytearray()
    for name, (kind, values) in features.items():
        feature = _bytes(kind, _listed(kind, values)) if kind else b""
        made += _bytes(1, _bytes(1, name.encode()) + _bytes(2, feature))
    return _bytes(1, bytes(made))


def _listed(kind: int, values: Sequence[Any]) -> bytes:
    if kind == 1:
        return b"".join(_bytes(1, bytes(value)) for value in values)
    if kind == 2:
        return _bytes(1, np.asarray(values, "<f4").tobytes()) if values else b""
    # A negative number is written as the 64 bits that it has.
    numbers = b"".join(_varint(int(value) & 0xFFFF_FFFF_FFFF_FFFF) for value in values)
    return _bytes(1, numbers) if values else b""


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    made.append(number)
    return bytes(made)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | _BYTES) + _varint(len(value)) + value


def decode(record: bytes) -> dict[str, Array]:
    """Return the values of all names; raises `InvalidArgumentError` for other bytes."""
    found: dict[str, Array] = {}
    try:
        for _, features in _fields(record, 1):
            for _, entry in _fields(features, 1):
                name, values = b"", np.zeros(0, np.float32)
                for field, part in _fields(entry, 1, 2):
                    if field == 1:
                        name = part
                    else:
                        values = _values(part)
                found[name.decode()] = values
    except (IndexError, ValueError, struct.error) as exc:
        raise InvalidArgumentError(
            f"Could not parse example input: these {len(record)} bytes are no "
            f"tf.train.Example ({exc})."
        ) from exc
    return found


def _values(feature: bytes) -> Array:
    for kind, listed in _fields(feature, *KINDS):
        parts = [part for _, part in _fields(listed, 1)]
        if kind == 1:
            texts = np.empty(len(parts), object)
            texts[:] = parts
            return texts
        if kind == 2:
            return np.frombuffer(b"".join(parts), "<f4").astype(np.float32)
        numbers = [number for part in parts for number in _numbers(part)]
        return np.array(numbers, np.uint64).astype(np.int64)
    return np.zeros(0, np.float32)


def _numbers(packed: bytes) -> Iterator[int]:
    at = 0
    while at < len(packed):
        number, at = _read_varint(packed, at)
        yield number & 0xFFFF_FFFF_FFFF_FFFF


def _fields(message: bytes, *wanted: int) -> Iterator[tuple[int, bytes]]:
    """Yield number and contents of the wanted fields; a number as its own bytes."""
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        field, wire, begin = key >> 3, key & 7, at
        if wire == _VARINT:
            _, at = _read_varint(message, at)
        elif wire in _SIZES:
            at += _SIZES[wire]
        elif wire == _BYTES:
            size, begin = _read_varint(message, at)
            at = begin + size
        else:
            raise IndexError(f"{key} begins no field")
        if at > len(message):
            raise IndexError(f"field {field} ends after the message")
        if field in wanted:
            yield field, message[begin:at]


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = message[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return number, at
        if shift > 63:
            raise IndexError("a number of more than 64 bits")
