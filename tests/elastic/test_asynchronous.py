"""An asynchronous elastic training loses at most the one push of a worker that dies."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kit
from kit.task import Task
from kit.testing.processes import process_cluster
from kit.testing.task_process import until
from tests.elastic.scene import kill

pytestmark = pytest.mark.slow
RATE = 0.5
DATA = (np.arange(60, dtype=np.float32),)


class Counts:
    """A step whose updates can be counted: each takes RATE off all parameters."""

    def __init__(self, book: Path) -> None:
        self._book = book

    def __call__(self, params: Any, batch: Any) -> Any:
        time.sleep(0.002)
        gradients = {name: np.ones_like(value) for name, value in params.items()}
        with self._book.open("a") as file:
            file.write(f"{os.getpid()}\n")
        return 0.0, gradients

    @property
    def n_computed(self) -> int:
        return len(self._book.read_text().splitlines())


@pytest.mark.parametrize(("n_ps", "logical"), [(1, 5), (2, None)])
def test_what_other_workers_have_pushed_stays(
    tmp_path: Path, n_ps: int, logical: int | None
) -> None:
    step, victim = Counts(tmp_path / "book"), Task("worker", 2)
    start = {name: np.zeros(3, np.float32) for name in ("a", "b")}
    with process_cluster(ps=n_ps, worker=3) as cluster:
        run = kit.train(
            step,
            start,
            DATA,
            optimizer=kit.GradientDescent(RATE),
            topology="ps",
            sync=False,
            steps=100_000,
            batch=6,
            elastic=kit.Elastic(logical_workers=logical),
            cluster=cluster,
        )
        until(lambda: run.copied > 0)
        kill(cluster, run, victim, run.step + 50)
        until(lambda: len(run.history()) == 1)
        seen = run.step
        until(lambda: run.step > seen)
        run.stop()
        run.wait(30)

        change = run.history()[0]
        assert (change.lost, change.repeated) == (("worker:2",), 0)
        n_of_the_dead = 1 if logical is None else 2
        assert 0 <= step.n_computed - run.step <= n_of_the_dead
        for value in run.params.values():
            n_applied = -value / RATE
            assert np.all(n_applied == n_applied[0])
            assert run.step <= n_applied[0] <= run.step + n_of_the_dead
