"""A lost backup worker gets a new process, which takes part in the running training."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kit
from kit.errors import Fenced, KitError, PeerLost, from_plain
from kit.hooks import SessionRunHook
from kit.settings import Settings
from kit.testing.processes import ProcessCluster, process_cluster
from kit.testing.task_process import until
from kit.wire.rpc import Caller
from tests.faults import backups, model
from tests.faults.backups import (
    AT,
    BACKUP,
    SILENCE_S,
    N,
    begin,
    endless,
    finish,
    steps_more,
)
from tests.training.paced import settled

pytestmark = [
    pytest.mark.slow,
    # After a death the next test begins with another process.
    pytest.mark.lasting("process", "descriptor"),
]


# Of each test its own: a fault that did not happen would happen in the next one.
@pytest.fixture
def cluster() -> Iterator[ProcessCluster]:
    with process_cluster(ps=2, worker=N) as running:
        yield running


@pytest.fixture(scope="module")
def over_tcp() -> Iterator[ProcessCluster]:
    with process_cluster(ps=2, worker=N, settings=Settings(transport="tcp")) as running:
        yield running


class StepsSeen(SessionRunHook):
    """Writes down each step that it is told of."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        with Path(self._path).open("a") as file:
            file.write(f"{run_context.session.run('global_step') - 1}\n")


def lose(cluster: ProcessCluster, run: kit.Run) -> None:
    cluster[BACKUP].signal(signal.SIGKILL)
    assert cluster[BACKUP].wait_for_death(30) == -signal.SIGKILL
    until(lambda: list(run.lost) == [BACKUP.short], 30)


def bring_back(cluster: ProcessCluster, run: kit.Run) -> None:
    assert cluster.restart_dead() == [BACKUP]
    cluster.join(run, BACKUP)


def contributes_again(run: kit.Run, times: int = 1) -> None:
    """Wait until the newest epoch has steps made with the backup worker."""
    until(lambda: joins(run) == [BACKUP.short] * times and not run.lost, 30)
    member = run.job.tasks.index(BACKUP)

    def counts() -> bool:
        epoch, rows = run.trace.epochs[-1].number, run.trace.steps
        mine = rows[(rows["epoch"] == epoch) & (rows["task"] == member)]
        return bool(np.isfinite(mine["loss"]).any())

    until(counts, 20)


def joins(run: kit.Run) -> list[str]:
    return [epoch.joined for epoch in run.trace.epochs if epoch.joined]


def test_lost_worker_comes_back_and_contributes_to_the_same_bits(
    cluster: ProcessCluster, tmp_path: Path
) -> None:
    record, seen = tmp_path / "run", tmp_path / "seen"
    run = begin(cluster, tmp_path, record=record, hooks=[StepsSeen(seen)])
    steps_more(run)

    for times in (1, 2):
        lose(cluster, run)
        steps_more(run)
        bring_back(cluster, run)
        contributes_again(run, times)
    steps_more(run)

    made_of = finish(cluster, run, tmp_path)
    assert run.lost == {}
    mine = [step for step, ranks in enumerate(made_of) if 0 in ranks]
    assert [int(step) for step in seen.read_text().split()] == mine
    assert all(measured == formula for _, measured, formula in run.moved_once)
    last = run.trace.epochs[-1].number
    assert all(topology.agrees for topology in run.traffic if topology.epoch == last)
    again = kit.replay(record, step=backups.step, data=endless)
    assert model.same_bits(again.params, run.params)


@pytest.mark.parametrize("point", ["epoch.prepared", "epoch.committed", "compute.done"])
@pytest.mark.parametrize("number", ["SIGKILL", "SIGSTOP"])
def test_worker_that_is_lost_again_while_it_joins_holds_nobody_up_for_long(
    cluster: ProcessCluster, tmp_path: Path, point: str, number: str
) -> None:
    run = begin(cluster, tmp_path, crash=f"{BACKUP}@{AT}+:{point}:{number}")
    if point == "compute.done" and number == "SIGSTOP":
        cluster[BACKUP].wait_for_stop(30)
        until(lambda: bool(run.lost), SILENCE_S + 10)
    elif point == "compute.done":
        cluster[BACKUP].wait_for_death(30)
    else:
        until(lambda: run.step > AT, 30)
        lose(cluster, run)

    bring_back(cluster, run)
    if number == "SIGKILL":
        assert cluster[BACKUP].wait_for_death(60) == -signal.SIGKILL
    else:
        cluster[BACKUP].wait_for_stop(20)
        until(lambda: bool(run.lost), SILENCE_S + 10)
    steps_more(run)
    until(lambda: list(run.lost) == [BACKUP.short], SILENCE_S + 10)

    finish(cluster, run, tmp_path)
    assert joins(run) == ([] if point == "epoch.prepared" else [BACKUP.short])


