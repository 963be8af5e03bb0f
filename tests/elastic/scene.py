"""Small elastic trainings, and how one of their processes is lost."""

from __future__ import annotations

import os
import signal
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

import kit
from kit.settings import settings
from kit.task import Task
from kit.testing.cluster import LocalCluster
from kit.testing.processes import ProcessCluster
from kit.testing.task_process import until
from tests.training.toy import (
    BATCH,
    DATA,
    Params,
    X,
    Y,
    fit,
    gradients,
    initial,
    replayed,
    rows,
    same_bits,
)

STEPS = 120
ENDLESS = 100_000  # it ends when it is told to, however late that is
LEADER = Task("worker", 0)  # it hosts the coordinator, as long as it lives
OTHER = Task("worker", 1)
TOPOLOGIES = ("ps", "ring", "mesh", "hierarchical")
# Points of a training that it comes to once, or once in a generation.
ONCE = {"run.connected", "epoch.prepared", "epoch.committed", "copy.made", "copy.sent"}


def slowly(params: Any, batch: Any) -> Any:
    """Do a step of the toy that takes a little, so that something may happen in it."""
    time.sleep(0.005)
    return fit(params, batch)


def die_once(mark: Path) -> None:
    """End this process, unless another one has ended so before."""
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def idly(params: Any, batch: Any) -> Any:
    """Do a step of the toy that takes long: what is waited for is not the steps."""
    time.sleep(0.02)
    return fit(params, batch)


def train(
    cluster: LocalCluster | ProcessCluster,
    step: Any = slowly,
    victim: Task | None = None,
    *,
    params: Any = None,
    data: Any = DATA,
    **changes: Any,
) -> kit.Run:
    """Begin an elastic training of the toy, with or without a `victim` to be killed."""
    chosen: dict[str, Any] = {"steps": STEPS, "batch": BATCH, "optimizer": "adam"}
    chosen |= {"topology": "ring", "elastic": True} | changes
    with awaits_its_end(victim, chosen["steps"]):
        return kit.train(step, params or initial(), data, cluster=cluster, **chosen)


def awaits_its_end(
    victim: Task | None, steps: int = STEPS
) -> AbstractContextManager[Any]:
    """Have a task stop some steps before the last, so that none ends before its end.

    What only this task tells may then never be known. Who waits for it, or asks the
    coordinator for something in time, needs a training that is `ENDLESS`.
    """
    if victim is None:
        return nullcontext()
    return settings(crash=f"{victim.short}@{steps - 15}:step.begun:SIGSTOP")


def kill(cluster: ProcessCluster, run: kit.Run, task: Task, after: int) -> None:
    """Kill a task's process when the training has done so many steps."""
    until(lambda: run.step >= after)
    cluster[task].signal(signal.SIGKILL)


def losses(run: kit.Run) -> list[float]:
    """Return the loss of each step, each told once."""
    steps, result = run.trace.losses()
    assert np.array_equal(steps, np.arange(len(steps)))
    return [float(number) for number in result]


def end(run: kit.Run) -> None:
    """Stop a training that goes on."""
    assert not run.done
    run.stop()
    run.wait(30)


def assert_undisturbed(run: kit.Run, n_workers: int) -> None:
    """A training with Adam has the bits and the losses that numpy alone gives."""
    lines: list[float] = []

    def of_workers(params: Params, step: int) -> list[Params]:
        parts = np.array_split(rows(step), n_workers)
        result = [len(part) * fit(params, (X[part], Y[part]))[0] for part in parts]
        lines.append(sum(result) / BATCH)
        return gradients(params, step, n_workers)

    params = replayed(run.step, n_workers, kit.Adam(), of_workers=of_workers)
    assert same_bits(run.params, params)
    assert losses(run) == lines
