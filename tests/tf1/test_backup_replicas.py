"""Backup workers, twice: synchronous replicas of a graph, and `aggregate=R`.

Two of three gradients make a step, and it is laid down which one comes too late. Both
forms train one model on the same rows; the one knows nothing of the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kit
from kit import tf1 as tf
from kit.trace.traffic import TransferKind
from tests.tf1.replicas import Replica, all_train, replicas
from tests.tf1.servers import cluster
from tests.training.backups import Late, Marked, ranks
from tests.training.toy import Array, Params, quick_cluster

pytestmark = pytest.mark.slow

STEPS, WORKERS, NEEDED, BATCH = 9, 3, 2, 12
RATE, DECAY = 0.05, 0.9
LATE = {step: (2 * step + 1) % WORKERS for step in range(STEPS)}


class Watched(Late):
    """A linear model by numpy; notes what each step began with, and all rows."""

    def __init__(self) -> None:
        super().__init__({step: {worker} for step, worker in LATE.items()})
        self.begun_with: dict[int, Array] = {}
        self.rows: dict[tuple[int, int], Array] = {}

    def __call__(self, params: Params, batch: Any) -> Any:
        (worker, step), x, y = batch
        v = params["v"].copy()
        self.begun_with.setdefault(int(step), v)
        self.rows[int(step), int(worker)] = np.column_stack([x, y])
        error = x @ v - y
        slope = (2 / len(y)) * (x.T @ error)
        self.hold_back(int(worker), int(step))
        return float((error**2).mean()), {"v": slope.astype(np.float32)}


def natively() -> tuple[kit.Run, Watched]:
    """Train without a graph."""
    step = Watched()
    with quick_cluster(1, WORKERS) as servers:
        run = kit.train(
            step,
            {"v": np.zeros(3, np.float32)},
            Marked(),
            optimizer=kit.Momentum(RATE, DECAY),
            steps=STEPS,
            batch=BATCH,
            aggregate=NEEDED,
            cluster=servers,
        )
        step.watch(servers.servers[0].trainings, run)
        run.wait(60)
    return run, step


def loss(v: Any, fed: Any) -> Any:
    """The same model in a graph; a row that is fed is three numbers and their sum."""
    return tf.reduce_mean(tf.square(tf.reduce_sum(fed[:, :3] * v, 1) - fed[:, 3]))


def in_a_graph(rows: dict[tuple[int, int], Array]) -> tuple[list[Array], list[Array]]:
    """Train by replicas; return the variable after each step, and after the late one.

    The late replica pushes its gradient when the step is done: it is stale then.
    """
    servers = cluster(ps=1, worker=WORKERS)
    spec = servers["ps"][0].server_def.cluster
    targets = [server.target for server in servers["worker"]]
    options: dict[str, Any] = {"shape": [3], "loss": loss, "num_tokens": 0}
    options["wrapped"] = lambda: tf.train.MomentumOptimizer(RATE, DECAY)
    after, after_the_late = [], []
    with replicas(spec, targets, NEEDED, **options) as made:
        for step, late in LATE.items():
            in_time = [rank for rank in range(WORKERS) if rank != late]
            joint = [(made[rank], rows[step, rank]) for rank in in_time]
            assert all_train(joint) == [step + 1] * NEEDED
            after.append(value(made[0], step + 1))

            assert made[late].train(rows[step, late]) == step + 1
            after_the_late.append(value(made[0], step + 1))
    return after, after_the_late


def value(replica: Replica, step: int) -> Array:
    """Return the variable; so many steps have been done."""
    result, done = replica.session.run([replica.v, replica.step])
    assert done == step
    return np.asarray(result)


def test_both_forms_drop_the_late_gradient_and_agree_after_every_step() -> None:
    run, watched = natively()
    after, after_the_late = in_a_graph(watched.rows)

    assert run.step == STEPS
    in_time = [[rank for rank in range(WORKERS) if rank != LATE[s]] for s in LATE]
    assert ranks(run) == in_time
    assert [record["dropped"] for record in run.metrics] == [1] * STEPS
    assert np.array_equal(after, after_the_late)
    begun_with = [watched.begun_with[step] for step in range(1, STEPS)]
    np.testing.assert_allclose(
        np.array(after), np.array([*begun_with, run.params["v"]]), rtol=2e-5, atol=1e-6
    )
    # The late gradients were there, and would have made a difference.
    totals = run.trace.totals
    assert totals["bytes"][totals["kind"] == TransferKind.LATE].sum() == STEPS * 3 * 4
    for step, late in LATE.items():
        rows, v = watched.rows[step, late], watched.begun_with[step]
        assert np.abs(rows[:, :3].T @ (rows[:, :3] @ v - rows[:, 3])).max() > 0.01
