"""The coordinator is asked for the news of all members, and nobody else is."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

import kit
from kit.server import gathered_news
from kit.task import Task
from kit.testing.cluster import LocalCluster, local_cluster
from kit.training.client import observer
from kit.wire.rpc import Answer, Caller
from tests.training.paced import answer_with
from tests.training.toy import BATCH, DATA, fit, initial

LEADER, SLOW = Task("worker", 0), Task("worker", 1)
ENDLESS = 1_000_000


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with local_cluster(ps=1, worker=3) as found:
        yield found


def dialled_in(cluster: LocalCluster, patch: pytest.MonkeyPatch) -> list[Task]:
    """Return the tasks to which the notebook opens a link, as it goes on."""
    plain, found = cluster.dial, list[Task]()

    def dial(task: Task, run: str, address: str = "") -> Caller:
        found.append(task)
        return plain(task, run, address)

    patch.setattr(cluster, "dial", dial)
    return found


def slowly(params: Any, batch: Any) -> Any:
    time.sleep(0.002)
    return fit(params, batch)


def begin(cluster: LocalCluster, steps: int = ENDLESS, **more: Any) -> kit.Run:
    given: dict[str, Any] = {"steps": steps, "batch": BATCH, "cluster": cluster, **more}
    return kit.train(slowly, initial(), DATA, **given)


def wait_until(holds: Any) -> None:
    give_up = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < give_up, "it did not happen in time"
        time.sleep(0.005)


@pytest.mark.parametrize("elastic", [False, True])
def test_notebook_has_a_link_to_the_coordinator_alone(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, elastic: bool
) -> None:
    dialled = dialled_in(cluster, monkeypatch)
    run = begin(cluster, 300, elastic=elastic).wait(30)

    assert {*dialled} == {LEADER}
    assert run.lost == {}
    assert all(entry.agrees for entry in run.traffic)
    steps = run.trace.steps
    for member in run.job.workers:
        own = steps["step"][steps["task"] == member]
        assert sorted(own) == list(range(300))


def test_member_that_answers_late_delays_no_news_and_is_asked_directly(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathered_news, "_LATE_S", 0.3)
    dialled, may_answer = dialled_in(cluster, monkeypatch), threading.Event()
    server = cluster.servers[cluster.tasks.index(SLOW)]
    plain = server._handlers(LEADER)["run.poll"].answer

    def late(question: dict[str, Any], blob: bytearray) -> Answer:
        assert may_answer.wait(30)
        return plain(question, blob)

    answer_with(server, "run.poll", late)
    run = begin(cluster)
    wait_until(lambda: run.step > 20)
    assert not may_answer.is_set()
    wait_until(lambda: dialled == [LEADER, SLOW])
    reached = run.step
    wait_until(lambda: run.step > reached + 20)
    may_answer.set()
    run.stop()
    run.wait(30)

    assert dialled.count(SLOW) == 1
    assert run.lost == {}


def test_all_are_asked_directly_while_the_coordinator_is_silent(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialled, may_answer = dialled_in(cluster, monkeypatch), threading.Event()
    may_answer.set()
    server = cluster.servers[cluster.tasks.index(LEADER)]
    plain = server._handlers

    def handlers(peer: Task, link: Any = None) -> Any:
        table = plain(peer, link)
        answer = table["run.poll"].answer

        def late(question: dict[str, Any], blob: bytearray) -> Answer:
            assert may_answer.wait(30)
            return answer(question, blob)

        return {**table, "run.poll": table["run.poll"]._replace(answer=late)}

    monkeypatch.setattr(server, "_handlers", handlers)
    with kit.settings(suspect_after_s=0.6):
        run = begin(cluster)
    wait_until(lambda: run.step > 5)
    assert dialled == [LEADER]
    may_answer.clear()
    wait_until(lambda: {*dialled} == {*cluster.tasks})
    reached = run.step
    wait_until(lambda: run.step > reached + 20)
    may_answer.set()
    run.stop()
    run.wait(30)

    assert run.lost == {}


def test_many_members_are_asked_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    with local_cluster(ps=0, worker=3) as cluster:
        asked = list[float]()
        server = cluster.servers[0]
        plain = server._handlers

        def handlers(peer: Task, link: Any = None) -> Any:
            table = plain(peer, link)
            answer = table["run.poll"].answer

            def note(question: dict[str, Any], blob: bytearray) -> Answer:
                asked.append(time.monotonic())
                return answer(question, blob)

            return {**table, "run.poll": table["run.poll"]._replace(answer=note)}

        monkeypatch.setattr(server, "_handlers", handlers)
        monkeypatch.setattr(observer, "_POLL_OF_ONE_S", 0.2)
        run = begin(cluster, topology="ring")
        # Every 0.4 s, for two others, once the pauses have grown from 5 ms.
        wait_until(
            lambda: sum(late - early > 0.35 for early, late in pairwise(asked)) > 3
        )
        run.stop()
        run.wait(30)
