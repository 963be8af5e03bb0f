"""SIGKILL at every crash point, of every role, in every topology that reaches it."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Iterator
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


Case = tuple[str, str, str, bool, str]  # cluster, topology, task, synchronous, point


def cases(
    cluster: str, topology: str, tasks: list[str], without: set[str], sync: bool = True
) -> Iterator[Case]:
    # Those of a checkpoint, and of copies, are not reached without them.
    points = [text for text in POINTS if not text.startswith(("ckpt.", "copy."))]
    for task, point in itertools.product(tasks, points):
        if point not in without:
            yield cluster, topology, task, sync, point


WORKERS = ["worker:0", "worker:1"]
CASES: list[Case] = [
    *cases("with_ps", "ps", ["ps:0"], NOT_ON_A_SERVER),
    *cases("with_ps", "ps", WORKERS, set()),
    *cases("with_ps", "ps", ["ps:0"], NOT_ASYNC_SERVER, sync=False),
    *cases("with_ps", "ps", WORKERS, NOT_ASYNC_WORKER, sync=False),
    *cases("without_ps", "ring", WORKERS, set()),
    # It has no link to some.
    ("of_five", "ring", "worker:3", True, "epoch.prepared"),
    ("of_five", "ring", "worker:3", True, "step.begun"),
    ("of_five", "ring", "worker:3", True, "compute.done"),
    # Behind TLS.
    ("over_tcp", "ps", "ps:0", True, "step.begun"),
    ("over_tcp", "ps", "ps:0", True, "exchange.reduced"),
    ("over_tcp", "ps", "worker:0", True, "compute.done"),
    ("over_tcp", "ps", "worker:1", True, "exchange.done"),
]


@pytest.mark.parametrize(("which", "topology", "task", "sync", "point"), CASES)
def test_a_task_that_is_killed_is_named_to_everybody(
    which: str,
    topology: str,
    task: str,
    sync: bool,
    point: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    cluster: ProcessCluster = request.getfixturevalue(which)
    cluster.restart_dead()
    lost = Task.parse(task)
    survivors = [item for item in cluster.tasks if item != lost]
    at = "0" if point in ONCE else f"{AT}+"
    plan = f"{task}@{at}:{point}:SIGKILL"
    # Long enough without rounds that every worker gets its turns.
    steps = STEPS if sync else 50 * STEPS

    run = scene.begin(
        cluster, tmp_path, steps, topology=topology, sync=sync, crash=plan
    )

    assert cluster[lost].wait_for_death(10) == -signal.SIGKILL
    error = scene.failure(run)
    assert isinstance(error, PeerLost)
    assert error.task == str(lost)
    assert str(lost) in error.message
    assert run.state == "failed"
    scene.assert_over_naming(cluster, run, lost, survivors)
    scene.assert_history_holds(tmp_path)
    if point not in ONCE:
        assert run.step >= (AT if sync else 1)
        assert all(np.isfinite(value).all() for value in run.params.values())
        if sync:
            n = len(run.job.workers)
            assert model.same_bits(run.params, model.replayed(run.step, n))
            assert run.step in (AT, AT + 1)
