"""Small elastic trainings, and how one of their processes is lost."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

import kit
from kit.settings import settings
from kit.task import Task
from kit.testing.processes import ProcessCluster
from tests.training.toy import BATCH, DATA, fit, initial

STEPS = 120
LEADER = Task("worker", 0)  # it hosts the coordinator, as long as it lives
OTHER = Task("worker", 1)


def slowly(params: Any, batch: Any) -> Any:
    """Do a step of the toy that takes a little, so that something may happen in it."""
    time.sleep(0.003)
    return fit(params, batch)


def die_once(mark: Path) -> None:
    """End this process, unless another one has ended so before."""
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def train(
    cluster: ProcessCluster,
    step: Any = slowly,
    victim: Task | None = None,
    **given: Any,
) -> kit.Run:
    """Begin an elastic training of the toy, with or without a `victim` to be killed."""
    chosen: dict[str, Any] = {"steps": STEPS, "batch": BATCH, "optimizer": "adam"}
    chosen |= {"topology": "ring", "elastic": True} | given
    with awaits_its_end(victim, chosen["steps"]):
        return kit.train(step, initial(), DATA, cluster=cluster, **chosen)


def awaits_its_end(
    victim: Task | None, steps: int = STEPS
) -> AbstractContextManager[Any]:
    """Have a task stop some steps before the last, so that none ends before its end."""
    if victim is None:
        return nullcontext()
    return settings(crash=f"{victim.short}@{steps - 15}:step.begun:SIGSTOP")


def kill(cluster: ProcessCluster, run: kit.Run, task: Task, after: int) -> None:
    """Kill a task's process when the training has done so many steps."""
    until(lambda: run.step >= after)
    cluster[task].signal(signal.SIGKILL)


def until(holds: Callable[[], Any], limit_s: float = 20.0) -> None:
    """Wait until something holds."""
    give_up = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < give_up, "it did not happen in time"
        time.sleep(0.001)


def losses(run: kit.Run) -> list[float]:
    """Return the loss of each step, each told once."""
    steps, found = run.trace.losses()
    assert np.array_equal(steps, np.arange(len(steps)))
    return [float(one) for one in found]
