"""Listening and dialling: who is let in, and what a refusal says."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from kit.errors import (
    AddressInUse,
    DeadlineExceededError,
    InvalidArgumentError,
    PermissionDeniedError,
    UnavailableError,
)
from kit.wire import Stream, dial, listen
from kit.wire.handshake import opening
from kit.wire.handshake.messages import Role
from kit.wire.listening.address import TcpAddress, UnixAddress
from kit.wire.sockets import suit_to_loopback
from tests.cases import for_each
from tests.wire.conftest import accept, listening, soon

LOOPBACK = TcpAddress("127.0.0.1", 0)
needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can act for another user"
)


@pytest.fixture
def unix(tmp_path: Path) -> UnixAddress:
    return UnixAddress(str(tmp_path / "run" / "s"))


@contextmanager
def acting_as(uid: int) -> Iterator[None]:
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_unix_socket_is_for_its_user_alone(unix: UnixAddress) -> None:
    umask = os.umask(0)
    try:
        with listening(unix):
            path = Path(unix.path)
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert not path.exists()
    finally:
        os.umask(umask)


def test_a_folder_open_to_others_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)

    with pytest.raises(PermissionDeniedError, match=r"mode drwxr-xr-x.*chmod go="):
        listen(UnixAddress(str(tmp_path / "s")))


@needs_root
def test_another_user_cannot_even_reach_the_socket(unix: UnixAddress) -> None:
    with listening(unix), acting_as(65_534), pytest.raises(UnavailableError):
        dial(unix, soon())


@needs_root
def test_another_user_who_reaches_the_socket_is_sent_away() -> None:
    """Should the modes ever be wrong, the kernel's word on the user still counts."""
    with tempfile.TemporaryDirectory() as folder:
        unix = UnixAddress(f"{folder}/s")
        with listening(unix) as listener:
            Path(folder).chmod(0o777)
            Path(unix.path).chmod(0o777)
            with acting_as(65_534), socket.socket(socket.AF_UNIX) as stranger:
                stranger.connect(unix.path)
                os.seteuid(0)
                with pytest.raises(PermissionDeniedError, match="user 65534 knocked"):
                    listener.accept()
                assert stranger.recv(1) == b""


def test_a_listener_of_another_user_is_not_believed(
    unix: UnixAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listening(unix):
        monkeypatch.setattr(os, "geteuid", lambda: 12_345)
        with pytest.raises(PermissionDeniedError, match="not 12345"):
            dial(unix, soon())


def test_a_socket_in_use_is_not_taken_over(unix: UnixAddress) -> None:
    with listening(unix), pytest.raises(AddressInUse, match="taken"):
        listen(unix)


def test_a_dead_listener_s_socket_is_taken_over(unix: UnixAddress) -> None:
    dead = listen(unix)
    dead._socket.close()

    with listening(unix) as listener:
        dead.close()
        assert Path(unix.path).exists()
        dial(unix, soon()).close()
        accept(listener).close()


def test_a_port_in_use_names_its_holder() -> None:
    with (
        listening(LOOPBACK) as first,
        pytest.raises(AddressInUse, match=f"process {os.getpid()}"),
    ):
        listen(first.address)


def test_a_port_is_free_again_at_once() -> None:
    with listening(LOOPBACK) as first, closing(dial(first.address, soon())):
        accept(first).close()

    with listening(first.address) as second:
        assert second.address == first.address


def test_an_address_of_another_machine_cannot_be_listened_at() -> None:
    address = TcpAddress("192.0.2.1", 0)

    with pytest.raises(InvalidArgumentError, match="192"):
        listen(address, insecure=True)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "node7.invalid"])
def test_nothing_leaves_this_machine_unencrypted(host: str) -> None:
    address = TcpAddress(host, 1)

    with pytest.raises(PermissionDeniedError, match="not be encrypted"):
        listen(address)
    with pytest.raises(PermissionDeniedError, match="not be encrypted"):
        dial(address, soon())


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_nobody_there_is_said_at_once(host: str) -> None:
    with listening(LOOPBACK) as listener:
        port = listener.address.port  # type: ignore[union-attr]

    with pytest.raises(UnavailableError, match="nothing answers"):
        dial(TcpAddress(host, port), soon())


def test_no_socket_there_is_said_at_once(unix: UnixAddress) -> None:
    with pytest.raises(UnavailableError, match="No such file"):
        dial(unix, soon())


