"""A server that listens elsewhere than where the others dial it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kit
from kit.errors import (
    InvalidArgumentError,
    PermissionDeniedError,
    UnavailableError,
)
from kit.server.directory import Directory
from kit.task import Task
from kit.wire.handshake.credentials import Credentials
from kit.wire.handshake.messages import Role
from tests.server.ports import free_ports

CLIENT = Task("client", 0)
Serve = Callable[..., kit.Server]


@pytest.fixture
def serve(tmp_path: Path, credentials: Credentials) -> Serve:
    """Return what makes a server with an address that listens at another."""

    def started(
        address: str, bind: str | None, keys: Credentials = credentials, **more: Any
    ) -> kit.Server:
        settings = kit.Settings(runtime_dir=str(tmp_path), **more)
        return kit.Server(
            {"worker": [address]}, credentials=keys, settings=settings, bind=bind
        )

    return started


def transport(server: kit.Server, address: str) -> str:
    """Dial the server at an address; return what carries the link."""
    folder, credentials = (
        Path(server.settings.runtime_dir),
        server.directory.credentials,
    )
    directory = Directory({server.task: address}, credentials, folder, server.settings)
    link = directory.dial(server.task, CLIENT, Role.OBSERVER)
    link.close()
    return link.transport


@pytest.mark.parametrize("bind", ["127.0.0.1", "127.0.0.1:{port}", "0.0.0.0"])
def test_a_server_is_advertised_by_a_name_that_this_host_need_not_know(
    tmp_path: Path, serve: Serve, bind: str
) -> None:
    (port,) = free_ports(1)
    name = f"worker-0.psring:{port}"

    with serve(name, bind.format(port=port)) as server:
        assert str(server.address) == name
        assert server.target == f"psring://{name}"
        assert server.directory.addresses == {server.task: name}
        near = f"localhost:{port}"
        assert transport(server, near) == "tls"
    assert list(tmp_path.iterdir()) == []


def test_sessions_of_the_same_process_need_no_way_to_the_name(serve: Serve) -> None:
    with (
        serve("worker-0.psring:0", "127.0.0.1") as server,
        kit.Graph().as_default(),
    ):
        doubled = kit.constant(np.float32(21)) * 2
        with kit.Session(server.target) as session:
            assert session.run(doubled) == 42


def test_port_0_is_advertised_as_the_port_that_was_found(serve: Serve) -> None:
    with serve("worker-0.psring:0", "127.0.0.1") as server:
        assert not str(server.address).endswith(":0")
        port = str(server.address).rpartition(":")[2]
        assert transport(server, f"127.0.0.1:{port}") == "tls"


def test_neighbours_use_the_socket_beside_a_port_that_listens_on_all_addresses(
    serve: Serve,
) -> None:
    with serve("127.0.0.1:0", "0.0.0.0") as server:
        assert transport(server, str(server.address)) == "unix"


def test_a_port_that_is_forwarded_has_no_socket_beside_it(
    tmp_path: Path, serve: Serve
) -> None:
    outer, inner = free_ports(2)

    with serve(f"127.0.0.1:{outer}", f"127.0.0.1:{inner}"):
        assert list(tmp_path.glob("*.sock")) == []


@pytest.mark.parametrize("address", ["192.0.2.1:0", "worker-0.invalid:0"])
def test_a_name_that_is_not_this_host_asks_where_to_listen(
    serve: Serve, address: str
) -> None:
    with pytest.raises(
        (InvalidArgumentError, UnavailableError), match=r"bind='0\.0\.0\.0'"
    ):
        serve(address, None)


@pytest.mark.parametrize("bind", ["0.0.0.0", "[::]:0"])
def test_all_addresses_are_refused_without_encryption(serve: Serve, bind: str) -> None:
    plain = Credentials.new(certificate=False)

    with pytest.raises(PermissionDeniedError, match="credentials with a certificate"):
        serve("127.0.0.1:0", bind, plain)
    with pytest.raises(PermissionDeniedError, match="one interface instead of all"):
        serve("127.0.0.1:0", bind, plain, insecure=True)


@pytest.mark.parametrize(
    ("address", "bind", "words"),
    [
        ("unix:{}/s", "127.0.0.1:0", "does not go with"),
        ("worker-0:1", "unix:{}/s", "does not go with"),
        ("worker-0:1", "", "not a host"),
        ("worker-0:1", "::", "not an address"),
        ("worker-0:1", "127.0.0.1:x", "not an address"),
        ("worker-0:1", "192.0.2.1", "an address of this machine"),
    ],
)
def test_a_bind_address_that_cannot_be_meant_is_refused(
    tmp_path: Path, serve: Serve, address: str, bind: str, words: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        serve(address.format(tmp_path), bind.format(tmp_path))
