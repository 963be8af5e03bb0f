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


def kill(
    cluster: ProcessCluster, folder: Path, task: str, point: str, topology: str
) -> None:
    """Save 5 steps, die over the save of 10, go on, and check all that is promised."""
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


@pytest.mark.parametrize("point", SAVING)
def test_leader_killed_over_a_save_leaves_the_one_before(
    with_ps: ProcessCluster, tmp_path: Path, point: str
) -> None:
    task = "ps:0" if point == "ckpt.copied" else "worker:0"
    kill(with_ps, tmp_path, task, point, "ps")


@pytest.mark.parametrize(
    ("task", "point"),
    [("worker:1", "ckpt.copied"), *(("worker:0", point) for point in SAVING)],
)
def test_member_of_a_ring_killed_over_a_save_leaves_the_one_before(
    without_ps: ProcessCluster, tmp_path: Path, task: str, point: str
) -> None:
    kill(without_ps, tmp_path, task, point, "ring")


def test_member_of_a_mesh_killed_over_its_copy_leaves_the_one_before(
    without_ps: ProcessCluster, tmp_path: Path
) -> None:
    kill(without_ps, tmp_path, "worker:2", "ckpt.copied", "mesh")
