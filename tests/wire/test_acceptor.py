from __future__ import annotations

import errno
import gc
import logging
import queue
import socket
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kit.errors import (
    AuthenticationFailed,
    KitError,
    LinkLost,
    UnavailableError,
)
from kit.task import Task
from kit.testing.task_process import until
from kit.wire import Acceptor, Credentials, Hello, Link, Role, TcpAddress, connect
from kit.wire.listening.address import Address, UnixAddress
from kit.wire.listening.listener import Listener, listen
from tests.cases import for_each
from tests.wire.conftest import n_open
from tests.wire.half_link import PS, WORKER

HELLO = Hello(Role.CONTROL, WORKER)
LOOPBACK = TcpAddress("127.0.0.1", 0)


class Door:
    """An acceptor under test with the links that it handed over."""

    def __init__(
        self, acceptor: Acceptor, address: Address, credentials: Credentials
    ) -> None:
        self.acceptor, self.address = acceptor, address
        self.credentials = credentials
        self.links: queue.Queue[Link] = queue.Queue()

    def knock(self, data: bytes = b"") -> socket.socket:
        assert isinstance(self.address, TcpAddress)
        where = (self.address.host, self.address.port)
        stranger = socket.create_connection(where, timeout=5)
        if data:
            stranger.sendall(data)
        return stranger


@contextmanager
def opened(
    credentials: Credentials,
    address: Address = LOOPBACK,
    on_link: Callable[[Link], None] | None = None,
    **settings: float,
) -> Iterator[Door]:
    listener = listen(address, credentials=credentials)
    door: Door
    acceptor = Acceptor(
        [listener],
        credentials,
        PS,
        on_link or (lambda link: door.links.put(link)),
        **settings,  # type: ignore[arg-type]
    )
    door = Door(acceptor, listener.address, credentials)
    try:
        yield door
    finally:
        acceptor.close()
        while not door.links.empty():
            door.links.get().close()


def is_ended(sock: socket.socket) -> bool:
    """Read until the other side closes; reset counts, data do not."""
    sock.settimeout(5)
    try:
        return sock.recv(1) == b""
    except ConnectionError:
        return True


@pytest.fixture(params=["unix", "tcp", "tls"])
def door(
    request: pytest.FixtureRequest,
    credentials: Credentials,
    plain: Credentials,
    tmp_path: Path,
) -> Iterator[Door]:
    unix = UnixAddress(str(tmp_path / "s"))
    address = unix if request.param == "unix" else LOOPBACK
    with opened(credentials if request.param == "tls" else plain, address) as door:
        yield door


def test_who_holds_the_key_gets_a_link(door: Door) -> None:
    with (
        connect(door.address, HELLO, door.credentials, expected=PS) as ours,
        door.links.get(timeout=5) as theirs,
    ):
        ours.send_message({"hello": "there"}, b"blob", deadline_s=5)
        came = theirs.recv_message(deadline_s=5)

    assert came == ({"hello": "there"}, bytearray(b"blob"))
    assert (ours.peer, theirs.peer) == (PS, WORKER)
    assert door.acceptor.refused == 0


@for_each(
    ("change", "words"),
    [({"key": bytes(32)}, "key"), ({"cluster_id": bytes(16)}, "different clusters")],
)
def test_who_holds_another_key_or_is_of_another_cluster_gets_no_link(
    door: Door, caplog: pytest.LogCaptureFixture, change: dict[str, Any], words: str
) -> None:
    caplog.clear()
    before = door.acceptor.refused

    with pytest.raises(AuthenticationFailed, match=words):
        connect(door.address, HELLO, replace(door.credentials, **change))
    until(lambda: door.acceptor.refused == before + 1)

    assert door.links.empty()
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert words in caplog.text


