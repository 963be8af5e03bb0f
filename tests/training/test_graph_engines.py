"""Graphs that train on engines, and an evolution, as a notebook's user sees them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import kit
from kit.devices.replica import replica_device_setter
from kit.graph.graph import Graph
from kit.graph.op import Op
from kit.graph.variable import Variable, initialize_all
from kit.server.engine import current
from kit.session.client.session import Session
from tests.training.graph_models import (
    Model,
    train,
    trained,
)
from tests.training.toy import Params, quick_cluster, same_bits

pytestmark = [pytest.mark.slow, pytest.mark.engines, pytest.mark.timeout(120)]


class Replica(NamedTuple):
    """One worker's own graph: a parameter whose gradient is 1, and the step count."""

    graph: Graph
    parameter: Variable
    step: Variable
    train: Op

    @staticmethod
    def build(worker: int, n_ps: int) -> Replica:
        setter = replica_device_setter(
            ps_tasks=n_ps, worker_device=f"/job:worker/task:{worker}"
        )
        with Graph().as_default() as graph, graph.device(setter):
            step = Variable(np.int64(0), trainable=False, name="global_step")
            parameter = Variable(np.float32(0), name="parameter")
            train = kit.GradientDescent(1.0).minimize(parameter * 1.0, step)
        return Replica(graph, parameter, step, train)


def client(worker: int, n_ps: int, steps: int) -> int:
    """Train from within a worker's own process, on its own server."""
    replica = Replica.build(worker, n_ps)
    with Session(current(), replica.graph) as session:
        for _ in range(steps):
            session.run(replica.train)
    return steps


@pytest.fixture(scope="module")
def cluster() -> Iterator[kit.Cluster]:
    with kit.Cluster(ps=1, worker=2) as running:
        yield running


@pytest.mark.lasting("descriptor", "thread")
@pytest.mark.parametrize("topology", ["ps", "ring"])
def test_engines_train_a_graph_to_the_result_of_one_process(
    cluster: kit.Cluster, topology: str
) -> None:
    assert same_bits(train(cluster, Model(), topology=topology).params, trained())


@pytest.mark.lasting("descriptor", "thread")
def test_clients_in_the_workers_own_processes_make_every_update_once(
    cluster: kit.Cluster,
) -> None:
    cluster.call("worker:0", begin)
    threads = [
        threading.Thread(target=cluster.call, args=(where, client, number, 1, 50))
        for number, where in enumerate(("worker:0", "worker:1"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert cluster.call("worker:1", look) == [-100, 100]


def begin() -> None:
    replica = Replica.build(0, 1)
    with Session(current(), replica.graph) as session, replica.graph.as_default():
        session.run(initialize_all())


def look() -> list[float]:
    replica = Replica.build(1, 1)
    with Session(current(), replica.graph) as session:
        return [
            float(number) for number in session.run([replica.parameter, replica.step])
        ]


def play(params: Params) -> float:
    """Return how far a ball of this kick lands from the hole; of the tests' engines."""
    flight = 2 * params["kick"][0] * params["kick"][1]
    return abs(float(flight) - 10.0)


@pytest.mark.lasting("descriptor", "thread")
def test_engines_evolve_as_a_cluster_in_one_process_does(cluster: kit.Cluster) -> None:
    options: dict[str, Any] = {
        "population": 10,
        "steps": 80,
        "optimizer": kit.Adam(0.1),
    }
    start = {"kick": np.array([1.0, 1.0])}
    with quick_cluster(1, 2) as local:
        here = kit.evolve(play, start, cluster=local, **options).wait(20)

    run = kit.evolve(play, start, cluster=cluster, **options).wait(30)

    assert same_bits(run.params, here.params)
    assert play(run.params) < 1 < play(start)
