"""One process of TensorFlow in the training benchmark: a parameter server or a worker.

`python -m benchmarks.tensorflow_rank`; arguments: rank, number of ranks, number of
servers. The first ranks hold the variables, the others train: the same model, start,
data and rate, over the peer's own runtime (`tensorflow.compat.v1`), with
`SyncReplicasOptimizer` or each by itself.

A training takes four orders, because a worker that finds no variables yet would sleep
for half a minute, and the first worker's threads serve the others until all are done.
"""

from __future__ import annotations

import socket
import sys
import time
from typing import Any

import tensorflow.compat.v1 as tf

from benchmarks import mlp
from benchmarks.problem import load
from benchmarks.rank_group import obey

_SPARE_TOKENS = 64


class TensorFlowTask:
    """A task's server, and one training after the other on it."""

    def __init__(self, rank: int, n_ranks: int, n_ps: int) -> None:
        is_server = rank < n_ps
        self._job = "ps" if is_server else "worker"
        self._index = rank if is_server else rank - n_ps
        self._n_ps, self._n_workers = n_ps, n_ranks - n_ps
        self._n_trainings = 0
        self._server: Any = None
        self._session: Any = None
        self._training: Training | None = None
        self._coordinator: Any = None
        self._config = tf.ConfigProto(intra_op_parallelism_threads=1)

    def find_port(self) -> int:
        """Return a port that is free now."""
        with socket.socket() as probe:
            probe.bind(("localhost", 0))
            return int(probe.getsockname()[1])

    def listen(self, ports: list[int]) -> None:
        """Start the server; the ports are those of all ranks."""
        hosts = [f"localhost:{port}" for port in ports]
        self._server = tf.train.Server(
            {"ps": hosts[: self._n_ps], "worker": hosts[self._n_ps :]},
            job_name=self._job,
            task_index=self._index,
            config=self._config,
        )

    def build(self, path: str, synchronous: bool, n_ps: int) -> None:
        """Build the graph; the first worker sets the variables."""
        self._n_trainings += 1
        if self._job == "ps":
            return
        self._training = Training(
            path,
            self._index,
            n_ps,
            self._n_workers if synchronous else 0,
            f"training{self._n_trainings}",  # what a server holds outlives sessions
        )
        if self._index == 0:
            self._open()

    def join(self) -> None:
        """Open the other workers' sessions."""
        if self._job == "worker" and self._index:
            self._open()

    def train(self, steps: int) -> dict[str, list[Any]]:
        """Train; returns when each step ended, and the losses."""
        if self._training is None:
            return {"ends": [], "losses": []}
        return self._training.run(self._session, self._n_workers, steps)

    def end(self) -> None:
        """Close the session."""
        if self._coordinator is not None:
            self._coordinator.request_stop()
        if self._session is not None:
            self._session.close()
        self._session = self._training = self._coordinator = None

    def _open(self) -> None:
        assert self._training is not None
        graph = self._training.graph
        target = self._server.target
        self._session = tf.Session(target, graph=graph, config=self._config)
        self._coordinator = self._training.begin(self._session)


class Training:
    """The graph of one worker; with `n_replicas` its updates wait for each other."""

    def __init__(
        self, path: str, index: int, n_ps: int, n_replicas: int, container: str
    ) -> None:
        self._index, self._problem = index, load(path)
        self.graph = tf.Graph()
        worker = f"/job:worker/task:{index}"
        setter = tf.train.replica_device_setter(ps_tasks=n_ps, worker_device=worker)
        with self.graph.as_default(), tf.device(setter), tf.container(container):
            self._build(n_replicas)

    def begin(self, session: Any) -> Any:
        """Set the variables, or our own ones only; returns what ends the threads."""
        coordinator = tf.train.Coordinator()
        if self._index == 0:
            session.run(self._initial)
            for variable, value in zip(
                self._variables, self._problem.params.values(), strict=True
            ):
                variable.load(value, session)
            if self._sync is not None:
                self._runner.create_threads(session, coordinator, start=True)
                session.run([self._sync.chief_init_op, self._tokens])
        elif self._sync is not None:
            session.run(self._sync.local_step_init_op)
        return coordinator

    def run(self, session: Any, n_workers: int, steps: int) -> dict[str, list[Any]]:
        """Do so many steps of this worker on its own examples."""
        ends, losses = [], []
        for number in range(steps):
            batch = self._problem.part(number, self._index, n_workers)
            x, y = self._problem.inputs(batch)
            feed = {self._inputs: x, self._classes: y}
            _, loss = session.run([self._step, self._loss], feed)
            ends.append(time.monotonic_ns())
            losses.append(float(loss))
        if self._sync is not None:
            session.run(self._farewell)
        return {"ends": ends, "losses": losses}

    def _build(self, n_replicas: int) -> None:
        x, y = self._problem.inputs(self._problem.part(0, 0, 1))
        self._inputs = tf.placeholder(x.dtype, [None, *x.shape[1:]])
        self._classes = tf.placeholder(y.dtype, [None])
        global_step = tf.train.get_or_create_global_step()
        shapes = [value.shape for value in self._problem.params.values()]
        self._variables = [
            tf.get_variable(f"p{n}", shape, tf.float32, tf.zeros_initializer())
            for n, shape in enumerate(shapes)
        ]
        hidden, first = self._inputs, len(shapes) % 2
        if first:
            seen = tf.nn.embedding_lookup(self._variables[0], hidden)
            hidden = tf.reshape(seen, [-1, shapes[1][0]])
        for n in range(first, len(shapes), 2):
            weights, biases = self._variables[n : n + 2]
            hidden = tf.matmul(hidden, weights) + biases
            if n + 2 < len(shapes):
                hidden = tf.nn.relu(hidden)
        self._loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=self._classes, logits=hidden
            )
        )
        optimizer = tf.train.GradientDescentOptimizer(mlp.RATE)
        self._sync = None
        if n_replicas:
            self._sync = optimizer = tf.train.SyncReplicasOptimizer(
                optimizer, n_replicas, n_replicas
            )
        self._step = optimizer.minimize(self._loss, global_step=global_step)
        if self._sync is not None:
            self._runner = self._sync.get_chief_queue_runner()
            self._tokens = self._sync.get_init_tokens_op()
            # Gradients that came too late were dropped; without a few tokens more, a
            # worker that has steps left would wait for one who has none, for ever.
            self._farewell = self._sync.get_init_tokens_op(_SPARE_TOKENS)
        self._initial = [
            tf.global_variables_initializer(),
            tf.local_variables_initializer(),
        ]


def main() -> None:
    tf.disable_v2_behavior()
    tf.logging.set_verbosity(tf.logging.ERROR)
    rank, n_ranks, n_ps = map(int, sys.argv[1:4])
    task = TensorFlowTask(rank, n_ranks, n_ps)
    names = ("find_port", "listen", "build", "join", "train", "end")
    obey(rank, {name: getattr(task, name) for name in names})


if __name__ == "__main__":
    main()
