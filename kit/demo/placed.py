"""The third part of the demonstration: one session, variables on the ps, two styles.

The same perceptron is trained in one graph, synchronously, and between graphs, each
worker at its own pace, over variables on the same parameter servers.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kit.cluster import Cluster
from kit.demo import replicas
from kit.demo.digits import DigitsMlp
from kit.demo.replicas import ReplicaModel, ReplicaReport
from kit.server.engine import current
from kit.session.client.session import Session
from kit.task import Task

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
    whole = replicas.in_one_graph(model.params, n_ps, n_workers)
    with Session(cluster, whole.graph) as session:
        session.run(whole.start)
        begin = time.perf_counter()
        drawn = replicas.batches(model.train, _BATCH, seed)
        reports = [replicas.work(session, whole, drawn, steps)]
        first = _finished("in one graph", session, whole, model, reports, begin)
        session.run(whole.start)  # both styles use these variables: back to the start
        begin = time.perf_counter()
        reports = cluster.call(
            "worker", _client, model.params, model.train, n_ps, _BATCH, steps, seed
        )
        other = _finished("between graphs", session, whole, model, reports, begin)
    other.model = replicas.of_one_worker(model.params, n_ps, 0)
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
    return replicas.client(current(), *args)


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
