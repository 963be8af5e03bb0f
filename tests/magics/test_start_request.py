"""What `%%cluster` does about the cluster that runs already."""

from __future__ import annotations

import argparse

import pytest

from kit.cluster.cells.selection import make_tasks
from kit.cluster.launchers import SSH, Launcher
from kit.cluster.plan import ClusterPlan
from kit.cluster.report import ClusterState
from kit.errors import ClusterBusy, FailedPreconditionError, InvalidArgumentError
from kit.magics.start_request import Action, Running, arguments, decide
from tests.cases import for_each


def plan(worker: int = 2, **more: bool | Launcher) -> ClusterPlan:
    tasks = tuple(make_tasks({"ps": 1, "worker": worker}))
    return ClusterPlan(tasks, threads=1, python="python", **more)  # type: ignore[arg-type]


IDLE = Running(plan(), ClusterState.READY)
FAR = Running(plan(launcher=SSH({"nodea": 3})), ClusterState.READY)
LOST = Running(plan(), ClusterState.LOST)
BUSY = Running(plan(), ClusterState.READY, step=12)


@for_each(
    ("wanted", "running", "requests", "action"),
    [
        (plan(), None, {}, Action.START),
        (plan(), None, {"reuse": True}, Action.START),
        (plan(), None, {"restart": True}, Action.START),
        (plan(), IDLE, {}, Action.REUSE),
        (None, IDLE, {}, Action.REUSE),
        (plan(), BUSY, {}, Action.REUSE),
        (None, BUSY, {}, Action.REUSE),
        (plan(3), IDLE, {}, Action.REPLACE),
        (plan(insecure=True), IDLE, {}, Action.REPLACE),
        (plan(launcher=SSH({"nodea": 3})), IDLE, {}, Action.REPLACE),
        (plan(launcher=SSH({"nodea": 3})), FAR, {}, Action.REUSE),
        (plan(launcher=SSH({"nodea": 2, "nodeb": 1})), FAR, {}, Action.REPLACE),
        (plan(), FAR, {}, Action.REPLACE),
        (plan(), IDLE, {"restart": True}, Action.REPLACE),
        (plan(3), BUSY, {"restart": True}, Action.REPLACE),
        (plan(), LOST, {}, Action.REPLACE),
        (None, LOST, {}, Action.REPLACE),
        (plan(), LOST, {"reuse": True}, Action.REUSE),
    ],
)
def test_a_line_starts_uses_or_replaces_a_cluster(
    wanted: ClusterPlan | None,
    running: Running | None,
    requests: dict[str, bool],
    action: Action,
) -> None:
    assert decide(wanted, running, **requests) is action


def test_a_cluster_that_trains_is_not_replaced_unless_told_to() -> None:
    with pytest.raises(ClusterBusy, match=r"worker=2 \(step 12\); end it with run"):
        decide(plan(3), BUSY)


def test_reuse_of_another_shape_is_refused() -> None:
    with pytest.raises(FailedPreconditionError, match="has ps=1, worker=2; another"):
        decide(plan(3), IDLE, reuse=True)


def test_reuse_and_restart_exclude_each_other() -> None:
    with pytest.raises(InvalidArgumentError, match="exclude"):
        decide(plan(), IDLE, reuse=True, restart=True)


def test_only_what_was_given_becomes_an_argument() -> None:
    none = dict.fromkeys(["ps", "transport", "link", "threads", "lease", "timeout"])
    options = argparse.Namespace(
        **none, worker=0, insecure=False, job=[("chief", 1), ("eval", 2)]
    )

    assert arguments(options) == {"worker": 0, "jobs": {"chief": 1, "eval": 2}}


def test_a_job_given_twice_is_refused() -> None:
    names = ["ps", "worker", "transport", "link", "threads", "lease", "timeout"]
    options = argparse.Namespace(
        **dict.fromkeys(names), insecure=False, job=[("chief", 1), ("chief", 2)]
    )

    with pytest.raises(InvalidArgumentError, match="'chief' is given twice"):
        arguments(options)
