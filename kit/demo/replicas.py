"""The digits' perceptron as a graph over placed variables, for one client or for many.

in one graph      a tower on every worker; their mean gradient is applied on the ps
between graphs    every worker has a client and a graph of its own, with the same
variables on the ps, and applies its gradients when it has them
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import kit

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
