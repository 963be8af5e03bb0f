"""Session messages of which the large arrays travel in lent memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from kit.errors import InvalidArgumentError, ProtocolError
from kit.session.transport.serialization import LEAST_LENT, pack, unpack
from kit.wire.local.loan import Borrower, Lender

Array = npt.NDArray[Any]
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
