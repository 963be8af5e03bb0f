"""SIGKILL at every crash point, of every role, in every topology that reaches it."""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import pytest

from kit.errors import PeerLost
from kit.faults.points import POINTS
from kit.task import Task
from kit.testing.processes import ProcessCluster
from tests.faults import model, scene

STEPS, AT = 12, 4
ONCE = ("run.connected", "epoch.prepared", "epoch.committed")
NOT_ON_A_SERVER = {"compute.done"}
NOT_ASYNC_SERVER = {"compute.done", "exchange.done"}
NOT_ASYNC_WORKER = {"exchange.reduced", "exchange.done"}

pytestmark = [
    pytest.mark.slow,
    # A test begins with a new process in the place of the one that was killed.
    pytest.mark.lasting("process", "descriptor"),
]


def cases(tasks: list[str], without: set[str]) -> list[tuple[str, str]]:
    # Those of a checkpoint, and of copies, are not reached without them.
    points = [text for text in POINTS if not text.startswith(("ckpt.", "copy."))]
    return [(task, point) for task in tasks for point in points if point not in without]


def kill(
    cluster: ProcessCluster, folder: Path, task: str, point: str, **how: str | bool
) -> None:
    """Train with a crash plan and check everything that is promised about its end."""
    cluster.restart_dead()
    lost = Task.parse(task)
    survivors = [item for item in cluster.tasks if item != lost]
    at = "0" if point in ONCE else f"{AT}+"
    plan = f"{task}@{at}:{point}:SIGKILL"
    synchronous = bool(how.get("sync", True))
    topology = str(how.get("topology", "ps"))

    # Long enough without rounds that every worker gets its turns.
    steps = STEPS if synchronous else 50 * STEPS
    run = scene.begin(
        cluster, folder, steps, topology=topology, sync=synchronous, crash=plan
    )

    assert cluster[lost].wait_for_death(10) == -signal.SIGKILL
    error = scene.failure(run)
    assert isinstance(error, PeerLost)
    assert error.task == str(lost)
    assert str(lost) in error.message
    assert run.state == "failed"
    scene.assert_over_naming(cluster, run, lost, survivors)
    scene.assert_history_holds(folder)
    if point not in ONCE:
        assert run.step >= (AT if synchronous else 1)
        assert all(np.isfinite(value).all() for value in run.params.values())
        if synchronous:
            n = len(run.job.workers)
            assert model.same_bits(run.params, model.replayed(run.step, n))
            assert run.step in (AT, AT + 1)


@pytest.mark.parametrize(
    ("task", "point"),
    [
        *cases(["ps:0"], NOT_ON_A_SERVER),
        *cases(["worker:0", "worker:1"], set()),
    ],
)
def test_a_task_killed_in_sync_ps_training_is_named_to_everybody(
    with_ps: ProcessCluster, tmp_path: Path, task: str, point: str
) -> None:
    kill(with_ps, tmp_path, task, point)


@pytest.mark.parametrize(
    ("task", "point"),
    [
        *cases(["ps:0"], NOT_ASYNC_SERVER),
        *cases(["worker:0", "worker:1"], NOT_ASYNC_WORKER),
    ],
)
def test_a_task_killed_in_async_ps_training_is_named_to_everybody(
    with_ps: ProcessCluster, tmp_path: Path, task: str, point: str
) -> None:
    kill(with_ps, tmp_path, task, point, sync=False)


@pytest.mark.parametrize(("task", "point"), cases(["worker:0", "worker:1"], set()))
def test_a_task_killed_in_a_ring_is_named_to_everybody(
    without_ps: ProcessCluster, tmp_path: Path, task: str, point: str
) -> None:
    kill(without_ps, tmp_path, task, point, topology="ring")


@pytest.mark.parametrize("point", ["epoch.prepared", "step.begun", "compute.done"])
def test_a_task_killed_that_has_no_link_to_some_is_named_to_everybody(
    of_five: ProcessCluster, tmp_path: Path, point: str
) -> None:
    kill(of_five, tmp_path, "worker:3", point, topology="ring")


@pytest.mark.parametrize(
    ("task", "point"),
    [
        ("ps:0", "step.begun"),
        ("ps:0", "exchange.reduced"),
        ("worker:0", "compute.done"),
        ("worker:1", "exchange.done"),
    ],
)
def test_a_task_killed_behind_tls_is_named_to_everybody(
    over_tcp: ProcessCluster, tmp_path: Path, task: str, point: str
) -> None:
    kill(over_tcp, tmp_path, task, point)


def test_survivors_train_on_with_a_new_process_in_the_place_of_the_dead_one(
    with_ps: ProcessCluster, tmp_path: Path
) -> None:
    with_ps.restart_dead()
    dead = Task("worker", 0)
    with_ps[dead].signal(signal.SIGKILL)
    with_ps[dead].wait_for_death(10)

    assert with_ps.restart_dead() == [dead]
    run = scene.begin(with_ps, tmp_path, STEPS).wait(20)

    assert model.same_bits(run.params, model.replayed(STEPS, 2))
