"""What `insecure=True` opens: everything, to who can change what travels on the line.

The relay never has the cluster's key. It lets the two sides prove to each other that
they have it, and goes on alone with the connection that they have opened.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest

import kit
import kit.tf1 as tf
from kit.errors import AuthenticationFailed, ProtocolError
from kit.kubernetes import manifest
from kit.server.server import Server
from kit.session.client.connection import Connection
from kit.session.client.options import SessionOptions
from kit.session.client.remote import Remote
from kit.session.client.session import Session
from kit.settings import Settings
from kit.task import Task
from kit.testing.cluster import local_cluster
from kit.wire.frame import Bounds, cluster_number
from kit.wire.handshake.credentials import Credentials
from kit.wire.handshake.messages import HELLO, Hello, Role, unpack_hello
from kit.wire.handshake.opening import connect
from kit.wire.link import Link
from kit.wire.listening.address import TcpAddress
from kit.wire.sockets import SocketStream
from tests.cases import for_each
from tests.training.toy import begin
from widgets import TrafficBoard, write_report
from widgets.board import snapshot
from widgets.board.sentences import status
from widgets.board.watcher import beat_of, pulse_of

CLIENT = Task("client", 0)
WARNING = "insecure=True: no encryption"


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
        for item in select.select([outer, inner], [], [], 0.01)[0]:
            data = item.recv(65_536)
            if not data:
                return sent
            sent += data if item is outer else b""
            other[item].sendall(data)
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


# -- it stands in whatever shows a cluster, a server or a training ---------------------


def shown_of_a_training(folder: Path, insecure: bool) -> dict[str, str]:
    """Train on a cluster; return all that a user can look at, by what it is."""
    settings = Settings(transport="tcp", insecure=insecure)
    with local_cluster(ps=1, worker=1, settings=settings) as cluster:
        server = cluster.servers[0]
        attached = kit.attach(
            server.target,
            credentials=server.directory.credentials,
            settings=server.settings,
        )
        run = begin(cluster, steps=3, record=folder / "run").wait(60)
        run.trace.save(folder / "trace.json")
        write_report(folder / "report.html", [("A training", "Some.", run.trace)])
        recorded, seen_there = kit.load_run(folder / "run"), attached.run
        assert seen_there is not None
        trace = kit.Trace.load(folder / "trace.json")
        boards: tuple[kit.Run | kit.Trace | Path, ...] = (
            run,
            recorded,
            seen_there,
            run.trace,
            folder / "trace.json",
        )
        beats = [
            pulse_of(item).look()
            if isinstance(item, kit.Run)
            else beat_of(kit.Trace.load(item) if isinstance(item, Path) else item)
            for item in boards
        ]
        return {
            "server": repr(server),
            "attached cluster": repr(attached),
            **{
                f"{kind} {n}": text
                for n, item in enumerate((run, recorded, seen_there))
                for kind, text in (("run", repr(item)), ("table", item._repr_html_()))
            },
            "trace": repr(run.trace),
            "saved trace": repr(trace),
            **{f"board {n}": repr(TrafficBoard(item)) for n, item in enumerate(boards)},
            **{f"page {n}": snapshot.html(beat) for n, beat in enumerate(beats)},
            **{f"status {n}": status(beat.moment) for n, beat in enumerate(beats)},
            "report": (folder / "report.html").read_text(),
        }


@pytest.mark.slow
@pytest.mark.parametrize("insecure", [True, False])
def test_all_that_shows_a_training_says_whether_its_links_are_insecure(
    tmp_path: Path, insecure: bool
) -> None:
    shown = shown_of_a_training(tmp_path, insecure)

    assert len(shown) >= 25
    assert {what: WARNING in text for what, text in shown.items()} == {
        what: insecure for what in shown
    }


@for_each(["insecure"], [(True,), (False,)])
def test_a_cluster_shows_whether_it_is_insecure(insecure: bool) -> None:
    cluster = kit.Cluster(ps=0, worker=1, insecure=insecure)

    assert (WARNING in repr(cluster)) is insecure
    assert (WARNING in cluster._repr_html_()) is insecure
    # This is how other notebooks see it, by %cluster list.
    assert ("insecure=True" in cluster.options.as_arguments) is insecure


@for_each(["value", "insecure"], [("yes", True), ("1", True), ("0", False)])
def test_objects_of_kubernetes_show_whether_they_are_insecure(
    value: str, insecure: bool
) -> None:
    chosen = {"KIT_INSECURE": value}
    objects = manifest("demo", "registry.example/digits:3", environment=chosen)

    notes = [item["metadata"].get("annotations", {}) for item in objects]
    assert [WARNING in note.values() for note in notes] == [insecure] * len(objects)


@pytest.mark.slow
def test_a_server_says_on_the_command_line_that_it_is_insecure(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "kit", "serve", "--job", "worker", "--index", "0"]
    chosen = {"KIT_INSECURE": "1", "KIT_RUNTIME_DIR": str(tmp_path)}
    Credentials.new().save(tmp_path / "key" / "key.json")
    spec = {"worker": [f"unix:{tmp_path}/key/s"]}
    with subprocess.Popen(
        [*words, "--cluster", json.dumps(spec)],
        env=os.environ | chosen | {"KIT_CREDENTIALS": str(tmp_path / "key/key.json")},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        process.terminate()

    assert "serves at" in first
    assert WARNING in first


def test_a_server_of_tensorflow_shows_that_it_is_insecure() -> None:
    with kit.settings(insecure=True):
        server = tf.train.Server({"worker": ["127.0.0.1:0"]}, start=False)
        said = repr(server)
        server._native.stop()  # TensorFlow has no way to

    assert WARNING in said
