"""Replicated training over placed variables, as a user writes it; with its oracle."""

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
from kit.session.client.session import Session
from tests.training.graph_models import Array, Params


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


def towers(start: Params, n_workers: int, rate: float, n_ps: int = 1) -> Towers:
    """Build the linear model x @ w + b with its mean squared error."""
    with Graph().as_default() as graph:
        with graph.device(replica_device_setter(ps_tasks=n_ps)):
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

    def initialize(self, session: Session) -> None:
        with self.graph.as_default():
            session.run(initialize_all())


def client(worker: int, n_ps: int, steps: int) -> int:
    """Train from within a worker's own process, on its own server."""
    from kit.server.engine import current

    replica = Replica.build(worker, n_ps)
    with Session(current(), replica.graph) as session:
        for _ in range(steps):
            session.run(replica.train)
    return steps
