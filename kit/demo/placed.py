"""The third part of the demonstration: one session, variables on the ps, two styles.

The same perceptron is trained in one graph, synchronously, and between graphs, each
worker at its own pace, over variables on the same parameter servers.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import kit
from kit.cluster import Cluster
from kit.demo.digits import DigitsMlp
from kit.server.engine import current
from kit.session.client.session import Session
from kit.task import Task

# --------------------------------------------------------------------------------------
# The digits' perceptron as a graph over placed variables, for one client or for many.
#
# in one graph      a tower on every worker; their mean gradient is applied on the ps
# between graphs    every worker has a client and a graph of its own, with the same
# variables on the ps, and applies its gradients when it has them

Array = npt.NDArray[Any]
Examples = tuple[Array, ...]
_RATE = 0.05


class Tower(NamedTuple):
    """What one worker computes: its inputs and its loss."""

    images: kit.Tensor
    labels: kit.Tensor
    loss: kit.Tensor

    def feeds(self, examples: Examples) -> dict[kit.Tensor, Array]:
        """Return the feeds of a mini-batch."""
        return dict(zip((self.images, self.labels), examples, strict=True))


class ReplicaModel(NamedTuple):
    """A graph with its variables, its towers and the op that makes one step."""

    graph: kit.Graph
    variables: dict[str, kit.Variable]
    towers: list[Tower]
    train: kit.Op
    start: kit.Op


class ReplicaReport(NamedTuple):
    """What a client did: its steps, the seconds, its last loss, a step's transfers."""

    steps: int
    seconds: float
    loss: float
    transfers: list[tuple[str, str, int]]  # (source, destination, bytes)


def in_one_graph(
    params: Mapping[str, Array], n_ps: int, n_workers: int
) -> ReplicaModel:
    """Build one graph for all: variables on the ps, a tower on each worker."""
    with kit.Graph().as_default() as graph:
        variables = _variables(params, n_ps, "/job:worker/task:0")
        towers, tower_gradients = [], []
        for worker in range(n_workers):
            with kit.device(f"/job:worker/task:{worker}"):
                towers.append(_tower(variables))
                wanted = list(variables.values())
                tower_gradients.append(
                    kit.gradients(towers[-1].loss, wanted, colocate=False)
                )
        pairs: list[tuple[Any, kit.Variable]] = []
        for variable, *own in zip(variables.values(), *tower_gradients, strict=True):
            with kit.colocate_with(variable):
                pairs.append((sum(own[1:], own[0]) / float(n_workers), variable))
        train = kit.Adagrad(_RATE).apply_gradients(pairs)
        return ReplicaModel(graph, variables, towers, train, kit.initialize_all())


def of_one_worker(params: Mapping[str, Array], n_ps: int, worker: int) -> ReplicaModel:
    """Build a worker's own graph; those of all workers name the same variables."""
    device = f"/job:worker/task:{worker}"
    with kit.Graph().as_default() as graph:
        variables = _variables(params, n_ps, device)
        with kit.device(device):
            tower = _tower(variables)
            gradients = kit.gradients(tower.loss, [*variables.values()], colocate=False)
        pairs = zip(gradients, variables.values(), strict=True)
        train = kit.Adagrad(_RATE).apply_gradients(pairs)
        return ReplicaModel(graph, variables, [tower], train, kit.initialize_all())


def client(
    server: kit.Server,
    params: Mapping[str, Array],
    examples: Examples,
    n_ps: int,
    batch: int,
    steps: int,
    seed: int,
) -> ReplicaReport:
    """Train in a worker's own process, on its own server, at its own pace."""
    worker = server.task.index
    model = of_one_worker(params, n_ps, worker)
    drawn = batches(examples, batch, seed + worker)
    with kit.Session(server, model.graph) as session:
        return work(session, model, drawn, steps)


def work(
    session: kit.Session, model: ReplicaModel, drawn: Iterator[Examples], steps: int
) -> ReplicaReport:
    """Make some steps; each tower gets a mini-batch."""
    metadata, begin, loss = kit.RunMetadata(), time.perf_counter(), float("nan")
    fetches = [model.train, [tower.loss for tower in model.towers]]
    for step in range(steps):
        feeds: dict[kit.Tensor, Array] = {}
        for tower in model.towers:
            feeds |= tower.feeds(next(drawn))
        is_last = step == steps - 1  # a traced step takes longer
        results = session.run(fetches, feeds, metadata=metadata if is_last else None)
        loss = float(np.mean(results[1]))
    transfers = [(row[1], row[2], row[3]) for row in metadata.transfers]
    return ReplicaReport(steps, time.perf_counter() - begin, loss, transfers)


def batches(examples: Examples, batch: int, seed: int) -> Iterator[Examples]:
    """Yield mini-batches of examples drawn at random, without end."""
    dice = np.random.default_rng(seed)
    while True:
        rows = dice.integers(0, len(examples[0]), batch)
        yield tuple(part[rows] for part in examples)


