"""In-graph replication over variables on a parameter server, as a user writes it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import kit
from kit.devices.replica import replica_device_setter
from kit.graph.gradients import gradients
from kit.graph.graph import Graph
from kit.graph.op import Op, Tensor
from kit.graph.ops.state.source import placeholder
from kit.graph.variable import Variable, initialize_all
from kit.session.client.metadata import RunMetadata
from kit.session.client.session import Session
from kit.testing.cluster import LocalCluster
from tests.training.graph_models import RATE, START, STEPS, Array, Params, X, Y
from tests.training.graph_models import gradients as gradients_of
from tests.training.toy import same_bits


class Towers(NamedTuple):
    """One graph for all workers: a tower each; the ps applies their mean gradient."""

    graph: Graph
    inputs: list[tuple[Tensor, Tensor]]
    variables: dict[str, Variable]
    train: Op

    def feeds(self, x: Array, y: Array) -> dict[Tensor, Array]:
        parts = zip(*(np.split(item, len(self.inputs)) for item in (x, y)), strict=True)
        result: dict[Tensor, Array] = {}
        for (x_in, y_in), (x_part, y_part) in zip(self.inputs, parts, strict=True):
            result |= {x_in: x_part, y_in: y_part}
        return result


def towers(start: Params, n_workers: int, rate: float) -> Towers:
    """Build the linear model x @ w + b with its mean squared error."""
    with Graph().as_default() as graph:
        with graph.device(replica_device_setter(ps_tasks=1)):
            variables = {n: Variable(v, name=n) for n, v in start.items()}
        w, b = variables["layer/w"], variables["b"]
        inputs, result = [], []
        for worker in range(n_workers):
            with graph.device(f"/job:worker/task:{worker}"):
                x = placeholder(w.dtype, (None, w.shape[0]))
                y = placeholder(w.dtype, (None, w.shape[1]))
                error = x @ w + b - y
                loss = (error * error).sum(axis=1).mean()
                result.append(gradients(loss, [w, b], colocate=False))
            inputs.append((x, y))
        pairs: list[Any] = []
        for variable, *own in zip((w, b), *result, strict=True):
            with graph.colocate_with(variable.op):
                total: Any = own[0]
                for gradient in own[1:]:
                    total = total + gradient
                pairs.append((total / float(n_workers), variable))
        train = kit.GradientDescent(rate).apply_gradients(pairs)
        return Towers(graph, inputs, variables, train)


def test_towers_have_the_bits_of_one_big_batch_and_move_parameters_once_a_step(
    cluster: LocalCluster,
) -> None:
    item, metadata, expected = towers(START, 2, RATE), RunMetadata(), dict(START)
    with Session(cluster.servers[1], item.graph) as session:
        with item.graph.as_default():
            session.run(initialize_all())
        for _ in range(STEPS):
            session.run(item.train, item.feeds(X[:8], Y[:8]), metadata=metadata)
            for name, gradient in gradients_of(expected, X[:8], Y[:8]).items():
                expected[name] = expected[name] - RATE * gradient
        assert same_bits(session.run(item.variables), expected)

    size = sum(value.nbytes for value in START.values())
    moved: dict[tuple[str, str], int] = {}
    for row in metadata.transfers:  # of the last step
        way = kit.Task.parse(row.source).short, kit.Task.parse(row.destination).short
        moved[way] = moved.get(way, 0) + row.n_bytes
    assert {way: n for way, n in moved.items() if n} == {
        ("ps:0", "worker:0"): size,
        ("ps:0", "worker:1"): size,
        ("worker:0", "ps:0"): size,
        ("worker:1", "ps:0"): size,
    }
