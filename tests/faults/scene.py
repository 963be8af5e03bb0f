"""How the tests of faults begin a training, and what they look at afterwards."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from kit.errors import KitError, from_plain
from kit.faults import history
from kit.settings import Value, settings
from kit.task import Task
from kit.testing.processes import ProcessCluster
from kit.training.client.run import Run
from kit.training.optimizers.rules import Momentum
from kit.training.train import train
from tests.faults import model

PROMISE_S = 5.0


def begin(
    cluster: ProcessCluster,
    folder: Path,
    steps: int,
    *,
    topology: str = "ps",
    sync: bool = True,
    **values: Value,
) -> Run:
    """Begin a training of `model`, with a history in `folder`."""
    n = sum(task.job == "worker" for task in cluster.tasks)
    with settings(**{"heartbeat_s": 0.2, "history": str(folder), **values}):
        return train(
            model.step,
            model.initial(),
            model.data(steps, n),
            optimizer=Momentum(model.RATE, model.DECAY),
            topology=topology,
            sync=sync,
            steps=steps,
            batch=n,
            cluster=cluster,
        )


def failure(run: Run, within_s: float = PROMISE_S) -> KitError:
    """Return what the training fails with, which must be soon."""
    begun = time.monotonic()
    with pytest.raises(KitError) as failed:
        run.wait(within_s + 20)
    took = time.monotonic() - begun
    assert took < within_s, f"it took {took:.1f} s: {failed.value}"
    return failed.value


def news(cluster: ProcessCluster, run: Run, task: Task) -> dict[str, Any]:
    """Ask a task what it knows of a training, over a link of our own."""
    caller = cluster.dial(task, "")
    try:
        question = {"run": run.job.run, "cursors": [0, 0, 0]}
        return caller.call("run.poll", PROMISE_S, question)[0]
    finally:
        caller.close()


def assert_over_naming(
    cluster: ProcessCluster, run: Run, lost: Task, survivors: list[Task]
) -> None:
    """Every survivor answers, has ended its part, and says who was lost."""
    for task in survivors:
        reply = news(cluster, run, task)
        assert reply["state"] == "failed", task
        error = from_plain(reply["error"])
        assert error.task == str(lost), (task, error)
        assert str(lost) in error.message, (task, error)


def assert_history_holds(folder: Path) -> list[dict[str, Any]]:
    """Return the events, of which the invariants hold."""
    events = history.read(folder)
    assert history.check(events) == []
    assert_epochs_are_prefixes(events)
    return events


def assert_epochs_are_prefixes(events: list[dict[str, Any]]) -> None:
    """All or none: one list of epochs, of which nobody lacks more than the last."""
    lists = epochs_by_task(events).values()
    longest = max(lists, key=len, default=[])
    for item in lists:
        assert item == longest[: len(item)]
        assert len(longest) - len(item) <= 1


def epochs_by_task(events: list[dict[str, Any]]) -> dict[str, list[tuple[int, str]]]:
    """Return the epochs that each task has begun, in their order."""
    result: dict[str, list[tuple[int, str]]] = {}
    for event in events:
        if event["event"] == "epoch":
            row = (event["epoch"], event["topology"])
            result.setdefault(event["task"], []).append(row)
    return result


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