def _variables(
    params: Mapping[str, Array], n_ps: int, worker: str
) -> dict[str, kit.Variable]:
    with kit.device(kit.replica_device_setter(ps_tasks=n_ps, worker_device=worker)):
        return {name: kit.Variable(value, name=name) for name, value in params.items()}


def _tower(variables: Mapping[str, kit.Variable]) -> Tower:
    v = variables
    images = kit.placeholder("float32", (None, v["w1"].shape[0]))
    labels = kit.placeholder("int64", (None,))
    first = np.maximum(images @ v["w1"] + v["b1"], 0)
    second = np.maximum(first @ v["w2"] + v["b2"], 0)
    scores = second @ v["w3"] + v["b3"]
    loss = kit.nn.sparse_softmax_cross_entropy(labels, scores).mean()
    return Tower(images, labels, loss)


# --------------------------------------------------------------------------------------
# The part of the demonstration.

Row = dict[str, Any]

_BATCH = 32  # examples of a worker
_GOOD_ACCURACY = 0.85
_ENOUGH_STEPS = 100  # fewer do not learn the digits


@dataclass
class Replicated:
    """A finished replicated training: the reports of its clients, and its accuracy."""

    style: str
    model: ReplicaModel
    reports: Sequence[ReplicaReport]
    seconds: float
    accuracy: float

    @property
    def steps(self) -> int:
        """The updates of all clients."""
        return sum(report.steps for report in self.reports)

    @property
    def moved(self) -> list[int]:
        """The bytes that moved between tasks in the last step of each client."""
        return [sum(row[2] for row in report.transfers) for report in self.reports]

    @property
    def formula(self) -> int:
        """The bytes of a step: each tower takes all parameters and gives a gradient."""
        size = sum(_bytes_of(variable) for variable in self.model.variables.values())
        return 2 * size * len(self.model.towers)


def train(
    cluster: Cluster, model: DigitsMlp, steps: int, seed: int
) -> list[Replicated]:
    """Train in one graph and between graphs, one after the other."""
    n_ps = sum(task.job == "ps" for task in cluster.tasks)
    n_workers = len(cluster.tasks) - n_ps
    whole = in_one_graph(model.params, n_ps, n_workers)
    with Session(cluster, whole.graph) as session:
        session.run(whole.start)
        begin = time.perf_counter()
        drawn = batches(model.train, _BATCH, seed)
        reports = [work(session, whole, drawn, steps)]
        first = _finished("in one graph", session, whole, model, reports, begin)
        session.run(whole.start)  # both styles use these variables: back to the start
        begin = time.perf_counter()
        reports = cluster.call(
            "worker", _client, model.params, model.train, n_ps, _BATCH, steps, seed
        )
        other = _finished("between graphs", session, whole, model, reports, begin)
    other.model = of_one_worker(model.params, n_ps, 0)
    return [first, other]


def placement_rows(trained: Replicated) -> list[Row]:
    """Return one row for each variable: its task and its size."""
    return [
        {
            "variable": name,
            "task": Task.parse(variable.device).short,
            "bytes": _bytes_of(variable),
        }
        for name, variable in trained.model.variables.items()
    ]


def rows(trainings: Sequence[Replicated]) -> list[Row]:
    """Return one row for each style: speed, loss, accuracy, bytes of a step."""
    return [
        {
            "style": training.style,
            "clients": len(training.reports),
            "updates": training.steps,
            "updates/s": round(training.steps / training.seconds, 1),
            "loss": round(
                sum(r.loss for r in training.reports) / len(training.reports), 4
            ),
            "accuracy": round(training.accuracy, 4),
            "bytes a step": max(training.moved),
            "by formula": training.formula,
        }
        for training in trainings
    ]


def problems(trainings: Sequence[Replicated]) -> list[str]:
    """Return the promises that were not kept, a sentence for each."""
    wrong = [
        f"digits {training.style}: a step moved {moved} bytes, where the formula gives "
        f"{training.formula}."
        for training in trainings
        for moved in training.moved
        if moved != training.formula
    ]
    wrong += [
        f"digits {training.style}: learned to {training.accuracy:.3f}, less than "
        f"{_GOOD_ACCURACY}."
        for training in trainings
        if training.steps >= _ENOUGH_STEPS and training.accuracy < _GOOD_ACCURACY
    ]
    return wrong


def _client(*args: Any) -> ReplicaReport:
    return client(current(), *args)


def _finished(
    style: str,
    session: Session,
    whole: ReplicaModel,
    model: DigitsMlp,
    reports: Sequence[ReplicaReport],
    begin: float,
) -> Replicated:
    seconds = time.perf_counter() - begin
    accuracy = model.accuracy(session.run(whole.variables))
    return Replicated(style, whole, reports, seconds, accuracy)


def _bytes_of(variable: Any) -> int:
    return int(variable.dtype.itemsize * math.prod(variable.shape))
