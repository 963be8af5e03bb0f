"""In-graph and between-graph replication over variables on parameter servers."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import kit
from kit.graph.variable import initialize_all
from kit.session.client.metadata import RunMetadata
from kit.session.client.session import Session
from kit.testing.cluster import local_cluster
from tests.training.graph_models import RATE, START, STEPS, Params, X, Y, whole_batch
from tests.training.replicas import Replica, Towers, towers
from tests.training.toy import same_bits


@pytest.fixture
def servers() -> Iterator[list[kit.Server]]:
    with local_cluster(1, 2) as cluster:
        yield cluster.servers


def trained(towers: Towers, server: kit.Server, steps: int, x: Params) -> Params:
    with Session(server, towers.graph) as session:
        with towers.graph.as_default():
            session.run(initialize_all())
        for _ in range(steps):
            session.run(towers.train, towers.feeds(x["x"], x["y"]))
        result: Params = session.run(towers.variables)
        return result


def test_towers_of_one_graph_have_the_bits_of_one_big_batch(
    servers: list[kit.Server],
) -> None:
    data = {"x": X[:8], "y": Y[:8]}

    result = trained(towers(START, 2, RATE), servers[1], STEPS, data)

    assert same_bits(result, whole_batch(START, STEPS, RATE, data))


def test_each_tower_takes_the_parameters_and_gives_gradients_once_a_step(
    servers: list[kit.Server],
) -> None:
    item, metadata = towers(START, 2, RATE), RunMetadata()
    with Session(servers[1], item.graph) as session:
        with item.graph.as_default():
            session.run(initialize_all())
        session.run(item.train, item.feeds(X[:8], Y[:8]), metadata=metadata)

    size = sum(value.nbytes for value in START.values())
    moved: dict[tuple[str, str], int] = {}
    for row in metadata.transfers:
        way = kit.Task.parse(row.source).short, kit.Task.parse(row.destination).short
        moved[way] = moved.get(way, 0) + row.n_bytes
    assert {way: n for way, n in moved.items() if n} == {
        ("ps:0", "worker:0"): size,
        ("ps:0", "worker:1"): size,
        ("worker:0", "ps:0"): size,
        ("worker:1", "ps:0"): size,
    }


def run_replicas(servers: list[kit.Server], n_ps: int, steps: int) -> list[Replica]:
    """Let each worker's client train from its own graph, on its own server."""
    workers = servers[n_ps:]
    replicas = [Replica.build(worker, n_ps) for worker in range(len(workers))]
    with Session(workers[0], replicas[0].graph) as chief:
        replicas[0].initialize(chief)

    def work(replica: Replica, server: kit.Server) -> None:
        with Session(server, replica.graph) as session:
            for _ in range(steps):
                session.run(replica.train)

    threads = [
        threading.Thread(target=work, args=pair)
        for pair in zip(replicas, workers, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return replicas


@pytest.mark.slow
@pytest.mark.parametrize("n_ps", [1, 2])
def test_two_clients_make_every_update_once(n_ps: int) -> None:
    with local_cluster(n_ps, 2) as cluster:
        replicas = run_replicas(cluster.servers, n_ps, 50)

        with Session(cluster.servers[-1], replicas[1].graph) as session:
            parameter, step = session.run([replicas[1].parameter, replicas[1].step])

    assert (parameter, step) == (-100, 100)


@pytest.mark.slow
def test_a_worker_that_is_gone_stops_nobody_else(servers: list[kit.Server]) -> None:
    first, second = (Replica.build(worker, 1) for worker in (0, 1))
    with Session(servers[1], first.graph) as session:
        first.initialize(session)
        with Session(servers[2], second.graph) as other:
            for _ in range(3):
                session.run(first.train)
                other.run(second.train)
        servers[2].stop()
        with pytest.raises(kit.errors.KitError):
            other_again(servers[2], second)

        for _ in range(10):
            session.run(first.train)

        assert session.run([first.parameter, first.step]) == [-16, 16]


def other_again(server: kit.Server, replica: Replica) -> None:
    with Session(server.target, replica.graph) as session:
        session.run(replica.train, deadline_s=0.5)
