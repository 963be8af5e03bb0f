"""Lent memory: who may use it when, what is refused, and what is left of it."""

from __future__ import annotations

import os
import random
import select
import signal
import struct
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest

from kit.errors import InvalidArgumentError, LinkLost, ProtocolError
from kit.wire import Arena, Stream
from kit.wire.local.loan import MOST_LOANS, Borrower, Lender, open_loans

PAGE = 4096
CAPACITY = 8 * PAGE


class Sides(NamedTuple):
    lender: Lender
    borrower: Borrower


@pytest.fixture
def sides() -> Iterator[Sides]:
    lender = Lender(CAPACITY)
    borrower = Borrower(os.dup(lender.fd), CAPACITY)
    yield Sides(lender, borrower)
    lender.close()
    borrower.close()


def lent(lender: Lender, data: bytes) -> bytes:
    """Lend `data`; return the ticket."""
    loan = lender.lend(len(data))
    assert loan is not None
    loan.view[:] = data
    return loan.ticket


def test_borrower_sees_what_the_lender_wrote(sides: Sides) -> None:
    first, second = (lent(sides.lender, text) for text in (b"one", b"two" * 2000))

    assert bytes(sides.borrower.borrow(second)) == b"two" * 2000
    assert bytes(sides.borrower.borrow(first)) == b"one"


def test_memory_is_back_with_its_last_view(sides: Sides) -> None:
    view = sides.borrower.borrow(lent(sides.lender, b"abcdef"))
    part = view[2:4]
    assert sides.lender.lent == PAGE

    del view
    assert (bytes(part), sides.lender.lent, sides.borrower.held) == (b"cd", PAGE, 1)
    del part
    assert (sides.lender.lent, sides.borrower.held) == (0, 0)


def test_memory_in_use_is_never_lent_again(sides: Sides) -> None:
    dice = random.Random(3)
    held: list[tuple[memoryview, bytes]] = []

    for number in range(2_000):
        data = bytes([number % 251]) * dice.randrange(1, 3 * PAGE)
        loan = sides.lender.lend(len(data))
        if loan is None:
            held.pop(dice.randrange(len(held)))
            continue
        loan.view[:] = data
        held.append((sides.borrower.borrow(loan.ticket), data))
        assert all(bytes(view) == wanted for view, wanted in held)


def test_what_is_given_back_can_be_lent_as_a_whole(sides: Sides) -> None:
    views = [sides.borrower.borrow(lent(sides.lender, b"x")) for _ in range(8)]
    assert sides.lender.lend(1) is None

    random.Random(1).shuffle(views)
    while views:
        views.pop()

    assert sides.lender.lend(CAPACITY) is not None


def test_more_than_there_is_room_for_is_not_lent(sides: Sides) -> None:
    assert sides.lender.lend(CAPACITY + 1) is None
    assert sides.lender.lend(CAPACITY) is not None
    assert sides.lender.lend(1) is None


def test_there_are_no_more_loans_than_words() -> None:
    lender = Lender(2 * MOST_LOANS * PAGE)

    loans = [lender.lend(1) for _ in range(MOST_LOANS + 1)]
    del loans[:-1]
    lender.close()

    assert loans == [None]


def test_same_pages_are_used_again_first(sides: Sides) -> None:
    """Fresh pages would cost more than sending the bytes."""
    places = set()

    for _ in range(20):
        ticket = lent(sides.lender, b"again")
        places.add(struct.unpack("<4Q", ticket)[2])
        sides.borrower.borrow(ticket)

    assert places == {0}


def test_views_outlive_both_sides(sides: Sides) -> None:
    view = sides.borrower.borrow(lent(sides.lender, b"kept"))

    sides.lender.close()
    sides.borrower.close()

    assert bytes(view) == b"kept"
    assert sides.lender.lend(1) is None
    with pytest.raises(ProtocolError, match="open link"):
        sides.borrower.borrow(bytes(32))