@pytest.mark.parametrize(
    "data",
    [
        *(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\0\xff"),
        *(b"\0" * 500, b"\xff" * 8, b"PSRH" + b"\xff" * 200),
    ],
)
def test_other_protocols_are_closed_without_a_word_of_data(
    plain: Credentials, data: bytes
) -> None:
    with opened(plain) as door:
        with door.knock(data) as stranger:
            stranger.settimeout(5)
            answer = b""
            with suppress(ConnectionError):
                answer = stranger.recv(1000)
        until(lambda: door.acceptor.refused == 1)

    # Only a stranger with our magic is told something: that it is refused.
    assert answer == b"" or (data[:4] == b"PSRH" and answer[:4] == b"PSRR")
    assert door.links.empty()


@for_each("n_bytes", range(1, 128, 9))
def test_half_a_hello_leaves_nothing_open(plain: Credentials, n_bytes: int) -> None:
    with opened(plain) as door:
        door.knock((b"PSRH\1\0\1\0\1\0\0\0" + bytes(200))[:n_bytes]).close()
        until(lambda: door.acceptor.refused == 1)
        until(lambda: door.acceptor.n_new == 0)


def test_a_silent_stranger_is_shown_out_at_the_deadline(
    credentials: Credentials,
) -> None:
    with opened(credentials, handshake_s=0.02) as door, door.knock() as silent:
        assert is_ended(silent)
        until(lambda: door.acceptor.refused == 1)


def test_silent_strangers_take_no_place(
    credentials: Credentials, plain: Credentials
) -> None:
    for mine in (plain, credentials):
        with opened(mine, at_most=2) as door:
            silent = [door.knock() for _ in range(20)]
            until(lambda: door.acceptor.n_new == 20)  # called at once

            connect(door.address, HELLO, mine).close()

            assert door.acceptor.refused == 0
            for stranger in silent:
                stranger.close()


def test_without_room_the_oldest_silent_one_goes(plain: Credentials) -> None:
    with opened(plain, room=2) as door:
        oldest, newer = door.knock(), door.knock()
        until(lambda: door.acceptor.n_new == 2)

        connect(door.address, HELLO, plain).close()

        assert is_ended(oldest)
        until(lambda: door.acceptor.n_new == 1)
        newer.setblocking(False)
        with pytest.raises(BlockingIOError):
            newer.recv(1)
        newer.close()
        oldest.close()


def test_who_finds_all_places_taken_waits_for_one(plain: Credentials) -> None:
    with opened(plain, at_most=2) as door, ThreadPoolExecutor(1) as pool:
        slow = [door.knock(b"PSRH") for _ in range(2)]
        until(lambda: door.acceptor.n_new == 2)
        coming = pool.submit(connect, door.address, HELLO, plain)
        until(lambda: door.acceptor.n_new == 3)

        slow[0].close()

        coming.result(timeout=5).close()
        slow[1].close()


def test_refusals_are_counted_but_not_all_written_down(
    plain: Credentials, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(plain) as door:
        for _ in range(50):
            door.knock(b"GET / HTTP/1.1").close()
        until(lambda: door.acceptor.refused == 50)

    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 11
    assert caplog.messages[-1] == "ps:0 refused 40 more connections"


def test_what_is_logged_of_a_refusal_keeps_nothing_of_the_task_alive(
    plain: Credentials, caplog: pytest.LogCaptureFixture
) -> None:
    def refused() -> weakref.ref[Acceptor]:
        with opened(plain) as door:
            door.knock(b"GET / HTTP/1.1").close()
            until(lambda: door.acceptor.refused == 1)
            return weakref.ref(door.acceptor)

    acceptor = refused()
    gc.collect()

    assert caplog.records
    assert acceptor() is None


def test_close_breaks_off_handshakes_and_ends_all_threads(
    credentials: Credentials,
) -> None:
    with opened(credentials) as door, door.knock() as silent:
        until(lambda: door.acceptor.n_new == 1)
        door.acceptor.close()
        door.acceptor.close()

        assert is_ended(silent)
        assert not [t for t in threading.enumerate() if t.name.startswith("kit-")]
        with pytest.raises(UnavailableError):
            connect(door.address, HELLO, credentials)


def test_a_callee_that_fails_costs_its_link_only(
    credentials: Credentials, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[Task] = []

    def fail_once(link: Link) -> None:
        calls.append(link.peer)
        if len(calls) == 1:
            raise RuntimeError("the callee is broken")
        link.close()

    with opened(credentials, on_link=fail_once) as door:
        for _ in range(2):
            with (
                connect(door.address, HELLO, credentials) as link,
                pytest.raises(LinkLost),
            ):
                link.recv(deadline_s=5)

    assert calls == [WORKER, WORKER]
    assert "the callee is broken" in caplog.text


def test_without_descriptors_it_says_so_and_goes_on(
    plain: Credentials,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    accept, failures = Listener.accept, iter([True])

    def fail_first(listener: Listener) -> object:
        if next(failures, False):
            raise OSError(errno.EMFILE, "Too many open files")
        return accept(listener)

    monkeypatch.setattr(Listener, "accept", fail_first)
    with opened(plain) as door:
        connect(door.address, HELLO, plain).close()

    assert "Too many open files" in caplog.text


def outcome(address: Address, credentials: Credentials) -> str:
    try:
        connect(address, HELLO, credentials).close()
    except KitError as exc:
        return type(exc).__name__
    return "in"


def test_many_wrong_keys_at_once_let_nobody_in(plain: Credentials) -> None:
    wrong = Credentials(plain.cluster_id, b"w" * 32)
    tries = [wrong if number % 8 else plain for number in range(64)]

    with opened(plain, at_most=64) as door, ThreadPoolExecutor(8) as pool:
        results = list(pool.map(outcome, [door.address] * 64, tries))

    assert results.count("in") == 8
    assert all(results[number] == "in" for number in range(0, 64, 8))
    assert set(results) == {"in", "AuthenticationFailed"}


def test_a_hundred_openings_leave_no_descriptor(plain: Credentials) -> None:
    before = n_open()

    for _ in range(100):
        with opened(plain) as door:
            door.knock(b"x").close()

    until(lambda: n_open() <= before)
