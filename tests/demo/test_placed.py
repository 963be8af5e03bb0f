"""The demonstration's graphs: their gradients, their places, and what they move."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import kit
from kit.demo import placed
from kit.demo.digits import DigitsMlp, digits_mlp
from kit.demo.placed import ReplicaModel, ReplicaReport, Replicated
from kit.testing.cluster import local_cluster


@pytest.fixture(scope="module")
def model() -> DigitsMlp:
    return digits_mlp(seed=2, hidden=8)


@pytest.fixture
def servers() -> Iterator[list[kit.Server]]:
    with local_cluster(2, 2) as cluster:
        yield cluster.servers


def finished(
    model: ReplicaModel, report: ReplicaReport, accuracy: float = 1.0
) -> Replicated:
    return Replicated("in one graph", model, [report], 1.0, accuracy)


def test_one_step_of_the_towers_is_one_of_the_whole_mini_batch(
    model: DigitsMlp, servers: list[kit.Server]
) -> None:
    whole = placed.in_one_graph(model.params, 2, 2)
    examples = tuple(part[:64] for part in model.train)
    halves = [tuple(part[lo : lo + 32] for part in examples) for lo in (0, 32)]

    with kit.Session(servers[2], whole.graph) as session:
        session.run(whole.start)
        report = placed.work(session, whole, iter(halves), 1)
        result = session.run(whole.variables)

    loss, gradients, _ = model.step(model.params, examples)
    assert report.loss == pytest.approx(loss, rel=1e-5)
    for name, gradient in gradients.items():
        step = 0.05 * gradient / np.sqrt(0.1 + gradient**2)
        np.testing.assert_allclose(result[name], model.params[name] - step, atol=1e-6)


def test_bytes_of_a_step_are_those_of_the_formula(
    model: DigitsMlp, servers: list[kit.Server]
) -> None:
    size = sum(value.nbytes for value in model.params.values())
    whole = placed.in_one_graph(model.params, 2, 2)
    drawn = placed.batches(model.train, 8, seed=0)
    with kit.Session(servers[2], whole.graph) as session:
        session.run(whole.start)
        first = finished(whole, placed.work(session, whole, drawn, 2))
    report = placed.client(servers[3], model.params, model.train, 2, 8, 2, 0)
    other = finished(placed.of_one_worker(model.params, 2, 1), report)

    assert (first.formula, other.formula) == (4 * size, 2 * size)
    assert (first.moved, other.moved) == ([4 * size], [2 * size])
    assert placed.problems([first, other]) == []


def test_variables_are_dealt_to_the_servers_in_turn(model: DigitsMlp) -> None:
    report = ReplicaReport(1, 1.0, 0.0, [])

    rows = placed.placement_rows(
        finished(placed.in_one_graph(model.params, 2, 2), report)
    )

    assert [row["task"] for row in rows] == ["ps:0", "ps:1"] * 3
    assert [row["bytes"] for row in rows] == [v.nbytes for v in model.params.values()]


def test_a_broken_promise_is_told(model: DigitsMlp) -> None:
    graph = placed.of_one_worker(model.params, 1, 0)
    wrong = ReplicaReport(500, 1.0, 0.0, [("ps:0", "worker:0", 7)])

    reply = placed.problems([finished(graph, wrong, accuracy=0.1)])

    assert len(reply) == 2
    assert "moved 7 bytes" in reply[0]
    assert "0.100, less than" in reply[1]