@pytest.mark.parametrize(
    "ticket",
    [
        struct.pack("<4Q", MOST_LOANS, 1, 0, 1),
        struct.pack("<4Q", 0, 1, 0, 0),
        struct.pack("<4Q", 0, 1, 0, CAPACITY + 1),
        struct.pack("<4Q", 0, 1, CAPACITY - PAGE, PAGE + 1),
        struct.pack("<4Q", 0, 1, CAPACITY, 1),
        struct.pack("<4Q", 0, 1, 2**64 - PAGE, 2 * PAGE),
        struct.pack("<4Q", 0, 1, 64, 1),
        bytes(31),
        bytes(33),
        b"",
    ],
    ids=range(10),
)
def test_impossible_ticket_is_refused(sides: Sides, ticket: bytes) -> None:
    with pytest.raises(ProtocolError, match="rop this connection"):
        sides.borrower.borrow(ticket)
    assert sides.borrower.held == 0


def test_ticket_used_twice_is_refused(sides: Sides) -> None:
    ticket = lent(sides.lender, b"mine")
    view = sides.borrower.borrow(ticket)

    with pytest.raises(ProtocolError, match="1 in use"):
        sides.borrower.borrow(ticket)
    assert bytes(view) == b"mine"


def test_loan_of_nothing_is_refused(sides: Sides) -> None:
    with pytest.raises(InvalidArgumentError, match="0 bytes"):
        sides.lender.lend(0)


def test_memory_of_another_size_is_refused_and_closed() -> None:
    arena = Arena.create("small", CAPACITY)

    with pytest.raises(ProtocolError, match="not an arena"):
        Borrower(os.dup(arena.fd), CAPACITY)

    arena.close()


def both(streams: tuple[Stream, Stream]) -> list[Sides]:
    def open_one(stream: Stream) -> Sides:
        deadline = time.monotonic() + 10
        return Sides(*open_loans(stream, deadline, capacity=CAPACITY))

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(open_one, streams))


def test_both_sides_of_a_stream_lend(unix_streams: tuple[Stream, Stream]) -> None:
    left, right = both(unix_streams)

    assert bytes(right.borrower.borrow(lent(left.lender, b"there"))) == b"there"
    assert bytes(left.borrower.borrow(lent(right.lender, b"back"))) == b"back"
    for side in (*left, *right):
        side.close()


def test_peer_that_closes_while_arenas_are_exchanged_leaves_nothing(
    unix_streams: tuple[Stream, Stream],
) -> None:
    left, right = unix_streams
    right.close()

    with pytest.raises((LinkLost, ProtocolError)):
        open_loans(left, time.monotonic() + 10)


def forked(act: Callable[[], None]) -> int:
    """Run `act` in a child process, which then waits to be killed."""
    with warnings.catch_warnings():  # the child calls nothing that other threads hold
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        try:
            act()
            signal.pause()
        except BaseException:
            traceback.print_exc()
        os._exit(1)
    return pid


def killed(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL


def wait_for(fd: int) -> None:
    assert select.select([fd], [], [], 10)[0]


def test_lender_goes_on_when_the_borrower_is_killed(sides: Sides) -> None:
    ticket = lent(sides.lender, b"held")
    reply, tell = os.pipe()

    def borrow() -> None:
        kept.append(sides.borrower.borrow(ticket))
        os.write(tell, b"!")

    kept: list[memoryview] = []
    pid = forked(borrow)
    wait_for(reply)
    killed(pid)
    for fd in (reply, tell):
        os.close(fd)

    # It is out for good, and no harm is done to the rest.
    assert sides.lender.lent == PAGE
    assert sides.lender.lend(CAPACITY - PAGE) is not None
    assert sides.lender.lend(1) is None


def test_borrower_keeps_its_bytes_when_the_lender_is_killed(
    unix_streams: tuple[Stream, Stream],
) -> None:
    left, right = unix_streams

    def lend() -> None:
        deadline = time.monotonic() + 10
        lender, _ = open_loans(left, deadline, capacity=CAPACITY)
        left.write([lent(lender, b"last words")])

    pid = forked(lend)
    lender, borrower = open_loans(right, time.monotonic() + 10, capacity=CAPACITY)
    wait_for(right.fileno())
    ticket = bytearray(32)
    assert right.read_into(memoryview(ticket)) == 32
    killed(pid)

    view = borrower.borrow(bytes(ticket))
    assert bytes(view) == b"last words"
    lender.close()
    borrower.close()
