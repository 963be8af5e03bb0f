"""SIGKILL while a training is saved: what was saved before stays, and it can go on."""

from __future__ import annotations

import fcntl
import signal
from pathlib import Path

import pytest

import kit
from kit.errors import PeerLost
from kit.faults.points import POINTS
from kit.settings import Value, settings
from kit.task import Task
from kit.testing.processes import ProcessCluster
from kit.testing.task_process import until
from kit.training.client.run import Run
from kit.training.train import train
from tests.faults import model, scene

EVERY, AT, STEPS = 5, 10, 15
SAVING = [text for text in POINTS if text.startswith("ckpt.")]
RENAMING = [text for text in SAVING if text != "ckpt.copied"]

pytestmark = [
    pytest.mark.slow,
    # A test begins with a new process in the place of the one that was killed.
    pytest.mark.lasting("process", "descriptor"),
]


def begin(
    cluster: ProcessCluster,
    folder: Path,
    *,
    topology: str,
    steps: int = STEPS,
    **values: Value,
) -> Run:
    n = sum(task.job == "worker" for task in cluster.tasks)
    with settings(**{"heartbeat_s": 0.2, **values}):
        return train(
            model.step,
            model.initial(),
            model.data(1000, n),
            optimizer=kit.Momentum(model.RATE, model.DECAY),
            topology=topology,
            steps=steps,
            batch=n,
            cluster=cluster,
            checkpoint=kit.Checkpoints(str(folder), every_steps=EVERY),
        )


def saved(folder: Path) -> list[str]:
    return sorted(
        path.name for path in folder.glob("step-*") if ".tmp" not in path.name
    )


def is_right(folder: Path, step: int, n_workers: int) -> bool:
    """Whether a checkpoint has the bits that plain numpy has after as many steps."""
    result, want = kit.load_checkpoint(folder), model.replayed(step, n_workers)
    values = {name: result[name] for name in want}
    return result.step == step and model.same_bits(values, want)


@pytest.mark.parametrize(
    ("which", "topology", "task", "point"),
    [
        ("with_ps", "ps", "ps:0", "ckpt.copied"),
        *(("with_ps", "ps", "worker:0", point) for point in RENAMING),
        ("without_ps", "ring", "worker:1", "ckpt.copied"),
        *(("without_ps", "ring", "worker:0", point) for point in SAVING),
        ("without_ps", "mesh", "worker:2", "ckpt.copied"),
    ],
)
def test_a_task_killed_over_a_save_leaves_the_one_before_and_the_next_goes_on(
    which: str,
    topology: str,
    task: str,
    point: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    cluster: ProcessCluster = request.getfixturevalue(which)
    folder = tmp_path
    cluster.restart_dead()
    n, lost = sum(item.job == "worker" for item in cluster.tasks), Task.parse(task)
    begin(cluster, folder, topology=topology, steps=EVERY).wait(30)

    plan = f"{task}@{AT}:{point}:SIGKILL"
    run = begin(cluster, folder, topology=topology, steps=1000, crash=plan)

    assert cluster[lost].wait_for_death(30) == -signal.SIGKILL
    error = scene.failure(run, within_s=15)
    assert isinstance(error, PeerLost)
    assert error.task == str(lost)
    # What others still write of the steps after it, they write within a moment.
    until(lambda: not is_held(folder), 30)
    assert "step-5" in saved(folder)
    newest = kit.load_checkpoint(folder)
    assert newest.passed_over == ()
    assert is_right(folder, newest.step, n)
    is_there = point == "ckpt.after_rename"
    assert newest.step == (AT if is_there else EVERY)
    assert ("step-10" in saved(folder)) == is_there
    reached = max(run.step, AT)

    cluster.restart_dead()
    again = begin(cluster, folder, topology=topology, steps=reached + 3).wait(30)

    resumed = again.resumed_from
    assert resumed is not None
    assert (resumed.step, again.step) == (newest.step, reached + 3)
    if lost == Task("worker", 0):  # its own count is exact: nobody saw its last steps
        assert AT - newest.step <= resumed.lost_steps
    assert abs(resumed.lost_steps - (reached - newest.step)) <= 1
    assert model.same_bits(again.params, model.replayed(again.step, n))
    assert not list(folder.glob("*.tmp-*"))


def is_held(folder: Path) -> bool:
    """Whether a living process still has the folder."""
    with (folder / ".owner").open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False
