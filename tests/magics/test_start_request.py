"""What `%%cluster` does about the cluster that runs already."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from kit.cluster.cells.selection import make_tasks
from kit.cluster.launchers import SSH, Launcher
from kit.cluster.options import ClusterOptions
from kit.cluster.report import ClusterState
from kit.errors import (
    ClusterBusy,
    FailedPreconditionError,
    InvalidArgumentError,
    KitError,
)
from kit.magics.cluster_cell_magic import Action, Running, arguments_of, decide
from tests.cases import for_each


def options(worker: int = 2, **more: bool | Launcher) -> ClusterOptions:
    tasks = tuple(make_tasks({"ps": 1, "worker": worker}))
    return ClusterOptions(tasks, threads=1, python="python", **more)  # type: ignore[arg-type]


IDLE = Running(options(), ClusterState.READY)
FAR = Running(options(launcher=SSH({"nodea": 3})), ClusterState.READY)
LOST = Running(options(), ClusterState.LOST)
BUSY = Running(options(), ClusterState.READY, step=12)


@for_each(
    ("wanted", "running", "requests", "action"),
    [
        (options(), None, {}, Action.START),
        (options(), None, {"reuse": True}, Action.START),
        (options(), None, {"restart": True}, Action.START),
        (options(), IDLE, {}, Action.REUSE),
        (None, IDLE, {}, Action.REUSE),
        (options(), BUSY, {}, Action.REUSE),
        (None, BUSY, {}, Action.REUSE),
        (options(3), IDLE, {}, Action.REPLACE),
        (options(insecure=True), IDLE, {}, Action.REPLACE),
        (options(launcher=SSH({"nodea": 3})), IDLE, {}, Action.REPLACE),
        (options(launcher=SSH({"nodea": 3})), FAR, {}, Action.REUSE),
        (options(launcher=SSH({"nodea": 2, "nodeb": 1})), FAR, {}, Action.REPLACE),
        (options(), FAR, {}, Action.REPLACE),
        (options(), IDLE, {"restart": True}, Action.REPLACE),
        (options(3), BUSY, {"restart": True}, Action.REPLACE),
        (options(), LOST, {}, Action.REPLACE),
        (None, LOST, {}, Action.REPLACE),
        (options(), LOST, {"reuse": True}, Action.REUSE),
    ],
)
def test_a_line_starts_uses_or_replaces_a_cluster(
    wanted: ClusterOptions | None,
    running: Running | None,
    requests: dict[str, bool],
    action: Action,
) -> None:
    assert decide(wanted, running, **requests) is action


@for_each(
    ("running", "requests", "error", "message"),
    [
        (BUSY, {}, ClusterBusy, r"worker=2 \(step 12\); end it with run"),
        (
            IDLE,
            {"reuse": True},
            FailedPreconditionError,
            "has ps=1, worker=2; another",
        ),
        (IDLE, {"reuse": True, "restart": True}, InvalidArgumentError, "exclude"),
    ],
)
def test_what_would_end_a_training_or_cannot_be_is_refused(
    running: Running, requests: dict[str, bool], error: type[KitError], message: str
) -> None:
    with pytest.raises(error, match=message):
        decide(options(3), running, **requests)


def test_only_what_was_given_becomes_an_argument_and_each_job_once() -> None:
    names = ["ps", "transport", "link", "threads", "gpus", "lease", "timeout"]
    line: dict[str, Any] = {**dict.fromkeys(names), "worker": 0, "insecure": False}
    jobs = [("chief", 1), ("eval", 2)]

    result = arguments_of(argparse.Namespace(**line, job=jobs))

    assert result == {"worker": 0, "jobs": dict(jobs)}
    with pytest.raises(InvalidArgumentError, match="'chief' is given twice"):
        arguments_of(argparse.Namespace(**line, job=[*jobs, ("chief", 2)]))
