"""Checkpoints of an elastic training: none is lost, none is written twice."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

import kit
from kit.task import Task
from kit.testing.processes import process_cluster
from kit.testing.task_process import until
from tests.elastic.scene import ENDLESS, LEADER, OTHER, STEPS, end, kill, losses, train
from tests.training.saved import names
from tests.training.toy import same_bits

pytestmark = pytest.mark.slow
VICTIMS = [LEADER, OTHER]


def every(folder: Path, steps: int) -> kit.Checkpoints:
    return kit.Checkpoints(str(folder), every_steps=steps, keep=1000)


def assert_kept(found: list[str], before: list[str], last: int) -> None:
    """All that were whole at the loss are kept, the last one is written, no other.

    One that is due while the one before is being written is left out, as ever.
    """
    due = {f"step-{step}" for step in range(20, last + 1, 20)}
    whole = due & {*before}  # the folder of one that was being written had another name
    assert {*whole, f"step-{last}"} <= {*found} <= due


@pytest.mark.parametrize("victim", VICTIMS)
def test_they_are_those_of_the_undisturbed_training(
    tmp_path: Path, victim: Task
) -> None:
    with process_cluster(ps=1, worker=2) as cluster:
        plain = train(cluster, checkpoint=every(tmp_path / "plain", 20)).wait(30)
        run = train(cluster, victim=victim, checkpoint=every(tmp_path / "run", 20))
        kill(cluster, run, victim, 50)
        before = names(tmp_path / "run")
        run.wait(30)
        assert len(run.losses) == 1

    assert_kept(names(tmp_path / "run"), before, STEPS)
    assert run.checkpoints.n_saved == len(names(tmp_path / "run"))
    assert losses(run) == losses(plain)
    for name in {*names(tmp_path / "run")} & {*names(tmp_path / "plain")}:
        result = kit.load_checkpoint(tmp_path / "run" / name)
        wanted = kit.load_checkpoint(tmp_path / "plain" / name)
        assert same_bits(dict(result), dict(wanted))


@pytest.mark.parametrize("restore", [False, "step-40", None])
@pytest.mark.parametrize("victim", VICTIMS)
def test_where_it_began_counts_only_once(
    tmp_path: Path, restore: Any, victim: Task
) -> None:
    folder = tmp_path / "run"
    with process_cluster(ps=1, worker=2) as cluster:
        if restore is not False:
            train(cluster, checkpoint=every(folder, 20), steps=80).wait(30)
        options: dict[str, Any] = {"checkpoint": every(folder, 20), "steps": 200}
        run = train(cluster, victim=victim, restore=restore, **options)
        kill(cluster, run, victim, 110)
        before = names(folder)
        run.wait(30)
        assert len(run.losses) == 1
    assert_kept(names(folder), before, 200)
    resumed = {False: None, "step-40": 40, None: 80}[restore]
    assert (run.resumed_from.step if run.resumed_from else None) == resumed


@pytest.mark.parametrize("victim", VICTIMS)
def test_a_save_that_was_asked_for_is_written(tmp_path: Path, victim: Task) -> None:
    with process_cluster(ps=1, worker=2) as cluster:
        run = train(cluster, steps=ENDLESS, checkpoint=every(tmp_path, 0))
        until(lambda: run.step >= 30)
        saving = run.save()
        kill(cluster, run, victim, 0)
        saved = saving.wait(20)
        until(lambda: len(run.losses) == 1 and run.step > saved.step)
        end(run)
    assert Path(saved.path).is_dir()
    assert 0 < saved.step < run.step


def test_a_coordinator_that_is_stopped_does_not_keep_the_folder(tmp_path: Path) -> None:
    with process_cluster(ps=1, worker=2) as cluster:
        with kit.settings(heartbeat_s=0.1, suspect_after_s=0.5, dead_after_s=2.0):
            run = train(cluster, checkpoint=every(tmp_path, 100), steps=ENDLESS)
        until(lambda: run.step >= 30)
        cluster[LEADER].signal(signal.SIGSTOP)
        until(lambda: len(run.losses) == 1)
        reached = run.losses[0].step
        until(lambda: run.step > reached + 100)

        cluster[LEADER].signal(signal.SIGCONT)
        until(lambda: len(run.history()) == 2)
        until(lambda: run.step > run.history()[1].step + 100)
        end(run)

    result = [int(name.removeprefix("step-")) for name in names(tmp_path)]
    hundreds = range(100, run.step + 1, 100)
    assert sorted(result) == sorted({*hundreds, run.step})
    saved = kit.load_checkpoint(tmp_path)
    assert same_bits({name: saved[name] for name in run.params}, run.params)