def test_worker_joins_a_training_that_is_paused_and_that_stays_so(
    cluster: ProcessCluster, tmp_path: Path
) -> None:
    run = begin(cluster, tmp_path)
    steps_more(run)
    lose(cluster, run)
    run.pause()
    until(lambda: halted(run), 30)
    at = settled(run)  # the news of those that are further may come a moment later

    bring_back(cluster, run)
    until(lambda: joins(run) == [BACKUP.short], 20)
    until(lambda: halted(run) and run.step == at, 30)

    run.resume()
    contributes_again(run)
    finish(cluster, run, tmp_path)


def halted(run: kit.Run) -> bool:
    leads = run.source.leads()
    return bool(leads.get("paused")) and not leads.get("halting")


def test_worker_joins_while_links_change_and_a_checkpoint_is_written(
    cluster: ProcessCluster, tmp_path: Path
) -> None:
    run = begin(cluster, tmp_path / "history", checkpoint=tmp_path / "saved")
    steps_more(run)
    lose(cluster, run)
    cluster.restart_dead()

    saving = run.save()
    run.link = "10gbit"
    cluster.join(run, BACKUP)
    again = run.save()
    contributes_again(run)

    assert saving.wait(20).step <= again.wait(20).step
    assert [epoch.link for epoch in run.trace.epochs][-1] == "10gbit"
    finish(cluster, run, tmp_path / "history")


def test_worker_that_comes_back_to_a_training_that_ends_meanwhile_ends_with_it(
    cluster: ProcessCluster, tmp_path: Path
) -> None:
    run = begin(cluster, tmp_path)
    steps_more(run)
    lose(cluster, run)
    cluster.restart_dead()

    run.stop()
    cluster.join(run, BACKUP)

    run.wait(SILENCE_S + 10)
    assert run.state == "done"
    assert begin(cluster, tmp_path / "next", 5).wait(20).state == "done"


def test_process_that_wakes_when_another_has_its_place_is_refused(
    over_tcp: ProcessCluster, tmp_path: Path
) -> None:
    cluster = over_tcp
    run = begin(cluster, tmp_path)
    steps_more(run)
    way = cluster.dial(BACKUP, "")
    cluster[BACKUP].signal(signal.SIGSTOP)
    until(lambda: bool(run.lost), SILENCE_S + 10)

    old = cluster.replace(BACKUP)
    try:
        cluster.join(run, BACKUP)
        contributes_again(run)
        old.signal(signal.SIGCONT)
        error = end_of(way, run.job.run)
        steps_more(run)
    finally:
        old.kill()
        way.close()

    assert isinstance(error, PeerLost)
    assert "goes on without it" in error.message
    assert error.task == str(BACKUP)
    backups.end(run)
    assert run.lost == {}
    assert joins(run) == [BACKUP.short]


def test_of_two_processes_of_a_task_the_one_that_asked_last_takes_part(
    over_tcp: ProcessCluster, tmp_path: Path
) -> None:
    cluster = over_tcp
    run = begin(cluster, tmp_path)
    steps_more(run)
    lose(cluster, run)
    bring_back(cluster, run)
    contributes_again(run)

    way, first_run = cluster.dial(BACKUP, ""), run.newest_job.run
    first = cluster.replace(BACKUP)
    try:
        cluster.join(run, BACKUP)
        contributes_again(run, 2)
        error = end_of(way, first_run)
        steps_more(run)
        assert isinstance(error, Fenced)
        assert run.lost == {}
        backups.end(run)
    finally:
        first.kill()
        way.close()


def end_of(way: Caller, run: str) -> KitError:
    """Return what a process says that its part in a training has failed with."""
    question = {"run": run, "cursors": [0, 0, 0, 0]}
    result: dict[str, Any] = {}

    def has_failed() -> bool:
        result.update(way.call("run.poll", 10, question)[0])
        return bool(result["state"] == "failed")

    until(has_failed, 30)
    return from_plain(result["error"])
