"""Whom an observer cannot reach at once, whom not at all, and who answers nonsense."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import kit
from kit.errors import (
    InternalError,
    PeerLost,
    StepFailed,
    UnavailableError,
    UnknownError,
)
from kit.server.trainings import Trainings
from kit.task import Task
from kit.testing.cluster import LocalCluster
from kit.training.client import ending
from kit.training.client.observer import Observer
from kit.wire.link import Link
from kit.wire.rpc import Answer, Caller
from tests.training.paced import answer_with
from tests.training.toy import Params, begin, quick_cluster

LEADER, OTHER = Task("worker", 0), Task("worker", 1)
MANY = 1_000_000
MUCH_LONGER_S = 3600.0  # than any test waits


def refuse(
    cluster: LocalCluster,
    monkeypatch: pytest.MonkeyPatch,
    is_busy: Callable[[Task, str], bool],
) -> list[Task]:
    """Let tasks send observers, and who asks for them, away while they are busy."""
    plain, refused = cluster.dial, list[Task]()
    for_news = Trainings.dial_for_news

    def check(task: Task, run: str) -> None:
        if is_busy(task, run):
            refused.append(task)
            raise UnavailableError("it has as many new connections as it takes.")

    def dial(task: Task, run: str) -> Caller:
        check(task, run)
        return plain(task, run)

    def dial_for_news(self: Trainings, run: str, number: int) -> Link:
        check(self.find(run).job.tasks[number], run)
        return for_news(self, run, number)

    monkeypatch.setattr(cluster, "dial", dial)
    monkeypatch.setattr(Trainings, "dial_for_news", dial_for_news)
    return refused


def once(*tasks: Task) -> Callable[[Task, str], bool]:
    left = list(tasks)

    def is_busy(task: Task, _: str) -> bool:
        if task in left:
            left.remove(task)
            return True
        return False

    return is_busy


def assert_over_everywhere(cluster: LocalCluster, run: kit.Run) -> None:
    for server in cluster.servers:
        assert server.trainings.find(run.job.run).join(10)


@pytest.mark.parametrize("busy", [LEADER, OTHER])
def test_task_that_is_busy_at_first_is_dialled_again(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, busy: Task
) -> None:
    refused = refuse(cluster, monkeypatch, once(busy, busy))

    run = begin(cluster).wait(10)

    assert refused == [busy, busy]
    assert run.lost == {}
    assert all(entry.agrees for entry in run.traffic)


@pytest.mark.slow
def test_task_that_never_answers_is_lost_when_a_dead_one_would_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with quick_cluster(suspect_after_s=1.0, dead_after_s=1.0) as cluster:
        refuse(cluster, monkeypatch, lambda task, _: task == OTHER)
        begun = time.monotonic()
        run = begin(cluster, steps=MANY)

        with pytest.raises(PeerLost, match="as many new connections") as caught:
            run.wait(10)

        assert time.monotonic() - begun >= 1.0
        assert caught.value.task == str(OTHER)
        assert list(run.lost) == ["worker:1"]
        assert_over_everywhere(cluster, run)


def test_failure_is_heard_of_though_the_coordinator_cannot_be_asked_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when it dies before the notebook has dialled it."""

    def stumble(params: Params, batch: Any) -> Any:
        raise ValueError("no such model")

    with quick_cluster(dead_after_s=30.0) as cluster:
        refused = refuse(cluster, monkeypatch, lambda task, _: task == LEADER)
        run = begin(cluster, stumble)

        with pytest.raises((PeerLost, StepFailed)):
            run.wait(15)  # a silent one is waited for longer

        assert refused
        assert_over_everywhere(cluster, run)


def test_coordinator_that_has_failed_is_dialled_once_at_most(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_gone = threading.Event()
    refused = refuse(cluster, monkeypatch, lambda task, _: is_gone.is_set())

    def stumble(params: Params, batch: Any) -> Any:
        raise ValueError("no such model")

    run = begin(cluster, stumble)
    with pytest.raises(StepFailed):
        run.wait(10)
    watching = run.source
    assert isinstance(watching, Observer)
    is_gone.set()
    lost = watching._watched[1]
    watching._tell(run.job, 1, lost, PeerLost("the way to worker:1 is cut."))

    assert refused == [LEADER]


@pytest.mark.slow
def test_coordinator_that_is_busy_hears_of_a_lost_task_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_first = once(LEADER)

    def is_busy(task: Task, run: str) -> bool:
        return task == OTHER or (not run and is_first(task, run))

    with quick_cluster(suspect_after_s=0.5, dead_after_s=0.5) as cluster:
        refused = refuse(cluster, monkeypatch, is_busy)
        run = begin(cluster, steps=MANY)

        with pytest.raises(PeerLost):
            run.wait(10)

        assert LEADER in refused
        assert_over_everywhere(cluster, run)


def test_task_that_never_answers_is_not_dialled_long_after_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ending, "LAST_WORDS_S", 0.1)

    with quick_cluster(dead_after_s=MUCH_LONGER_S) as cluster:
        refused = refuse(cluster, monkeypatch, lambda task, _: task == OTHER)
        run = begin(cluster).wait(60)

    assert len(refused) > 1
    assert run.lost == {}  # it took part until the end


def test_task_that_never_answers_delays_no_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ending, "LAST_WORDS_S", MUCH_LONGER_S)
    seen = threading.Event()

    def is_busy(task: Task, _: str) -> bool:
        if task == OTHER:
            seen.set()
        return task == OTHER

    def stumble(params: Params, batch: Any) -> Any:
        assert seen.wait(10)
        raise ValueError("no")

    with quick_cluster(dead_after_s=MUCH_LONGER_S) as cluster:
        refuse(cluster, monkeypatch, is_busy)

        with pytest.raises(StepFailed, match="ValueError: no"):
            begin(cluster, stumble).wait(60)


@pytest.mark.parametrize("number", [1, 2])
def test_error_that_a_living_task_answers_is_its_own_and_ends_the_training(
    cluster: LocalCluster, number: int
) -> None:
    def confused(_: dict[str, Any], __: bytearray) -> Answer:
        raise ZeroDivisionError("a bug")

    server = cluster.servers[number]
    answer_with(server, "run.poll", confused)
    run = begin(cluster, steps=MANY)

    with pytest.raises(UnknownError, match="ZeroDivisionError: a bug") as caught:
        run.wait(10)

    assert f"{server.task} cannot tell how it is doing" in caught.value.message
    assert caught.value.task == str(server.task)
    assert run.lost == {}
    assert_over_everywhere(cluster, run)


@pytest.mark.parametrize("elastic", [False, True])
def test_an_unknown_failure_of_the_way_to_the_tasks_ends_the_wait(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, elastic: bool
) -> None:
    def dial(task: Task, run: str, address: str = "") -> Caller:
        # Of an elastic training it comes as the next generation is looked for.
        if elastic and run:
            raise UnknownError("not now")
        raise RuntimeError("no more threads")

    monkeypatch.setattr(cluster, "dial", dial)
    run = begin(cluster, elastic=elastic)

    with pytest.raises(InternalError, match="RuntimeError: no more threads"):
        run.wait(10)
    assert_over_everywhere(cluster, run)
