"""Session messages: what comes back, where it lies, what is lent, what is not sent."""

from __future__ import annotations

import json
import os
import random
import struct
import tracemalloc
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as stn

from kit.bfloat16 import BFLOAT16
from kit.errors import InvalidArgumentError, ProtocolError
from kit.session.transport.serialization import (
    ALIGNMENT,
    LEAST_LENT,
    MOST_ARRAYS,
    pack,
    unpack,
)
from kit.wire.frame import Buffer
from kit.wire.local.loan import Borrower, Lender
from tests.cases import for_each

Array = npt.NDArray[Any]

TYPES = (
    *("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"),
    *("f2", "f4", "f8", "c8", "c16"),
)
SHAPES = stn.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)
NUMBERS = st.sampled_from(TYPES).flatmap(lambda name: stn.arrays(name, SHAPES))
NUMBERS |= stn.arrays("u2", SHAPES).map(lambda bits: bits.view(BFLOAT16))
STRINGS = stn.arrays(object, SHAPES, elements=st.binary(max_size=9), fill=st.nothing())


def body_of(parts: tuple[Buffer, ...]) -> bytearray:
    return bytearray(b"".join(parts))


def same(left: Array, right: Array) -> bool:
    if left.dtype == object:
        return left.shape == right.shape and left.tolist() == right.tolist()
    return (left.dtype, left.shape) == (right.dtype, right.shape) and (
        left.tobytes() == right.tobytes()
    )


@given(
    st.dictionaries(st.text(), st.integers() | st.text() | st.none(), max_size=3),
    st.lists(NUMBERS | STRINGS, max_size=4),
)
def test_plain_data_and_arrays_come_back(
    meta: dict[str, Any], arrays: list[Array]
) -> None:
    result, came = unpack(body_of(pack(meta, arrays)))

    assert result == meta
    assert len(came) == len(arrays)
    assert all(same(item, other) for item, other in zip(came, arrays, strict=True))


def test_arrays_lie_where_the_layout_puts_them() -> None:
    """The bytes are put together here by hand from the table in the module."""
    text = json.dumps({"a": 1}, separators=(",", ":")).encode()
    heads = struct.pack("<BBHIQ2Q", 11, 2, 0, 0, 8, 1, 2)
    heads += struct.pack("<BBHIQ1Q", 15, 1, 0, 0, 13, 2)
    front = struct.pack("<BBHI", 1, 0, 2, len(text)) + heads + text
    by_hand = bytearray(front.ljust(128, b"\0"))
    by_hand += struct.pack("<2f", 1.5, -2.0).ljust(64, b"\0")
    by_hand += struct.pack("<2I", 2, 3) + b"abcde"
    numbers = np.array([[1.5, -2.0]], np.float32)
    strings = np.array([b"ab", b"cde"], object)

    assert body_of(pack({"a": 1}, [numbers, strings])) == by_hand


def test_a_large_array_is_not_copied_on_its_way() -> None:
    array = np.zeros((3, 100_000), np.complex64)

    parts = pack({}, [np.array(7, np.float32), array])
    array[2, 99_999] = 5j

    assert [len(memoryview(part)) for part in parts] == [128, array.nbytes]
    assert body_of(parts)[-4:] == struct.pack("<f", 5.0)


def test_received_arrays_are_writable_views_of_the_body() -> None:
    body = body_of(pack({}, [np.zeros(3, np.uint8), np.zeros(2)]))

    first, second = unpack(body)[1]
    first[:] = 7
    second[1] = 1.0

    assert body[64:67] == b"\7\7\7"
    assert body[-8:] == struct.pack("<d", 1.0)


@given(st.lists(NUMBERS, min_size=1, max_size=5), st.text(max_size=99))
def test_every_array_begins_at_a_multiple_of_64(arrays: list[Array], key: str) -> None:
    body = body_of(pack({key: 0}, arrays))
    origin = np.frombuffer(body, np.uint8).__array_interface__["data"][0]

    for array in unpack(body)[1]:
        if array.nbytes:
            position = array.__array_interface__["data"][0] - origin
            assert position % ALIGNMENT == 0
            assert array.flags.writeable


@for_each(
    "array",
    [
        np.arange(24, dtype=np.int32).reshape(4, 6).T,
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(20_000)[::2],
        np.arange(9, dtype=np.int16)[::-1],
        np.broadcast_to(np.float32(3), (4, 5)),
        np.arange(5, dtype=">f8"),
        np.arange(20_000, dtype=">u4")[1::3],
        np.frombuffer(b"?" + bytes(range(16)), np.float64, 2, 1),
        np.arange(3).astype(np.longlong),
    ],
    ids=range(9),
)
def test_order_in_memory_does_not_matter(array: Array) -> None:
    [came] = unpack(body_of(pack({}, [array])))[1]

    assert came.shape == array.shape
    assert came.dtype == array.dtype.newbyteorder("<")
    assert came.tolist() == array.tolist()


def test_a_scalar_of_strings_and_a_nul_at_the_end_survive() -> None:
    scalar = np.empty((), object)
    scalar[()] = b"end\0\0"

    [came] = unpack(body_of(pack({}, [scalar])))[1]

    assert came.shape == ()
    assert came[()] == b"end\0\0"


