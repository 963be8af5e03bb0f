"""A training over the wire of two namespaces."""

from __future__ import annotations

from typing import Any

import numpy as np

import kit
from kit.settings import Settings
from kit.testing.task_process import until
from kit.training.client.run import Run
from kit.training.data.sources import ArraySource
from tests.exchange import replay
from tests.net.bench import NetCluster
from tests.net.models import MODEL, Array

RATE = 0.25
BATCH = 12
QUICK = Settings(
    dead_after_s=3,
    suspect_after_s=1,
    heartbeat_s=0.1,
    connect_deadline_s=1.5,
    step_deadline_s=9,
)


def train(cluster: NetCluster, steps: int, **changes: Any) -> Run:
    with kit.settings(**cluster.directory.settings.as_plain()):
        return kit.train(
            MODEL.step,
            MODEL.params,
            MODEL.data,
            optimizer=kit.GradientDescent(RATE),
            steps=steps,
            batch=BATCH,
            cluster=cluster,
            **changes,
        )


def oracle(steps: int, n: int = 3) -> dict[str, Array]:
    sources = [ArraySource(MODEL.data, BATCH, 0, worker, n) for worker in range(n)]

    def gradients(params: dict[str, Array], step: int) -> list[dict[str, Array]]:
        return [MODEL.step(params, source.batch(step))[1] for source in sources]

    def update(now: Array, mean: Array, _: dict[str, Array], __: int) -> Array:
        return np.asarray(now - mean * now.dtype.type(RATE))

    return replay.train(MODEL.params, steps, gradients, update)


def assert_same_bits(run: Run, steps: int, n: int = 3) -> None:
    want = oracle(steps, n)
    assert {name: value.tobytes() for name, value in run.params.items()} == {
        name: value.tobytes() for name, value in want.items()
    }


PLACES = {"ps:0": "a", "worker:0": "a", "worker:1": "b", "worker:2": "b"}
CUTS = {"one way": ["cut_ab"], "the other": ["cut_ba"], "both": ["cut_ab", "cut_ba"]}


def set_cut(cluster: NetCluster, directions: list[str], *, cut: bool) -> None:
    for direction in directions:
        setattr(cluster.wire, direction, cut)


def wait_for_step(run: Run, step: int) -> None:
    until(lambda: run.step >= step or run.state == "failed")
    if run.state == "failed":
        run.wait(0)  # raises why
