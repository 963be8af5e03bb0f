"""Session messages that cannot be right: made by hand, mutated, and at random."""

from __future__ import annotations

import random
import struct
import tracemalloc
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.errors import ProtocolError
from kit.session.transport.serialization import pack, unpack
from tests.cases import for_each

Array = npt.NDArray[Any]


def head(*arrays: bytes, text: int = 0, version: int = 1, zero: int = 0) -> bytes:
    front = struct.pack("<BBHI", version, zero, len(arrays), text)
    return front + b"".join(arrays)


def entry(
    n_bytes: int, *shape: int, code: int = 6, rank: int = -1, zeros: int = 0
) -> bytes:
    rank = len(shape) if rank < 0 else rank
    return struct.pack(
        f"<BBHIQ{len(shape)}Q", code, rank, zeros, zeros, n_bytes, *shape
    )


def padded(front: bytes, *contents: bytes) -> bytes:
    for content in contents:
        front = front + bytes(-len(front) % 64) + content
    return front


REFUSED = {
    "nothing": b"",
    "half a head": head()[:7],
    "another version": head(version=2),
    "a reserved byte": head(zero=1),
    "bytes after the end": head() + b"\0",
    "an array that is missing": struct.pack("<BBHI", 1, 0, 1, 0),
    "arrays that are missing": struct.pack("<BBHI", 1, 0, 65_535, 0),
    "a text that is missing": head(text=1),
    "a text that is huge": head(text=2**32 - 1),
    "a text that is no JSON": head(text=1) + b"{",
    "a text that is not an object": head(text=2) + b"[]",
    "a text with more behind it": head(text=4) + b"{}{}",
    "an array without its shape": head(entry(1, rank=1)),
    "too many axes": padded(head(entry(1, *[1] * 33)), b"1"),
    "reserved bytes of an array": padded(head(entry(1, 1, zeros=1)), b"1"),
    "no such type": padded(head(entry(1, 1, code=16)), b"1"),
    "type zero": padded(head(entry(1, 1, code=0)), b"1"),
    "less bytes than the shape": padded(head(entry(1, 2)), b"1"),
    "more bytes than the shape": padded(head(entry(3, 2)), b"123"),
    "a product that wraps round": padded(head(entry(0, 2**32, 2**32))),
    "a side that is huge": padded(head(entry(2**63, 2**63)), b"1"),
    "an empty array that is huge": padded(head(entry(0, 2**61, 2**61, 0)), b""),
    "bytes that are missing": padded(head(entry(2, 2)), b"1"),
    "padding that is missing": head(entry(1, 1)) + b"1",
    "padding that is not zero": head(entry(1, 1)) + b"1" * 33,
    "a bool of two": padded(head(entry(2, 2, code=1)), b"\1\2"),
    "strings without lengths": padded(head(entry(3, 1, code=15)), b"123"),
    "many strings without bytes": padded(head(entry(0, 2**40, code=15)), b""),
    "a string that is too long": padded(head(entry(5, 1, code=15)), b"\2\0\0\0a"),
    "a string that is too short": padded(head(entry(6, 1, code=15)), b"\1\0\0\0ab"),
    "no strings but bytes": padded(head(entry(1, 0, code=15)), b"a"),
}


@for_each("body", REFUSED.values(), ids=REFUSED)
def test_anything_else_is_refused(body: bytes) -> None:
    with pytest.raises(ProtocolError, match="drop this connection"):
        unpack(bytearray(body))


def test_the_bodies_to_be_refused_are_wrong_in_one_thing_only() -> None:
    right = (
        head(),
        head(text=2) + b"{}",
        padded(head(entry(2, 2)), b"12"),
        padded(head(entry(0, 2**40, 0)), b""),
        padded(head(entry(2, 2, code=1)), b"\1\0"),
        padded(head(entry(5, 1, code=15)), b"\1\0\0\0a"),
        padded(head(entry(0, 0, code=15)), b""),
    )

    for body in right:
        unpack(bytearray(body))


def corpus() -> list[bytes]:
    strings = np.array([[b"", b"abc"], [b"de", b""]], object)
    arrays: list[Array] = [
        np.arange(6.0).reshape(2, 3),
        strings,
        np.array([True, False]),
    ]
    return [
        b"".join(pack(meta, some))
        for meta in ({}, {"op": "run", "n": [1, 2.5, None]})
        for some in ([], [np.ones(())], arrays, [np.zeros((0, 4), np.int8)])
    ]


def mutated(body: bytes, dice: random.Random) -> bytearray:
    """Change bytes, most often of the first eight, where the structure is."""
    changed = bytearray(body)
    for _ in range(dice.randrange(1, 4)):
        at = dice.randrange(len(changed) if dice.random() < 0.3 else 8)
        match dice.randrange(4):
            case 0:
                changed[at] ^= 1 << dice.randrange(8)
            case 1:
                changed[at] = dice.choice((0, 1, 15, 127, 255))
            case 2:
                del changed[max(8, at) :]
            case 3:
                changed[at:at] = bytes(dice.randrange(1, 9))
    return changed


@pytest.mark.slow
def test_mutated_messages_raise_only_the_declared_error() -> None:
    dice, seeds, count = random.Random(5), corpus(), 20_000
    outcomes = {"accepted": 0, "refused": 0}
    tracemalloc.start()

    for _ in range(count):
        try:
            unpack(mutated(dice.choice(seeds), dice))
        except ProtocolError:
            outcomes["refused"] += 1
        else:
            outcomes["accepted"] += 1
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 2**20  # no size is believed before it is compared
    assert min(outcomes.values()) > count // 100


@given(st.binary(max_size=200))
def test_random_bytes_raise_only_the_declared_error(junk: bytes) -> None:
    try:
        unpack(bytearray(b"\1\0" + junk))
    except ProtocolError:
        return
    assert len(junk) >= 6
