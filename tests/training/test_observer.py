"""What an observer hears, of whom and how, and what becomes of its requests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest

import kit
from kit.errors import (
    FailedPreconditionError,
    InternalError,
    KitError,
    PeerLost,
    StepFailed,
    UnavailableError,
    UnknownError,
)
from kit.server import watchers
from kit.server.trainings import Trainings
from kit.task import Task
from kit.testing.cluster import LocalCluster, local_cluster
from kit.testing.task_process import until
from kit.training.client import ending, observer
from kit.training.client.observer import Observer
from kit.wire.link import Link
from kit.wire.rpc import Answer, Caller
from tests.training import paced, toy
from tests.training.paced import Answerer, Held, answer_with, change_answer
from tests.training.toy import Params, begin, fit, quick_cluster

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


# -- news of all members ---------------------------------------------------------------

LEADER, OTHER = Task("worker", 0), Task("worker", 1)
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


def begin_slowly(cluster: LocalCluster, steps: int = ENDLESS, **more: Any) -> kit.Run:
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
    run = begin_slowly(cluster, 300, elastic=elastic).wait(30)

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
    run = begin_slowly(cluster, 300).wait(30)

    assert max(lines) == 1
    assert {*dialled} == {LEADER}
    assert_all_steps_are_known(run, 300)


def test_member_that_answers_late_delays_no_news_and_is_asked_directly(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchers, "LATE_S", 0.3)
    dialled, may_answer = dialled_in(cluster, monkeypatch), threading.Event()
    before_polls(cluster, OTHER, lambda: may_answer.wait(30))
    run = begin_slowly(cluster)
    go_on(run)
    until(lambda: OTHER in dialled)
    go_on(run)
    may_answer.set()
    end(run)

    assert dialled.count(OTHER) == 1


def test_all_are_asked_directly_while_the_coordinator_is_silent(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialled, may_answer = dialled_in(cluster, monkeypatch), threading.Event()
    before_polls(cluster, LEADER, lambda: may_answer.wait(30))
    with kit.settings(suspect_after_s=0.6):
        run = begin_slowly(cluster)
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
    run = begin_slowly(cluster)
    # Every 0.45 s, for three others, once the pauses have grown from 5 ms.
    until(lambda: sum(late - early > 0.4 for early, late in pairwise(asked)) > 3)
    end(run)


# -- requests --------------------------------------------------------------------------


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return what makes the next answer that this thread waits for a Ctrl-C instead."""
    plain: Callable[..., Any] = Link.recv_message
    armed, me = threading.Event(), threading.get_ident()

    def recv_message(self: Link, *, deadline_s: float) -> Any:
        if armed.is_set() and threading.get_ident() == me:
            armed.clear()
            raise KeyboardInterrupt
        return plain(self, deadline_s=deadline_s)

    monkeypatch.setattr(Link, "recv_message", recv_message)
    return armed.set


@contextmanager
def held(cluster: LocalCluster) -> Iterator[kit.Run]:
    """Give a training that stands in its first step; it is stopped at the end."""
    step = Held()
    run = paced.begin(cluster, step, steps=MANY)
    try:
        assert step.reached.wait(10)
        yield run
    finally:
        step.go.set()
        run.stop()
        run.wait(10)


def test_request_after_an_interrupted_one_is_taken(
    cluster: LocalCluster, interrupt: Callable[[], None]
) -> None:
    with held(cluster) as run:
        interrupt()
        with pytest.raises(KeyboardInterrupt):
            run.pause()
        until(lambda: run.halting == "pausing")

        run.resume()

        assert run.halting == ""


def test_ctrl_c_pauses_after_one_whose_pause_was_interrupted(
    cluster: LocalCluster,
    interrupt: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ctrl_c(_: float | None) -> None:
        raise KeyboardInterrupt

    with held(cluster) as run:
        with monkeypatch.context() as patch:
            patch.setattr(run.source, "wait", ctrl_c)
            interrupt()
            with pytest.raises(KeyboardInterrupt):
                run.wait()
            run.resume()

            with pytest.raises(KeyboardInterrupt):
                run.wait()

        assert run.halting == "pausing"


@pytest.mark.usefixtures("patient")
def test_refused_request_leaves_the_link_to_the_others(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialled = dialled_in(cluster, monkeypatch)
    with held(cluster) as run:
        run.pause()
        until(lambda: len(dialled) == 2)  # for its news, and for requests

        with pytest.raises(kit.errors.InvalidArgumentError):
            run.topology = "star"
        run.resume()

        assert len(dialled) == 2


def test_request_while_the_link_is_being_closed_hears_that_it_is_over(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[KitError] = []
    wishing: set[Caller] = set()
    plain_ask: Callable[..., Any] = Caller.ask
    plain_close: Callable[..., None] = Caller.close

    def ask(self: Caller, op: str, *args: Any, **more: Any) -> Any:
        if op == "run.command":
            wishing.add(self)
        return plain_ask(self, op, *args, **more)

    def close(self: Caller) -> None:
        plain_close(self)
        if self in wishing and not heard:
            try:
                run.pause()
            except KitError as error:
                heard.append(error)

    monkeypatch.setattr(Caller, "ask", ask)
    monkeypatch.setattr(Caller, "close", close)

    with held(cluster) as run:
        run.pause()
        run.resume()
    until(lambda: bool(heard))

    assert isinstance(heard[0], FailedPreconditionError)


def test_request_that_waits_for_its_answer_at_the_end_hears_that_it_is_over(
    cluster: LocalCluster,
) -> None:
    asked, go, step = threading.Event(), threading.Event(), Held()
    server = cluster.servers[1]

    def slow(_: dict[str, Any], __: bytearray) -> Answer:
        asked.set()
        assert go.wait(20)
        return {}, b""

    answer_with(server, "run.command", slow)
    run = paced.begin(cluster, step, steps=1)
    with ThreadPoolExecutor(1) as pool:
        request = pool.submit(run.pause)
        assert asked.wait(10)
        step.go.set()
        run.wait(10)

        error = request.exception(10)

        go.set()
    assert isinstance(error, FailedPreconditionError)
