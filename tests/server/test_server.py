"""One task's server: which task it is, where it listens, whom it lets in."""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import kit
from kit.errors import (
    AddressInUse,
    FailedPreconditionError,
    InvalidArgumentError,
    PlacementError,
)
from kit.server.directory import Directory
from kit.task import Task
from kit.wire.handshake.credentials import Credentials
from kit.wire.handshake.messages import Role
from kit.wire.rpc import Caller
from tests.cases import for_each
from tests.server.ports import free_ports

ONE, TWO = ["localhost:0"], ["localhost:0", "localhost:0"]
CLIENT = Task("client", 0)


MakeServer = Callable[..., kit.Server]


@pytest.fixture
def make(tmp_path: Path, credentials: Credentials) -> MakeServer:
    """Return what makes a server of some arguments, in a folder of the test."""
    settings = kit.Settings(runtime_dir=str(tmp_path))
    return partial(kit.Server, credentials=credentials, settings=settings)


@pytest.fixture
def server(make: MakeServer) -> Iterator[kit.Server]:
    with make({"worker": ONE}) as started:
        yield started


@for_each(
    ("args", "error", "words"),
    [
        ((None,), TypeError, "None"),
        (("localhost:0",), TypeError, "'localhost:0'"),
        (({"worker": 5},), TypeError, "5"),
        (({"worker": [1]},), TypeError, "1"),
        (({},), ValueError, "none"),
        (({"ps": ONE, "worker": ONE},), ValueError, "'ps', 'worker'"),
        (({"worker": TWO},), ValueError, "[0, 1]"),
        (({"worker": TWO}, "worker"), ValueError, "task_index"),
        (({"worker": ONE}, "chief"), ValueError, "'chief'"),
        (({"worker": ONE}, "chief", 0), ValueError, "'chief'"),
        (({"worker": TWO}, "worker", 5), ValueError, "5"),
        (({"worker": TWO}, "worker", -1), ValueError, "-1"),
        (({"worker": TWO}, "worker", "0"), TypeError, "'0'"),
        (({"worker": TWO}, "worker", True), TypeError, "True"),
        (({"worker": TWO}, "worker", 1.0), TypeError, "1.0"),
        (({"worker": ["localhost"]},), InvalidArgumentError, "port"),
        (({"worker": [""]},), InvalidArgumentError, "port"),
        (({"worker": ["localhost:abc"]},), InvalidArgumentError, "port"),
        (({"worker": ["localhost:70000"]},), InvalidArgumentError, "70000"),
    ],
)
def test_task_that_cannot_be_meant_is_refused(
    make: MakeServer, args: tuple[Any, ...], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=re.escape(words)):
        make(*args)


@pytest.mark.parametrize(
    ("cluster", "task"),
    [
        ({"worker": ONE}, "/job:worker/task:0"),
        ({"chief": {3: "localhost:0"}}, "/job:chief/task:3"),
        ({b"worker": ONE}, "/job:worker/task:0"),
        (kit.ClusterSpec({"ps": ONE}), "/job:ps/task:0"),
        (kit.ClusterSpec({"ps": ONE}).as_cluster_def(), "/job:ps/task:0"),
    ],
)
def test_only_task_need_not_be_named(make: MakeServer, cluster: Any, task: str) -> None:
    with make(cluster) as server:
        assert str(server.task) == task
        assert [str(item) for item in server.tasks] == [task]
        assert f"<Server {task} at localhost:" in repr(server)


def test_port_0_takes_a_free_one_and_the_target_names_it(server: kit.Server) -> None:
    host, port = server.target.removeprefix("psring://").split(":")

    assert host == "localhost"
    with socket.create_connection(("127.0.0.1", int(port)), timeout=5):
        pass


def test_taken_port_is_refused_at_once_naming_its_holder(
    make: MakeServer, server: kit.Server
) -> None:
    begun = time.monotonic()

    with pytest.raises(AddressInUse, match=rf"process {os.getpid()} \("):
        make({"worker": [str(server.address)]})

    assert time.monotonic() - begun < 10


def test_start_twice_changes_nothing_and_stop_frees_the_port(
    tmp_path: Path, make: MakeServer
) -> None:
    (port,) = free_ports(1)
    server = make({"worker": [f"localhost:{port}"]}, start=False)
    with pytest.raises(FailedPreconditionError, match=r"start\(\)"):
        pytest.fail(server.target)

    server.start()
    where = server.address
    server.start()

    assert server.address == where
    server.stop()
    server.stop()
    assert "stopped" in repr(server)
    assert list(tmp_path.glob("*.sock")) == []
    make({"worker": [f"localhost:{port}"]}).stop()


def test_join_returns_when_the_server_is_stopped(server: kit.Server) -> None:
    assert not server.join(0.01)
    joined: list[bool] = []
    thread = threading.Thread(target=lambda: joined.append(server.join(10)))
    thread.start()
    server.stop()
    thread.join(10)

    assert joined == [True]


def dial(server: kit.Server, credentials: Credentials, task: Task) -> Caller:
    addresses = {task: str(server.address)}
    folder = Path(server.settings.runtime_dir)
    directory = Directory(addresses, credentials, folder, server.settings)
    return Caller(directory.dial(task, CLIENT, Role.OBSERVER))


def test_other_task_than_the_expected_one_is_named(
    server: kit.Server, credentials: Credentials
) -> None:
    with pytest.raises(FailedPreconditionError, match=r"worker:0.*ps:3"):
        dial(server, credentials, Task("ps", 3))


def test_unknown_task_is_a_placement_error(server: kit.Server) -> None:
    with pytest.raises(PlacementError, match="worker:0"):
        server.directory.dial(Task("ps", 0), CLIENT, Role.CONTROL)


def test_neighbours_use_the_socket_beside_the_port_and_are_told_what_is_not_answered(
    server: kit.Server, credentials: Credentials
) -> None:
    with closing(dial(server, credentials, server.task)) as caller:
        assert caller.link.transport == "unix"
        with pytest.raises(InvalidArgumentError, match="knows nothing of training"):
            caller.call("run.poll", 5.0, {"run": "ab" * 16, "cursors": [0, 0, 0]})
        with pytest.raises(kit.errors.UnimplementedError, match=r"'run\.dance'"):
            caller.call("run.dance", 5.0)