def test_an_unknown_host_is_said_in_time() -> None:
    start = time.monotonic()

    with pytest.raises(UnavailableError, match="no known address"):
        dial(TcpAddress("no-such-host.invalid", 1), soon(0.2), insecure=True)

    assert time.monotonic() - start < 2


def test_a_full_backlog_ends_at_the_deadline(unix: UnixAddress) -> None:
    listener = listen(unix, backlog=0)
    waiting = [dial(unix, soon())]

    with pytest.raises(DeadlineExceededError, match="did not take the connection"):
        waiting += [dial(unix, soon(0.03)) for _ in range(3)]

    for stream in waiting:
        stream.close()
    listener.close()


def option(stream: Stream, level: int, name: int, size: int = 0) -> Any:
    """Return what is set for a stream's socket."""
    with socket.socket(fileno=os.dup(stream.fileno())) as twin:
        return twin.getsockopt(level, name, *[size] * bool(size))


@contextmanager
def connected(**options: Any) -> Iterator[tuple[Stream, Stream]]:
    """Give both ends of a connection over the loopback interface: dialled, accepted."""
    with (
        listening(LOOPBACK) as listener,
        closing(dial(listener.address, soon(), **options)) as client,
        closing(accept(listener)) as server,
    ):
        yield client, server


def test_tcp_notices_a_dead_peer_by_itself() -> None:
    with connected(dead_after_s=7.5) as (client, server):
        for name, value in (
            (socket.TCP_NODELAY, 1),
            (socket.TCP_KEEPIDLE, 2),
            (socket.TCP_KEEPINTVL, 1),
            (socket.TCP_KEEPCNT, 3),
            (socket.TCP_USER_TIMEOUT, 7500),
        ):
            assert option(client, socket.IPPROTO_TCP, name) == value
        assert option(client, socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert not option(client, socket.SOL_SOCKET, socket.SO_REUSEPORT)
        assert option(server, socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 10000
        assert option(server, socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize(("role", "times"), [(Role.DATA, 3), (Role.SESSION, 1)])
def test_links_with_signs_of_life_outlast_what_tcp_alone_would_call_dead(
    role: Role, times: int
) -> None:
    with connected(dead_after_s=7.5) as (client, _):
        opening._suit(client, role)

        limit_ms = option(client, socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
        assert limit_ms == times * 7500


class Watched(socket.socket):
    """A socket between addresses of our choice, which notes what is set."""

    def __init__(self, ours: str, theirs: str) -> None:
        super().__init__(socket.AF_INET6 if ":" in ours else socket.AF_INET)
        self.ends = ours, theirs
        self.options: list[tuple[object, ...]] = []

    def getsockname(self) -> tuple[str, int]:
        return self.ends[0], 1

    def getpeername(self) -> tuple[str, int]:
        return self.ends[1], 2

    def setsockopt(self, *option: object) -> None:
        self.options.append(option)


NOT_PACED = [(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")]


@for_each(
    ("ours", "theirs", "options"),
    [
        ("127.0.0.1", "127.0.0.1", NOT_PACED),
        ("127.0.0.1", "127.3.2.1", NOT_PACED),
        ("::1", "::1", NOT_PACED),
        ("10.0.0.1", "10.0.0.2", []),
        ("127.0.0.1", "10.0.0.2", []),
        ("fe80::1%eth0", "fe80::2", []),
    ],
)
def test_nothing_but_a_stream_of_this_machine_is_kept_from_being_paced(
    ours: str, theirs: str, options: list[tuple[object, ...]]
) -> None:
    with Watched(ours, theirs) as sock:
        suit_to_loopback(sock)

        assert sock.options == options


def test_both_ends_of_a_connection_of_this_machine_are_not_paced() -> None:
    with connected() as ends:
        for stream in ends:
            kind = option(stream, socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
            assert kind.rstrip(b"\0") == b"reno"


@pytest.mark.parametrize("kind", ["unix", "127.0.0.1", "::1"])
def test_user_at_the_other_end_on_this_machine_is_known(
    unix: UnixAddress, kind: str
) -> None:
    address = unix if kind == "unix" else TcpAddress(kind, 0)
    with listening(address) as listener:
        dialled = dial(listener.address, soon())
        accepted = accept(listener)

        assert accepted.origin() == f"user {os.getuid()}"

        dialled.close()
        if kind != "unix":  # its process has let go of it: it could be anybody's
            assert accepted.origin() in (f"host {kind}", "a peer that is gone")
        accepted.close()
