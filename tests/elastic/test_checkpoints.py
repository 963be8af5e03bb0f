"""Checkpoints of an elastic training: none is lost, none is written twice."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

import kit
from kit.task import Task
from kit.testing.cluster import local_cluster
from kit.testing.processes import ProcessCluster
from kit.testing.task_process import until
from tests.elastic.scene import (
    ENDLESS,
    LEADER,
    OTHER,
    assert_undisturbed,
    end,
    idly,
    kill,
    losses,
    train,
)
from tests.training.saved import names
from tests.training.toy import fit, same_bits

pytestmark = [pytest.mark.slow, pytest.mark.lasting("process", "descriptor")]
PROCESSES = {"ps": 1, "worker": 2}
VICTIMS = [LEADER, OTHER]


def every(folder: Path, steps: int) -> kit.Checkpoints:
    return kit.Checkpoints(str(folder), every_steps=steps, keep=1000)


def assert_kept(kept: list[str], before: list[str], last: int) -> None:
    """All that were whole at the loss are kept, the last one is written, no other.

    One that is due while the one before is being written is left out, as ever.
    """
    due = {f"step-{step}" for step in range(10, last + 1, 10)}
    whole = due & {*before}  # the folder of one that was being written had another name
    assert {*whole, f"step-{last}"} <= {*kept} <= due


def test_they_are_those_of_the_undisturbed_training(
    tmp_path: Path, cluster: ProcessCluster
) -> None:
    with local_cluster(ps=1, worker=2) as quiet:
        where = every(tmp_path / "plain", 10)
        plain = train(quiet, fit, steps=60, checkpoint=where).wait(30)
    for victim in VICTIMS:
        cluster.restart_dead()
        folder = tmp_path / victim.short
        run = train(cluster, victim=victim, steps=60, checkpoint=every(folder, 10))
        kill(cluster, run, victim, 25)
        before = names(folder)
        run.wait(30)
        assert len(run.losses) == 1

        assert_kept(names(folder), before, 60)
        assert run.checkpoints.n_saved == len(names(folder))
        assert losses(run) == losses(plain)
        for name in {*names(folder)} & {*names(tmp_path / "plain")}:
            result = kit.load_checkpoint(folder / name)
            wanted = kit.load_checkpoint(tmp_path / "plain" / name)
            assert same_bits(dict(result), dict(wanted))


@pytest.mark.parametrize(
    ("restore", "resumed", "victim"), [("step-20", 20, LEADER), (None, 40, OTHER)]
)
def test_where_it_began_counts_only_once(
    tmp_path: Path, cluster: ProcessCluster, restore: Any, resumed: int, victim: Task
) -> None:
    saves = every(tmp_path, 10)
    with local_cluster(ps=1, worker=2) as quiet:
        first = every(tmp_path, 20)  # each is written before the next is due
        train(quiet, idly, steps=40, checkpoint=first).wait(30)
    run = train(cluster, victim=victim, restore=restore, checkpoint=saves, steps=100)
    kill(cluster, run, victim, 55)
    before = names(tmp_path)
    run.wait(30)
    assert len(run.losses) == 1
    assert_kept(names(tmp_path), before, 100)
    assert run.resumed_from is not None
    assert run.resumed_from.step == resumed


@pytest.mark.parametrize("point", ["ckpt.before_rename", "ckpt.after_rename"])
def test_a_leader_that_is_killed_as_it_saves_costs_no_step_and_no_bit(
    tmp_path: Path, cluster: ProcessCluster, point: str
) -> None:
    with kit.settings(crash=f"{LEADER.short}@20:{point}:SIGKILL"):
        run = train(cluster, steps=60, checkpoint=every(tmp_path, 20))
    assert cluster[LEADER].wait_for_death(20) == -signal.SIGKILL
    run.wait(30)

    assert [change.lost for change in run.losses] == [(LEADER.short,)]
    assert_undisturbed(run, 2)
    assert "step-60" in names(tmp_path)


@pytest.mark.parametrize("victim", VICTIMS)
def test_a_save_that_was_asked_for_is_written(
    tmp_path: Path, cluster: ProcessCluster, victim: Task
) -> None:
    run = train(cluster, steps=ENDLESS, checkpoint=every(tmp_path, 0))
    until(lambda: run.step >= 30)
    saving = run.save()
    kill(cluster, run, victim, 0)
    saved = saving.wait(20)
    until(lambda: len(run.losses) == 1 and run.step > saved.step)
    end(run)
    assert Path(saved.path).is_dir()
    assert 0 < saved.step < run.step


def test_a_coordinator_that_is_stopped_does_not_keep_the_folder(
    tmp_path: Path, cluster: ProcessCluster
) -> None:
    with kit.settings(heartbeat_s=0.1, suspect_after_s=0.5, dead_after_s=2.0):
        run = train(cluster, idly, checkpoint=every(tmp_path, 20), steps=ENDLESS)
    until(lambda: run.step >= 5)
    cluster[LEADER].signal(signal.SIGSTOP)
    until(lambda: len(run.losses) == 1)
    reached = run.losses[0].step
    until(lambda: run.step > reached + 20)

    cluster[LEADER].signal(signal.SIGCONT)
    until(lambda: len(run.history()) == 2)
    until(lambda: run.step > run.history()[1].step + 20)
    end(run)

    result = [int(name.removeprefix("step-")) for name in names(tmp_path)]
    assert sorted(result) == sorted({*range(20, run.step + 1, 20), run.step})
    saved = kit.load_checkpoint(tmp_path)
    assert same_bits({name: saved[name] for name in run.params}, run.params)
