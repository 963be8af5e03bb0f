"""Messages over shared memory on processors that keep no order.

First a model: what the fences of `shared_port.py`, `endpoint.py`, `loan.py` and hops.c
are enough for, and that none is too much. Then the code: each of its fences is replaced
by what another processor might do at that very moment.
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest

from kit.exchange.layout import Spec, lay_out
from kit.exchange.ports import connect, endpoint, shared_port
from kit.exchange.ports.port import Expected, Taken
from kit.exchange.ports.shared_port import SharedPort
from kit.memory_order import can_share
from kit.system import Bell
from kit.testing import check_port
from kit.testing.group import LocalMember, local_group
from kit.wire.local import loan
from kit.wire.sockets import SocketStream
from tests.cases import for_each
from tests.weak_memory import Access, Do, Memory, arm, is_possible, x86

STORE, PUBLISH, LOAD, ACQUIRE = Do.STORE, Do.PUBLISH, Do.LOAD, Do.ACQUIRE
FENCE = Access(Do.FENCE)
Way = Callable[[Access], tuple[Access, ...]]  # to store or load a counter


def fenced(access: Access) -> tuple[Access, ...]:
    """Python: a fence before the counter is stored, and after it was loaded."""
    return (FENCE, access) if access.do is STORE else (access, FENCE)


def ordered(access: Access) -> tuple[Access, ...]:
    """C: a release or an acquire."""
    return (access._replace(do=PUBLISH if access.do is STORE else ACQUIRE),)


def bare(access: Access) -> tuple[Access, ...]:
    return (access,)


def posting(way: Way, *, finds_asleep: int, between: Access = FENCE) -> list[Access]:
    return [
        Access(STORE, "data", 1),
        *way(Access(STORE, "counter", 1)),
        between,
        Access(LOAD, "asleep", finds_asleep),
    ]


def taking(way: Way, *, data: int) -> list[Access]:
    return [*way(Access(LOAD, "counter", 1)), Access(LOAD, "data", data)]


def going_to_sleep(between: Access = FENCE) -> list[Access]:
    return [Access(STORE, "asleep", 1), between, Access(LOAD, "counter", 0)]


WAYS = [(post, take) for post in (fenced, ordered) for take in (fenced, ordered)]


@for_each("memory", [arm, x86])
@for_each("ways", WAYS)
def test_whoever_sees_the_counter_sees_the_data(
    memory: Memory, ways: tuple[Way, Way]
) -> None:
    post, take = ways
    for finds_asleep in (0, 1):
        sender = posting(post, finds_asleep=finds_asleep)
        assert not is_possible([sender, taking(take, data=0)], memory, asleep=1)
    assert is_possible([posting(post, finds_asleep=0), taking(take, data=1)], memory)


@for_each("memory", [arm, x86])
@for_each("way", [fenced, ordered])
def test_no_ring_is_lost(memory: Memory, way: Way) -> None:
    sender = posting(way, finds_asleep=0)

    assert not is_possible([sender, going_to_sleep()], memory)


@for_each("ways", [(bare, fenced), (fenced, bare)])
def test_without_a_fence_at_the_counter_arm_shows_it_before_the_data(
    ways: tuple[Way, Way],
) -> None:
    post, take = ways
    programs = [posting(post, finds_asleep=0), taking(take, data=0)]

    assert is_possible(programs, arm)
    assert not is_possible(programs, x86)


@for_each("memory", [arm, x86])
@for_each("lacking", ["sender", "sleeper"])
def test_without_a_fence_at_the_word_a_ring_is_lost(
    memory: Memory, lacking: str
) -> None:
    gap = Access(STORE, "of nobody")  # where the fence was
    sender = posting(
        ordered, finds_asleep=0, between=gap if lacking == "sender" else FENCE
    )
    sleeper = going_to_sleep(gap if lacking == "sleeper" else FENCE)

    assert is_possible([sender, sleeper], memory)


@for_each("ways", WAYS)
def test_what_is_given_back_is_not_written_before_it_was_read(
    ways: tuple[Way, Way],
) -> None:
    give, take = ways
    for seen in (1, 2):
        reader = [Access(LOAD, "data", seen), *give(Access(STORE, "word", 1))]
        writer = [*take(Access(LOAD, "word", 1)), Access(STORE, "data", 2)]
        assert is_possible([reader, writer], arm, data=1) is (seen == 1)


LAYOUT = lay_out([Spec("w", (8,), "float32")], 2)
PART = LAYOUT.buckets[0].range
DUE = Expected(0, PART, separate=True)


@pytest.fixture
def at_fences(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """What happens at the next fences of the code, the first one first."""
    events: list[Callable[[], None]] = []
    for module in (shared_port, endpoint, loan):
        monkeypatch.setattr(module, "fence", lambda: events.pop(0)() if events else 0)
    return events


@contextmanager
def pair() -> Iterator[tuple[list[LocalMember], SharedPort, SharedPort]]:
    with local_group(LAYOUT, 2, native=False) as members:
        for member in members:
            member.endpoint.expect({1 - member.number: ((DUE,), (DUE,))}, 0)
        sender, taker = (members[n].endpoint.ports[1 - n] for n in (0, 1))
        assert isinstance(sender, SharedPort)
        assert isinstance(taker, SharedPort)
        yield members, sender, taker


def is_rung(bell: Bell) -> bool:
    return bool(select.select([bell.fd], [], [], 0)[0])


def test_a_message_is_counted_after_its_fence(
    at_fences: list[Callable[[], None]],
) -> None:
    with pair() as (_, sender, taker):
        seen: list[bool] = []
        at_fences += [lambda: seen.append(taker.has_arrived())] * 2

        sender.post(0, PART)

        assert seen == [False, True]


def test_who_falls_asleep_as_a_message_is_counted_is_rung(
    at_fences: list[Callable[[], None]],
) -> None:
    with pair() as (members, sender, _):
        asleep = sender.words()[4]
        # At the second fence the sleeper's word is set, and it has seen no message yet.
        at_fences += [lambda: None, lambda: asleep.__setitem__(0, 1)]

        sender.post(0, PART)

        assert is_rung(members[1].endpoint.doorbell)


@for_each("take", [SharedPort.next, SharedPort.take])
def test_what_a_message_says_is_read_after_a_fence(
    at_fences: list[Callable[[], None]], take: Callable[[SharedPort], Taken]
) -> None:
    with pair() as (members, sender, taker):
        members[0].endpoint.stamp.step = 7
        sender.post(0, PART)
        notes = np.frombuffer(taker.words()[3], np.uint8)
        late = notes.copy()
        notes[:] = 0  # the counter is here, the notes are on their way
        at_fences.append(lambda: np.copyto(notes, late))

        _, _, step, _, _, *part = take(taker)

        assert (step, part) == (7, [*PART])


def test_a_message_that_comes_as_a_member_falls_asleep_is_found_without_a_ring(
    at_fences: list[Callable[[], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "_SLICE_MS", 3_600_000)
    with pair() as (members, sender, taker):
        asleep = sender.words()[4]

        def arrive_unseen() -> None:
            asleep[0] = 0
            sender.post(0, PART)
            asleep[0] = 1

        at_fences.append(arrive_unseen)
        members[1].endpoint.until_arrived(taker)

        assert taker.n_arrived() == 1


def test_a_loan_is_given_back_after_a_fence(
    at_fences: list[Callable[[], None]],
) -> None:
    lender = loan.Lender(4096)
    borrower = loan.Borrower(os.dup(lender.fd), 4096)
    lent = lender.lend(8)
    assert lent is not None
    view = borrower.borrow(lent.ticket)
    room: list[object] = []
    # At the borrower's fence nothing is back yet; the lender has one of its own.
    at_fences.append(lambda: room.append(lender.lend(8)))

    del view

    assert room == [None]
    at_fences.append(lambda: room.append("fence"))
    assert lender.lend(8) is not None
    assert room == [None, "fence"]
    lender.close()
    borrower.close()


def sockets() -> tuple[SocketStream, SocketStream]:
    near, far = socket.socketpair()
    return SocketStream(near, "unix", "far"), SocketStream(far, "unix", "near")


def test_without_a_fence_only_x86_64_shares_memory() -> None:
    machines = ("x86_64", "aarch64", "armv8l", "riscv64", "ppc64le")

    assert [m for m in machines if can_share(m, has_fence=False)] == ["x86_64"]
    assert all(can_share(m, has_fence=True) for m in machines)


def test_tasks_of_one_host_that_cannot_share_keep_the_contract_of_ports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connect, "can_share", lambda: False)

    check_port(partial(local_group, in_place=False, pair=sockets))
