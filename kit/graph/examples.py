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
from kit.protobuf_wire import block, fields, read_varint, varint

# By the field of a Feature.
KINDS: Final[Mapping[int, DType]] = {
    1: STRING,
    2: np.dtype(np.float32),
    3: np.dtype(np.int64),
}


def encode(features: Mapping[str, tuple[int, Sequence[Any]]]) -> bytes:
    """Return a record with the values of some names, each with its field of `KINDS`.

    >>> decode(encode({"n": (3, [1, -1])}))["n"]
    array([ 1, -1])
    """
    made = bytearray()
    for name, (kind, values) in features.items():
        feature = block(kind, _listed(kind, values)) if kind else b""
        made += block(1, block(1, name.encode()) + block(2, feature))
    return block(1, bytes(made))


def _listed(kind: int, values: Sequence[Any]) -> bytes:
    if kind == 1:
        return b"".join(block(1, bytes(value)) for value in values)
    if kind == 2:
        return block(1, np.asarray(values, "<f4").tobytes()) if values else b""
    # A negative number is written as the 64 bits that it has.
    numbers = b"".join(varint(int(value) & 0xFFFF_FFFF_FFFF_FFFF) for value in values)
    return block(1, numbers) if values else b""


def decode(record: bytes) -> dict[str, Array]:
    """Return the values of all names; raises `InvalidArgumentError` for other bytes."""
    values_of: dict[str, Array] = {}
    try:
        for _, features in fields(record, 1):
            for _, entry in fields(features, 1):
                name, values = b"", np.zeros(0, np.float32)
                for field, part in fields(entry, 1, 2):
                    if field == 1:
                        name = part
                    else:
                        values = _values(part)
                values_of[name.decode()] = values
    except (IndexError, ValueError, struct.error) as exc:
        raise InvalidArgumentError(
            f"Could not parse example input: these {len(record)} bytes are no "
            f"tf.train.Example ({exc})."
        ) from exc
    return values_of


def _values(feature: bytes) -> Array:
    for kind, listed in fields(feature, *KINDS):
        parts = [part for _, part in fields(listed, 1)]
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
        number, at = read_varint(packed, at)
        yield number & 0xFFFF_FFFF_FFFF_FFFF
