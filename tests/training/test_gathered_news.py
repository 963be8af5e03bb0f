"""The coordinator is asked for the news of all members, and nobody else is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

import kit
from kit.server import watchers
from kit.task import Task
from kit.testing.cluster import LocalCluster, local_cluster
from kit.testing.task_process import until
from kit.training.client import observer
from kit.wire.rpc import Answer, Caller
from tests.training import toy
from tests.training.paced import Answerer, change_answer
from tests.training.toy import fit

LEADER, SLOW = Task("worker", 0), Task("worker", 1)
ENDLESS = 1_000_000


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with local_cluster(ps=1, worker=3) as result:
        yield result


def dialled_in(cluster: LocalCluster, patch: pytest.MonkeyPatch) -> list[Task]:
    """Return the tasks to which the notebook opens a link, as it goes on."""
    plain, result = cluster.dial, list[Task]()

    def dial(task: Task, run: str, address: str = "") -> Caller:
        result.append(task)
        return plain(task, run, address)

    patch.setattr(cluster, "dial", dial)
    return result


def before_polls(cluster: LocalCluster, task: Task, call: Callable[[], object]) -> None:
    """Let a task do something before it tells its news."""

    def change(answer: Answerer) -> Answerer:
        def delayed(question: dict[str, Any], blob: bytearray) -> Answer | None:
            call()
            return answer(question, blob)

        return delayed

    change_answer(cluster.servers[cluster.tasks.index(task)], "run.poll", change)


def slowly(params: Any, batch: Any) -> Any:
    time.sleep(0.002)
    return fit(params, batch)


def begin(cluster: LocalCluster, steps: int = ENDLESS, **more: Any) -> kit.Run:
    return toy.begin(cluster, slowly, steps=steps, **more)


def end(run: kit.Run) -> None:
    run.stop()
    run.wait(30)
    assert run.lost == {}


def go_on(run: kit.Run) -> None:
    reached = run.step
    until(lambda: run.step > reached + 20)


def assert_all_steps_are_known(run: kit.Run, steps: int) -> None:
    assert all(entry.agrees for entry in run.traffic)
    rows = run.trace.steps
    for member in run.job.workers:
        assert sorted(rows["step"][rows["task"] == member]) == list(range(steps))


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody counts as late because the machine is busy."""
    monkeypatch.setattr(watchers, "LATE_S", 30.0)
    with kit.settings(suspect_after_s=30.0, dead_after_s=40.0):
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("elastic", [False, True])
def test_notebook_has_a_link_to_the_coordinator_alone(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, elastic: bool
) -> None:
    dialled = dialled_in(cluster, monkeypatch)
    run = begin(cluster, 300, elastic=elastic).wait(30)

    assert {*dialled} == {LEADER}
    assert run.lost == {}
    assert_all_steps_are_known(run, 300)


@pytest.mark.slow
@pytest.mark.usefixtures("patient")
def test_news_that_do_not_fit_into_one_answer_come_with_the_next(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One member's answer, of 10 rows of a kind, is more than the others may add to.
    monkeypatch.setattr(watchers, "MOST_BYTES", 1)
    monkeypatch.setattr(watchers, "MOST_ROWS", 10)
    lines, plain = list[int](), watchers.GatheredNews.take

    def take(self: watchers.GatheredNews, *asked: Any) -> Any:
        result = plain(self, *asked)
        sizes = [n_bytes for *_, n_bytes, _ in result[0]["others"]]
        lines.append(sum(size > 0 for size in sizes))
        return result

    monkeypatch.setattr(watchers.GatheredNews, "take", take)
    dialled = dialled_in(cluster, monkeypatch)
    run = begin(cluster, 300).wait(30)

    assert max(lines) == 1
    assert {*dialled} == {LEADER}
    assert_all_steps_are_known(run, 300)


def test_member_that_answers_late_delays_no_news_and_is_asked_directly(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchers, "LATE_S", 0.3)
    dialled, may_answer = dialled_in(cluster, monkeypatch), threading.Event()
    before_polls(cluster, SLOW, lambda: may_answer.wait(30))
    run = begin(cluster)
    go_on(run)
    until(lambda: SLOW in dialled)
    go_on(run)
    may_answer.set()
    end(run)

    assert dialled.count(SLOW) == 1


def test_all_are_asked_directly_while_the_coordinator_is_silent(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialled, may_answer = dialled_in(cluster, monkeypatch), threading.Event()
    before_polls(cluster, LEADER, lambda: may_answer.wait(30))
    with kit.settings(suspect_after_s=0.6):
        run = begin(cluster)
    until(lambda: {*dialled} == {*cluster.tasks})
    go_on(run)
    assert not may_answer.is_set()
    may_answer.set()
    end(run)


@pytest.mark.slow
@pytest.mark.usefixtures("patient")
def test_many_members_are_asked_less_often(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[float]()
    before_polls(cluster, LEADER, lambda: asked.append(time.monotonic()))
    monkeypatch.setattr(observer, "POLL_OF_ONE_S", 0.15)
    run = begin(cluster)
    # Every 0.45 s, for three others, once the pauses have grown from 5 ms.
    until(lambda: sum(late - early > 0.4 for early, late in pairwise(asked)) > 3)
    end(run)
