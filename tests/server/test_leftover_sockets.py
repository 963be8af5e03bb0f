"""What a server that was ended by a signal leaves in the folder of the sockets."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil
import pytest

import kit
from kit.errors import InvalidArgumentError
from kit.machine import started
from kit.server import local_sockets
from kit.server.local_sockets import socket_beside, sweep
from kit.task import Task
from kit.wire.handshake.credentials import Credentials
from kit.wire.handshake.messages import Role
from kit.wire.listening.address import TcpAddress
from tests.cases import for_each
from tests.server.ports import free_ports
from tests.zygote import forking

CLIENT = Task("client", 0)

SERVER = """
import signal, sys
import kit
if "handles" in sys.argv:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
settings = kit.Settings(runtime_dir=sys.argv[1])
server = kit.Server({"worker": ["localhost:0"]}, settings=settings)
print(server.target.rpartition(":")[2], flush=True)
server.join()
"""


@contextmanager
def server_process(
    folder: Path, *more: str, before: Sequence[str] = ()
) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Start a server in a process of its own; yields the process and the port."""
    command = [*before, sys.executable, "-c", SERVER, str(folder), *more]
    with forking():
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        try:
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


def sockets(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("tcp-*"))


@pytest.mark.slow
@pytest.mark.parametrize(("more", "code"), [("", -signal.SIGTERM), ("handles", 7)])
def test_server_ended_by_sigterm_removes_its_socket_and_a_handler_of_the_user_stays(
    tmp_path: Path, more: str, code: int
) -> None:
    with server_process(tmp_path, more) as (process, _):
        assert len(sockets(tmp_path)) == 1

        process.terminate()

        assert process.wait(20) == code
    assert sockets(tmp_path) == []


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="root alone makes a pid namespace")
def test_first_process_of_a_container_is_ended_by_sigterm(tmp_path: Path) -> None:
    container = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    with server_process(tmp_path, before=container) as (outside, _):
        (server,) = psutil.Process(outside.pid).children()

        server.terminate()

        assert outside.wait(20) == 128 + signal.SIGTERM
    assert sockets(tmp_path) == []


@pytest.mark.slow
def test_socket_of_a_killed_server_deceives_nobody_and_is_swept(tmp_path: Path) -> None:
    with server_process(tmp_path) as (process, port):
        process.kill()
        process.wait(20)
    (left,) = sockets(tmp_path)
    over_tcp = kit.Settings(runtime_dir=str(tmp_path), transport="tcp")
    spec, credentials = {"worker": [f"localhost:{port}"]}, Credentials.new()

    with kit.Server(spec, credentials=credentials, settings=over_tcp) as server:
        assert sockets(tmp_path) == [left]
        near = over_tcp.replace(transport="auto")
        server.settings = near  # as another task that may use both sees it
        with server.directory.dial(server.task, CLIENT, Role.CONTROL) as link:
            assert link.transport == "tls"
    with kit.Server(spec, credentials=credentials, settings=near):
        (own,) = sockets(tmp_path)

    assert own != left


def bound(path: Path) -> socket.socket:
    first = socket.socket(socket.AF_UNIX)
    first.bind(str(path))
    return first


def test_socket_that_refuses_gives_way_to_the_port(tmp_path: Path) -> None:
    settings = kit.Settings(runtime_dir=str(tmp_path), transport="tcp")
    with kit.Server(
        {"worker": ["localhost:0"]}, credentials=Credentials.new(), settings=settings
    ) as server:
        assert isinstance(server.address, TcpAddress)
        beside = socket_beside(tmp_path, server.address)
        assert beside is not None
        server.connect({"worker": [str(server.address)]})
        bound(Path(beside.path)).close()  # of this very process, and nobody listens
        server.settings = settings.replace(transport="auto")

        with server.directory.dial(server.task, CLIENT, Role.CONTROL) as link:
            assert link.transport == "tls"


def test_sweep_removes_what_is_dead_and_nothing_else(tmp_path: Path) -> None:
    mine = f"{os.getpid():x}-{started(os.getpid()):x}"
    of_a_dead_one = f"{os.getpid():x}-1"  # the pid is in use, by a later process
    dead = [f"tcp-{port}.{of_a_dead_one}.sock" for port in ("1", "10.0.0.7-2")]
    # In use from a container; not listening yet; of somebody else.
    alive = [f"tcp-{port}.{of_a_dead_one}.sock" for port in ("3", "::1-4")]
    others = [f"tcp-5.{mine}.sock", "worker-0.sock"]
    held = [bound(tmp_path / name) for name in dead + alive + others]
    for item in held[2:4]:
        item.listen()

    sweep(tmp_path)

    assert {path.name for path in tmp_path.iterdir()} == {*alive, *others}
    for item in held:
        item.close()


@for_each("start", [0x620487, 0xABCDEF, 0x1A2B, 0])
@for_each("pid", [0x31C9, 0x1234, 0xBEEF])
@for_each("label", ["2222", "10.0.0.7-2222", "fe80::1-2222"])
def test_socket_of_a_running_process_stays_whatever_digits_its_name_has(
    label: str, pid: int, start: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_sockets, "started", {pid: start}.get)
    path = tmp_path / f"tcp-{label}.{pid:x}-{start:x}.sock"
    path.touch()  # a probe would find nobody

    sweep(tmp_path)

    assert path.exists()


def test_sigterm_is_watched_only_where_it_would_end_the_process(tmp_path: Path) -> None:
    settings = kit.Settings(runtime_dir=str(tmp_path))
    make = partial(kit.Server, {"worker": ["localhost:0"]}, settings=settings)
    credentials = Credentials.new()

    def ignored(*_: object) -> None: ...

    with make(credentials=credentials), make(credentials=credentials):
        assert callable(signal.getsignal(signal.SIGTERM))
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    for before in (signal.SIG_IGN, ignored):
        signal.signal(signal.SIGTERM, before)
        try:
            with make(credentials=credentials):
                assert signal.getsignal(signal.SIGTERM) is before
            assert signal.getsignal(signal.SIGTERM) is before
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def test_server_without_room_for_its_socket_leaves_the_port(tmp_path: Path) -> None:
    settings = kit.Settings(runtime_dir=str(tmp_path / ("long" * 25)))
    (port,) = free_ports(1)
    spec = {"worker": [f"localhost:{port}"]}

    with pytest.raises(InvalidArgumentError, match="shorter folder"):
        kit.Server(spec, credentials=Credentials.new(), settings=settings)

    with socket.create_server(("127.0.0.1", port)):
        pass
