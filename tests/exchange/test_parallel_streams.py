"""A link of several streams: a part that is damaged, lost or not due ends all of it."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import pytest

from kit.errors import DeadlineExceededError, PeerLost, ProtocolError
from kit.exchange.layout import Range, Spec, lay_out
from kit.exchange.plan import GRAD
from kit.exchange.ports import endpoint
from kit.exchange.ports.port import Expected
from kit.testing.group import LocalMember
from kit.testing.task_process import until
from kit.wire.frame import SIZE
from kit.wire.stream import ParallelStreams, Stream
from tests.cases import for_each
from tests.exchange.pumped import Ends, clear, pumped_member, sealed, side_by_side

N_BYTES = 1 << 20
LAYOUT = lay_out([Spec("x", (N_BYTES // 4,), "float32")], 2)
ALL = Expected(GRAD, Range(0, N_BYTES), separate=True)
PART = N_BYTES // 2
SMALL = Expected(GRAD, Range(0, 1000), separate=True)
Form = Callable[[Ends], tuple[Stream, Stream]]
FORMS: list[Form] = [clear, sealed]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "GRACE_S", 0.0)


@contextmanager
def linked(form: Form) -> Iterator[tuple[LocalMember, LocalMember, Ends]]:
    """Give two members with a link of two streams, and both ends amid the second one.

    What the first member sends over it comes to the first socket, and goes on if the
    second one sends it.
    """
    first = form(socket.socketpair())
    ours, theirs = socket.socketpair(), socket.socketpair()
    near, far = zip(first, form((ours[0], theirs[0])), strict=True)
    with (
        ours[1],
        theirs[1],
        pumped_member(LAYOUT, 0, 2, {1: ParallelStreams(near)}) as sender,
        pumped_member(LAYOUT, 1, 2, {0: ParallelStreams(far)}) as taker,
    ):
        for sock in (ours[1], theirs[1]):
            sock.settimeout(10)
        taker.endpoint.expect({0: ([ALL], [ALL])}, 0)
        sender.memory.typed(GRAD, ALL.range)[:] = np.arange(N_BYTES // 4)
        yield sender, taker, (ours[1], theirs[1])


def port(member: LocalMember) -> Any:
    (only,) = member.endpoint.ports.values()
    return only


def line(sock: socket.socket, n_bytes: int) -> bytearray:
    data = bytearray()
    while len(data) < n_bytes:
        data += sock.recv(n_bytes - len(data))
    return data


def test_half_of_a_large_message_goes_over_the_second_stream_and_none_of_a_small() -> (
    None
):
    with linked(clear) as (sender, taker, (source, target)):
        port(sender).post(*ALL[:2])
        target.sendall(line(source, SIZE + PART))
        arrival = taker.endpoint.receive(port(taker), ALL)
        taker.endpoint.expect({0: ([SMALL], [])}, 0)
        port(sender).post(*SMALL[:2])
        taker.endpoint.receive(port(taker), SMALL)

        assert (arrival.lo, arrival.hi) == (0, N_BYTES)
        window = port(taker).window(GRAD, ALL.range, separate=True)
        assert np.array_equal(window, np.arange(N_BYTES // 4))
        source.setblocking(False)
        with pytest.raises(BlockingIOError):
            source.recv(1)


def test_a_message_is_not_here_before_its_last_part() -> None:
    with linked(clear) as (sender, taker, (source, target)):
        port(sender).post(*ALL[:2])
        data = line(source, SIZE + PART)
        target.sendall(data[:-1])
        until(lambda: port(sender).is_idle())
        assert not port(taker).has_arrived()
        target.sendall(data[-1:])
        taker.endpoint.receive(port(taker), ALL)


def test_a_part_that_does_not_come_is_waited_for_until_the_deadline() -> None:
    with linked(clear) as (sender, taker, (source, _)):
        taker.endpoint.deadline_s = 0.05
        port(sender).post(*ALL[:2])
        line(source, SIZE + PART)

        with pytest.raises(DeadlineExceededError, match=r"waited 0.05 s .*task:0,"):
            taker.endpoint.receive(port(taker), ALL)


@for_each("at", [*range(0, SIZE, 5), SIZE, SIZE + PART - 1])
def test_one_bit_of_a_part_that_was_turned_is_found(at: int) -> None:
    with linked(clear) as (sender, taker, (source, target)):
        port(sender).post(*ALL[:2])
        data = line(source, SIZE + PART)
        data[at] ^= 0x10
        with suppress(ConnectionError):  # a head that is wrong is refused at once
            target.sendall(data)

        with pytest.raises(ProtocolError):
            taker.endpoint.receive(port(taker), ALL)
        assert not port(taker).has_arrived()


@pytest.mark.parametrize("form", FORMS)
@for_each("n_bytes", [0, 30, SIZE + 90])
def test_a_stream_that_ends_is_a_lost_peer_for_both(form: Form, n_bytes: int) -> None:
    with linked(form) as (sender, taker, (source, target)):
        port(sender).post(*ALL[:2])
        target.sendall(line(source, n_bytes))
        target.close()
        source.close()

        with pytest.raises(PeerLost, match="task:0"):
            taker.endpoint.receive(port(taker), ALL)
        until(lambda: port(sender).lost)
        with pytest.raises(PeerLost, match="task:1"):
            sender.endpoint.flush()


def test_a_peer_that_sends_a_message_whole_is_refused() -> None:
    near, far = side_by_side(2, lambda: clear(socket.socketpair()))
    alone = near.streams[0]  # type: ignore[attr-defined]
    with (
        pumped_member(LAYOUT, 0, 2, {1: alone}) as sender,
        pumped_member(LAYOUT, 1, 2, {0: far}) as taker,
    ):
        taker.endpoint.expect({0: ([ALL], [ALL])}, 0)
        port(sender).post(*ALL[:2])

        with pytest.raises(ProtocolError, match=r"524288 bytes.* the same release"):
            taker.endpoint.receive(port(taker), ALL)
    near.close()
