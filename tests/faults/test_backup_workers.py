"""A worker more than a step needs may stop, wake again or die: the steps go on."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kit.errors import PeerLost
from kit.settings import Settings
from kit.task import Task
from kit.testing.processes import ProcessCluster, process_cluster
from kit.testing.task_process import until
from tests.faults import scene
from tests.faults.backups import AT, BACKUP, SILENCE_S, N, begin, finish, steps_more
from tests.training.backups import ranks

pytestmark = [
    pytest.mark.slow,
    # After a death the next test begins with another process.
    pytest.mark.lasting("process", "descriptor"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ProcessCluster]:
    with process_cluster(ps=2, worker=N) as running:
        yield running


@pytest.fixture(scope="module")
def over_tcp() -> Iterator[ProcessCluster]:
    with process_cluster(ps=2, worker=N, settings=Settings(transport="tcp")) as running:
        yield running


def test_backup_worker_that_stops_holds_nobody_up_and_comes_back(
    cluster: ProcessCluster, tmp_path: Path
) -> None:
    run = begin(cluster, tmp_path, dead_after_s=30.0)
    steps_more(run)

    for _ in range(8):  # wherever it stands
        cluster[BACKUP].signal(signal.SIGSTOP)
        cluster[BACKUP].wait_for_stop(5)
        steps_more(run, 60)
        cluster[BACKUP].signal(signal.SIGCONT)
        steps_more(run, 40)
    awake_from = run.step
    # Not in so many steps: on a busy machine the two others may long be quicker.
    until(lambda: any(2 in rank for rank in ranks(run)[awake_from:]), 20)

    made_of = finish(cluster, run, tmp_path)
    assert run.lost == {}
    assert any(2 in text for text in made_of[awake_from:])
    # A gradient of its was there when it stopped, so some came 60 steps too late.
    rows = run.trace.steps
    assert rows["staleness"].max() >= 60


@pytest.mark.parametrize(
    ("which", "point", "number"),
    [
        ("cluster", "step.begun", "SIGKILL"),
        ("cluster", "exchange.reduced", "SIGKILL"),
        ("cluster", "step.done", "SIGKILL"),
        ("cluster", "compute.done", "SIGSTOP"),
        ("over_tcp", "exchange.reduced", "SIGKILL"),
        ("over_tcp", "compute.done", "SIGSTOP"),
    ],
)
def test_backup_worker_that_dies_or_stops_for_good_is_lost_and_the_training_ends_well(
    which: str, point: str, number: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    cluster: ProcessCluster = request.getfixturevalue(which)
    run = begin(cluster, tmp_path, crash=f"{BACKUP}@{AT}+:{point}:{number}")
    if number == "SIGKILL":
        assert cluster[BACKUP].wait_for_death(10) == -signal.SIGKILL
    else:
        cluster[BACKUP].wait_for_stop(10)
    steps_more(run)
    until(lambda: list(run.lost) == [BACKUP.short], SILENCE_S + 5)

    run.pause()
    until(lambda: run.state == "paused", 5)
    run.link = "10gbit"  # a new epoch, without the lost one
    run.resume()
    steps_more(run, 60)
    made_of = finish(cluster, run, tmp_path)

    assert all(2 not in rank for rank in made_of[-50:])
    assert [epoch.link for epoch in run.trace.epochs] == ["", "10gbit"]


@pytest.mark.parametrize(
    "lost", [["worker:2", "worker:1"], ["worker:0"], ["ps:0"], ["ps:1"]]
)
def test_one_worker_too_many_a_coordinator_or_a_server_cannot_be_spared(
    cluster: ProcessCluster, tmp_path: Path, lost: list[str]
) -> None:
    run = begin(cluster, tmp_path)
    for name in lost:
        steps_more(run)
        cluster[Task.parse(name)].signal(signal.SIGKILL)
    error = scene.failure(run)

    assert isinstance(error, PeerLost)
    assert error.task == str(Task.parse(name))
    if name == "worker:0":
        assert "coordinates this training, which ends" in error.message
    assert all(np.isfinite(value).all() for value in run.params.values())


def test_worker_that_wakes_after_it_was_lost_ends_its_part_alone(
    cluster: ProcessCluster, tmp_path: Path
) -> None:
    run = begin(cluster, tmp_path)
    steps_more(run)
    cluster[BACKUP].signal(signal.SIGSTOP)
    until(lambda: bool(run.lost), SILENCE_S + 5)

    cluster[BACKUP].signal(signal.SIGCONT)
    until(lambda: scene.news(cluster, run, BACKUP)["state"] == "failed", 5)
    steps_more(run)

    result = scene.news(cluster, run, BACKUP)["error"]
    assert "the training goes on without it" in result["message"]
    finish(cluster, run, tmp_path)
