"""A server that listens elsewhere than where the others dial it."""

from __future__ import annotations

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


@pytest.fixture(scope="module")
def credentials() -> Credentials:
    return Credentials.new()


def serve(
    folder: Path, credentials: Credentials, address: str, bind: str, **more: Any
) -> kit.Server:
    settings = kit.Settings(runtime_dir=str(folder), **more)
    return kit.Server(
        {"worker": [address]}, credentials=credentials, settings=settings, bind=bind
    )


def transport(server: kit.Server, credentials: Credentials, address: str) -> str:
    """Dial the server at an address; return what carries the link."""
    folder = Path(server.settings.runtime_dir)
    directory = Directory({server.task: address}, credentials, folder, server.settings)
    link = directory.dial(server.task, CLIENT, Role.OBSERVER)
    link.close()
    return link.transport


@pytest.mark.parametrize("bind", ["127.0.0.1", "127.0.0.1:{port}", "0.0.0.0"])
def test_a_server_is_advertised_by_a_name_that_this_host_need_not_know(
    tmp_path: Path, credentials: Credentials, bind: str
) -> None:
    (port,) = free_ports(1)
    name = f"worker-0.psring:{port}"

    with serve(tmp_path, credentials, name, bind.format(port=port)) as server:
        assert str(server.address) == name
        assert server.target == f"psring://{name}"
        assert server.directory.addresses == {server.task: name}
        near = f"localhost:{port}"
        assert transport(server, credentials, near) == "tls"
    assert list(tmp_path.iterdir()) == []


def test_sessions_of_the_same_process_need_no_way_to_the_name(
    tmp_path: Path, credentials: Credentials
) -> None:
    with (
        serve(tmp_path, credentials, "worker-0.psring:0", "127.0.0.1") as server,
        kit.Graph().as_default(),
    ):
        doubled = kit.constant(np.float32(21)) * 2
        with kit.Session(server.target) as session:
            assert session.run(doubled) == 42


def test_port_0_is_advertised_as_the_port_that_was_found(
    tmp_path: Path, credentials: Credentials
) -> None:
    with serve(tmp_path, credentials, "worker-0.psring:0", "127.0.0.1") as server:
        assert not str(server.address).endswith(":0")
        port = str(server.address).rpartition(":")[2]
        assert transport(server, credentials, f"127.0.0.1:{port}") == "tls"


def test_neighbours_use_the_socket_beside_a_port_that_listens_on_all_addresses(
    tmp_path: Path, credentials: Credentials
) -> None:
    with serve(tmp_path, credentials, "127.0.0.1:0", "0.0.0.0") as server:
        assert transport(server, credentials, str(server.address)) == "unix"


def test_a_port_that_is_forwarded_has_no_socket_beside_it(
    tmp_path: Path, credentials: Credentials
) -> None:
    outer, inner = free_ports(2)

    with serve(tmp_path, credentials, f"127.0.0.1:{outer}", f"127.0.0.1:{inner}"):
        assert list(tmp_path.glob("*.sock")) == []


@pytest.mark.parametrize("address", ["192.0.2.1:0", "worker-0.invalid:0"])
def test_a_name_that_is_not_this_host_asks_where_to_listen(
    tmp_path: Path, credentials: Credentials, address: str
) -> None:
    settings = kit.Settings(runtime_dir=str(tmp_path))

    with pytest.raises(
        (InvalidArgumentError, UnavailableError), match=r"bind='0\.0\.0\.0'"
    ):
        kit.Server({"worker": [address]}, credentials=credentials, settings=settings)


@pytest.mark.parametrize("bind", ["0.0.0.0", "[::]:0"])
def test_all_addresses_are_refused_without_encryption(
    tmp_path: Path, bind: str
) -> None:
    plain = Credentials.new(certificate=False)

    with pytest.raises(PermissionDeniedError, match="credentials with a certificate"):
        serve(tmp_path, plain, "127.0.0.1:0", bind)
    with pytest.raises(PermissionDeniedError, match="one interface instead of all"):
        serve(tmp_path, plain, "127.0.0.1:0", bind, insecure=True)


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
    tmp_path: Path, credentials: Credentials, address: str, bind: str, words: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        serve(tmp_path, credentials, address.format(tmp_path), bind.format(tmp_path))
