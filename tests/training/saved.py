"""Trainings that are saved and go on, for the tests of checkpoints."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kit
from kit.testing.cluster import LocalCluster
from kit.testing.task_process import until
from kit.training.optimizers.rule import Optimizer
from tests.training.toy import BATCH, DATA, Params, fit, initial

MOMENTUM = kit.Momentum(0.01)
MANY = 1_000_000


def train(
    cluster: LocalCluster,
    folder: Path,
    steps: int,
    *,
    step: Callable[..., Any] = fit,
    optimizer: Optimizer = MOMENTUM,
    every: int = 0,
    **changes: Any,
) -> kit.Run:
    """Begin a training that is saved every so many steps, and at its end."""
    options: dict[str, Any] = {
        "optimizer": optimizer,
        "steps": steps,
        "batch": BATCH,
        "cluster": cluster,
        "checkpoint": kit.Checkpoints(str(folder), every_steps=every),
    } | changes
    return kit.train(step, initial(), DATA, **options)


def names(folder: Path) -> list[str]:
    """Return the names of the checkpoints and drafts in a folder."""
    return sorted(path.name for path in folder.glob("step-*"))


def is_saved(cluster: LocalCluster, step: int) -> bool:
    """Tell whether the coordinator has a checkpoint and is ready for the next one."""
    for server in cluster.servers:
        member = server.trainings.member
        if member is not None and member.store is not None:
            status = member.store.save_coordinator.status()
            last = status["last"]
            return status["saving"] is None and bool(last) and last["step"] >= step
    return False


class Patient:
    """A step that waits, before some steps, until the one before is saved."""

    def __init__(self, cluster: LocalCluster, n_workers: int, before: set[int]) -> None:
        """Wait in these steps for the checkpoint of as many steps."""
        self._cluster, self._n, self._before = cluster, n_workers, before
        self._guard, self._calls = threading.Lock(), 0

    def __call__(self, params: Params, batch: Any) -> Any:
        with self._guard:
            number, self._calls = self._calls // self._n, self._calls + 1
        if number in self._before:
            until(lambda: is_saved(self._cluster, number), 10)
        return fit(params, batch)


def resumed_at(run: kit.Run) -> int:
    """Return the step of the checkpoint that a training went on from."""
    assert run.resumed_from is not None
    assert run.resumed_from.lost_steps == 0
    return run.resumed_from.step