@for_each(
    ("array", "problem"),
    [
        (np.array(["text"], object), "bytes.*not a str"),
        (np.array([b"fixed"]), "cannot travel; convert"),
        (np.array(["fixed"]), "cannot travel; convert"),
        (np.zeros(1, "M8[s]"), "cannot travel; convert"),
        (np.zeros(1, [("a", "i4")]), "cannot travel; convert"),
        (np.zeros(1, np.longdouble), "cannot travel; convert"),
        (np.zeros([1] * 33), "33 axes"),
    ],
    ids=range(7),
)
def test_what_cannot_travel_is_said_to_the_sender(array: Array, problem: str) -> None:
    with pytest.raises(InvalidArgumentError, match=problem):
        pack({}, [array])


def test_too_many_arrays_are_said_to_the_sender() -> None:
    with pytest.raises(InvalidArgumentError, match="65536 arrays"):
        pack({}, [np.zeros(1)] * (MOST_ARRAYS + 1))


def test_what_is_not_plain_is_not_sent() -> None:
    with pytest.raises(InvalidArgumentError, match="plain data"):
        pack({"value": object()}, [])


def test_many_short_strings_take_a_dozen_times_their_bytes_at_most() -> None:
    strings = np.array([b"%02d" % (n % 100) for n in range(20_000)], object)
    body = body_of(pack({}, [strings]))

    tracemalloc.start()
    unpack(body)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 12 * len(body)


CAPACITY = 4 * LEAST_LENT


class Sides(NamedTuple):
    lender: Lender
    borrower: Borrower

    def body(self, *arrays: Array) -> bytearray:
        return bytearray(b"".join(pack({}, arrays, self.lender.lend)))

    def unpack(self, body: bytearray) -> list[Array]:
        return unpack(body, self.borrower.borrow)[1]


@pytest.fixture
def sides() -> Iterator[Sides]:
    lender = Lender(CAPACITY)
    borrower = Borrower(os.dup(lender.fd), CAPACITY)
    yield Sides(lender, borrower)
    lender.close()
    borrower.close()


LARGE = np.arange(LEAST_LENT // 4, dtype=np.float32)


def test_large_array_is_lent_until_the_last_of_it_is_gone(sides: Sides) -> None:
    body = sides.body(np.float64(2) * np.ones(3), LARGE)
    assert len(body) < 1000

    small, large = sides.unpack(body)
    assert small.tolist() == [2, 2, 2]
    assert np.array_equal(large, LARGE)
    assert large.flags.writeable
    part = large[-1:].reshape(1, 1)
    del large
    assert (part.item(), sides.lender.lent) == (LARGE[-1], LEAST_LENT)
    del part
    assert sides.lender.lent == 0


@pytest.mark.parametrize(
    "array",
    [
        LARGE.reshape(-1, 64).T,
        LARGE[::-1],
        LARGE.astype(">f8"),
        LARGE % 2 == 0,
        LARGE.astype(np.complex64),
        np.array([b"%d" % n for n in range(50_000)], object).reshape(2, -1),
    ],
    ids=range(6),
)
def test_every_type_and_order_can_be_lent(sides: Sides, array: Array) -> None:
    repeated = np.concatenate([array, array])

    [came] = sides.unpack(sides.body(repeated))

    assert came.shape == repeated.shape
    assert came.tolist() == repeated.tolist()


def test_small_array_is_not_lent(sides: Sides) -> None:
    body = sides.body(LARGE[:-1])

    assert len(body) > LEAST_LENT - 8
    assert sides.lender.lent == 0


def test_what_finds_no_room_is_sent(sides: Sides) -> None:
    bodies = [sides.body(LARGE) for _ in range(5)]

    assert [len(body) > LEAST_LENT for body in bodies] == [False] * 4 + [True]
    for body in bodies:
        assert np.array_equal(sides.unpack(body)[0], LARGE)


def test_nothing_is_lent_for_a_message_that_cannot_be_made(sides: Sides) -> None:
    with pytest.raises(InvalidArgumentError):
        sides.body(LARGE, np.array(["text"], object))

    assert sides.lender.lent == 0


def test_lent_array_is_refused_where_nothing_is_lent(sides: Sides) -> None:
    with pytest.raises(ProtocolError, match="this link lends none"):
        unpack(sides.body(LARGE))


def test_loan_of_another_size_is_refused_and_given_back(sides: Sides) -> None:
    body = sides.body(LARGE)
    body[-8:] = (LEAST_LENT - 1).to_bytes(8, "little")

    with pytest.raises(ProtocolError, match=f"{LEAST_LENT - 1} bytes are lent"):
        sides.unpack(body)
    assert sides.lender.lent == 0


def test_lent_bool_is_looked_at_too(sides: Sides) -> None:
    loan = sides.lender.lend(LEAST_LENT)
    assert loan is not None
    parts = pack({}, [np.zeros(LEAST_LENT, bool)], lambda _: loan)
    loan.view[LEAST_LENT // 2] = 2

    with pytest.raises(ProtocolError, match="other bytes than 0 and 1"):
        sides.unpack(bytearray(b"".join(parts)))


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
