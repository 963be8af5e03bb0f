"""One process of the session benchmark: `python -m benchmarks.session_rank`.

Arguments: rank, number of ranks, system (`kit` or `tensorflow`). Rank 0 is ps:0, ranks
1 and 2 are the workers, rank 3 a client that hosts no task. Both systems build the same
graph in the client's process: variables on each task, and what is run with them.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.rank_group import obey

N_LARGE = 1 << 24  # of four bytes: 64 MiB
TARGET = 1
PS, W0, W1 = "/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"
_TASKS = (("ps", 0), ("worker", 0), ("worker", 1))


class Member:
    """What both systems share: a task or a client, and its session."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self._runs: dict[str, Callable[[], Any]] = {}

    def find_port(self) -> int:
        """Return a port that is free now."""
        with socket.socket() as probe:
            probe.bind(("localhost", 0))
            return int(probe.getsockname()[1])

    def build(self) -> dict[str, Callable[[], Any]]:
        """Build the graph, open a session, set the variables; returns the runs."""
        raise NotImplementedError

    def measure(self, case: str, client: int, repeats: int) -> dict[str, Any]:
        """Return the microseconds of each run, and what the last one gave."""
        if client != self.rank:
            return {}
        if not self._runs:
            self._runs = self.build()
        run, took = self._runs[case], []
        for _ in range(repeats):
            began = time.perf_counter_ns()
            value = run()
            took.append((time.perf_counter_ns() - began) / 1000)
        return {"us": took, "value": None if value is None else float(value)}


class Kit(Member):
    """Ours."""

    def listen(self, places: list[str], keys: dict[str, str]) -> str:
        """Start this task's server; returns its address."""
        from kit.server.server import Server
        from kit.settings import Settings
        from kit.wire.handshake.credentials import Credentials

        self._credentials = Credentials.from_plain(keys)
        self._settings = Settings(runtime_dir=places[self.rank])
        if self.rank >= len(_TASKS):
            return ""
        job, index = _TASKS[self.rank]
        path = f"unix:{places[self.rank]}/{job}-{index}.sock"
        expected: dict[str, Any] = {
            "credentials": self._credentials,
            "settings": self._settings,
        }
        self._server = Server({job: {index: path}}, **expected)
        return str(self._server.address)

    def connect(self, addresses: list[str]) -> None:
        """Learn where the tasks are."""
        from pathlib import Path

        from kit.server.directory import Directory
        from kit.server.target import ClusterTarget
        from kit.task import Task

        self._target: Any
        if self.rank < len(_TASKS):
            spec = {"ps": addresses[:1], "worker": addresses[1:3]}
            self._server.connect(spec)
            self._target = self._server
            return
        expected = {
            Task(*item): at for item, at in zip(_TASKS, addresses, strict=False)
        }
        folder = Path(str(self._settings.runtime_dir))
        directory = Directory(expected, self._credentials, folder, self._settings)
        self._target = ClusterTarget(lambda: directory, Task(*_TASKS[TARGET]))

    def build(self) -> dict[str, Callable[[], Any]]:
        """See `Member`."""
        import kit.graph.ops
        from kit.graph.graph import Graph
        from kit.graph.ops.state.source import identity
        from kit.graph.variable import Variable, initialize_all
        from kit.session.client.session import Session

        assert kit.graph.ops
        graph = Graph()
        with graph.as_default():
            with graph.device(W0):
                own = Variable(np.float32(1), name="own").value()
            with graph.device(PS):
                a = Variable(np.float32(2), name="a").value()
                large = Variable(np.ones(N_LARGE, np.float32), name="large").value()
            with graph.device(W1):
                b = Variable(np.float32(3), name="b").value()
                moved = identity(large).op
            with graph.device(W0):
                two = a + b
        session = Session(self._target, graph)
        with graph.as_default():
            session.run(initialize_all())
        return _runs(session, {"own": own, "other": a, "two": two, "large": moved})


class TensorFlow(Member):
    """The peer's own runtime, as version 1 programs use it."""

    def listen(self, places: list[int], keys: dict[str, str]) -> None:
        """Start this task's server."""
        import tensorflow.compat.v1 as tf

        tf.disable_v2_behavior()
        if self.rank < len(_TASKS):
            job, index = _TASKS[self.rank]
            hosts = [f"localhost:{port}" for port in places]
            spec = {"ps": hosts[:1], "worker": hosts[1:3]}
            config = tf.ConfigProto(intra_op_parallelism_threads=1)
            self._server = tf.train.Server(
                spec, job_name=job, task_index=index, config=config
            )

    def connect(self, addresses: list[str]) -> None:
        """Learn where the target is."""
        self._target = f"grpc://{addresses[TARGET]}"

    def build(self) -> dict[str, Callable[[], Any]]:
        """See `Member`."""
        import tensorflow.compat.v1 as tf

        graph = tf.Graph()
        with graph.as_default():
            with tf.device(W0):
                own = tf.identity(tf.Variable(np.float32(1), name="own"))
            with tf.device(PS):
                a = tf.identity(tf.Variable(np.float32(2), name="a"))
                large = tf.Variable(tf.ones([N_LARGE]), name="large")
            with tf.device(W1):
                b = tf.identity(tf.Variable(np.float32(3), name="b"))
                moved = tf.identity(large).op
            with tf.device(W0):
                two = a + b
            init = tf.global_variables_initializer()
        session = tf.Session(self._target, graph=graph)
        session.run(init)
        return _runs(session, {"own": own, "other": a, "two": two, "large": moved})


def _runs(session: Any, wanted: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    def running(fetch: Any) -> Callable[[], Any]:
        return lambda: session.run(fetch)

    return {name: running(item) for name, item in wanted.items()}


SYSTEMS: dict[str, type[Kit | TensorFlow]] = {"kit": Kit, "tensorflow": TensorFlow}


def main() -> None:
    rank, system = int(sys.argv[1]), sys.argv[3]
    first = SYSTEMS[system](rank)
    names = ("find_port", "listen", "connect", "measure")
    obey(rank, {name: getattr(first, name) for name in names})


if __name__ == "__main__":
    main()
