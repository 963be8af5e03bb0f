"""Graphs that train on engines, as a notebook's user sees them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import kit
from kit.graph.variable import initialize_all
from kit.server.engine import current
from kit.session.client.session import Session
from tests.training.graph_models import (
    RATE,
    START,
    STEPS,
    Model,
    X,
    Y,
    train,
    trained,
    whole_batch,
)
from tests.training.replicas import Replica, client, towers
from tests.training.toy import same_bits

pytestmark = [pytest.mark.slow, pytest.mark.engines, pytest.mark.timeout(120)]


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
def test_towers_on_engines_have_the_bits_of_one_big_batch(cluster: kit.Cluster) -> None:
    data, item = {"x": X[:8], "y": Y[:8]}, towers(START, 2, RATE)

    with Session(cluster, item.graph) as session:
        with item.graph.as_default():
            session.run(initialize_all())
        for _ in range(STEPS):
            session.run(item.train, item.feeds(data["x"], data["y"]))
        result = session.run(item.variables)

    assert same_bits(result, whole_batch(START, STEPS, RATE, data))


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
    with Session(current(), replica.graph) as session:
        replica.initialize(session)


def look() -> list[float]:
    replica = Replica.build(1, 1)
    with Session(current(), replica.graph) as session:
        return [
            float(number) for number in session.run([replica.parameter, replica.step])
        ]
