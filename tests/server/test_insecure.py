"""What `insecure=True` opens: everything, to who can change what travels on the line.

The relay never has the cluster's key. It lets the two sides prove to each other that
they have it, and goes on alone with the connection that they have opened.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest

import kit.tf1 as tf
from kit.errors import AuthenticationFailed, ProtocolError
from kit.server.server import Server
from kit.session.client.connection import Connection
from kit.session.client.options import SessionOptions
from kit.session.client.remote import Remote
from kit.session.client.session import Session
from kit.settings import Settings
from kit.task import Task
from kit.wire.frame import Bounds, cluster_number
from kit.wire.handshake.credentials import Credentials
from kit.wire.handshake.messages import HELLO, Hello, Role, unpack_hello
from kit.wire.handshake.opening import connect
from kit.wire.link import Link
from kit.wire.listening.address import TcpAddress
from kit.wire.sockets import SocketStream

CLIENT = Task("client", 0)


@pytest.fixture(scope="module")
def credentials() -> Credentials:
    return Credentials.new()


@contextmanager
def serving(credentials: Credentials, folder: Path, insecure: bool) -> Iterator[Server]:
    settings = Settings(transport="tcp", insecure=insecure, runtime_dir=str(folder))
    spec = {"worker": ["127.0.0.1:0"]}
    with Server(spec, credentials=credentials, settings=settings) as server:
        yield server


def port(server: Server) -> int:
    assert isinstance(server.address, TcpAddress)
    return server.address.port


def carry(outer: socket.socket, inner: socket.socket, until: Future[Link]) -> bytes:
    """Carry both ways until the caller has its link; return what it sent."""
    sent, other = b"", {outer: inner, inner: outer}
    while not until.done():
        for one in select.select([outer, inner], [], [], 0.01)[0]:
            data = one.recv(65_536)
            if not data:
                return sent
            sent += data if one is outer else b""
            other[one].sendall(data)
    return sent


@contextmanager
def hijacked(
    server: Server, credentials: Credentials, insecure: bool
) -> Iterator[tuple[socket.socket, bytes]]:
    """Take over a session's link that its owner has just opened through a relay.

    Yields the connection to the server and what the owner had sent to open it.
    """
    hello = Hello(Role.SESSION, CLIENT)
    with (
        socket.create_server(("127.0.0.1", 0)) as middle,
        ThreadPoolExecutor(1) as pool,
    ):
        address = TcpAddress("127.0.0.1", middle.getsockname()[1])
        opening = pool.submit(
            connect, address, hello, credentials, insecure=insecure, deadline_s=10
        )
        outer, _ = middle.accept()
        inner = socket.create_connection(("127.0.0.1", port(server)), timeout=10)
        with outer, inner:
            sent = carry(outer, inner, opening)
            with closing(opening.result(timeout=10)):
                yield inner, sent


class Stolen:
    """A target of sessions: somebody else's connection."""

    def __init__(self, sock: socket.socket, sent: bytes) -> None:
        _, cluster_id = unpack_hello(sent[: HELLO.size])
        self.link = Link(
            SocketStream(sock, "tcp", "the server"),
            local=CLIENT,
            peer=Task("worker", 0),
            role=Role.SESSION,
            bounds=Bounds(cluster_number(cluster_id), max_length=1 << 20),
        )

    def connect_session(self, options: SessionOptions) -> Connection:
        return Remote("the server", lambda deadline_s: self.link, options)


def save(target: Stolen, path: Path) -> None:
    with tf.Graph().as_default() as graph:
        planted = tf.Variable(np.ones(3, np.float32), name="planted")
        tf.train.Saver()
    with Session(target, graph=graph) as session:
        session.run(planted.initializer)
        session.run(
            graph.get_operation_by_name("save/SaveV2"), {"save/Const:0": str(path)}
        )


def test_without_tls_a_man_in_the_middle_writes_files_as_the_user(
    credentials: Credentials, tmp_path: Path
) -> None:
    folder, victim = tmp_path / "run", tmp_path / "anywhere"
    with (
        serving(credentials, folder, insecure=True) as server,
        hijacked(server, credentials, insecure=True) as (sock, sent),
    ):
        save(Stolen(sock, sent), victim)

    assert list(tmp_path.glob("anywhere*")) != []


def test_with_tls_the_man_in_the_middle_cannot_even_read_who_says_hello(
    credentials: Credentials, tmp_path: Path
) -> None:
    with (
        serving(credentials, tmp_path / "run", insecure=False) as server,
        hijacked(server, credentials, insecure=False) as (sock, sent),
    ):
        assert credentials.cluster_id not in sent
        with pytest.raises(ProtocolError):
            Stolen(sock, sent)


def test_without_tls_who_only_reaches_the_port_is_refused_without_the_key(
    credentials: Credentials, tmp_path: Path
) -> None:
    stranger = Credentials(credentials.cluster_id, bytes(32))

    with serving(credentials, tmp_path, insecure=True) as server:
        address = TcpAddress("127.0.0.1", port(server))
        with pytest.raises(AuthenticationFailed):
            connect(address, Hello(Role.SESSION, CLIENT), stranger, insecure=True)
