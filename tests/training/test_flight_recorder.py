"""Tasks of a training that hangs, or has failed, tell who waits for whom."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kit
from kit.errors import DeadlineExceededError, PeerLost, StepFailed
from kit.task import Task
from kit.testing.cluster import LocalCluster, local_cluster
from kit.testing.processes import process_cluster
from kit.testing.task_process import until
from kit.trace.trace import Trace
from kit.training.client.flight_recorder import Flight, Seen, flight
from tests.cases import for_each
from tests.training.paced import begin
from tests.training.toy import BATCH, DATA, fit, initial

pytestmark = [pytest.mark.slow, pytest.mark.lasting("descriptor", "process")]


@pytest.fixture(scope="module")
def tasks() -> Iterator[LocalCluster]:
    with local_cluster(1, 3) as cluster:
        yield cluster


class Stuck:
    """A step in which the worker that first gets to the fourth one waits."""

    def __init__(self) -> None:
        self.go, self._guard = threading.Event(), threading.Lock()
        self._n_calls: dict[str, int] = {}
        self.who = ""

    def __call__(self, params: Any, batch: Any) -> Any:
        with self._guard:
            name = threading.current_thread().name.removeprefix("kit-run-")
            self._n_calls[name] = n = self._n_calls.get(name, 0) + 1
            is_first = n == 4 and not self.who
            self.who = self.who or name * is_first
        if is_first:
            assert self.go.wait(60)
        return fit(params, batch)


@pytest.mark.parametrize("topology", ["ps", "ring", "mesh"])
def test_step_that_hangs_is_named_while_it_hangs(
    tasks: LocalCluster, topology: str
) -> None:
    step = Stuck()
    run = begin(tasks, step, topology=topology)

    until(lambda: run.flight().first_cause != "")
    until(lambda: "wait (threading.py" in run.flight()[step.who].where)
    result, html = run.flight(), run.flight()._repr_html_()
    step.go.set()
    run.wait(30)

    assert result.first_cause == step.who
    row = result[step.who]
    assert (row.does, row.step, row.waits_for) == ("computing", 3, ())
    assert row.where.startswith("__call__ (test_flight_recorder.py:")
    assert row.messages
    assert row.spans
    others = {item.task: item for item in result.rows if item.does == "waiting"}
    assert any(step.who in other.waits_for for other in others.values())
    assert all(other.seconds > 0 for other in others.values())
    assert (
        f"{step.who} is the first cause: it has been computing in step 3 for "
        in str(result)
    )
    assert f"{step.who} (first cause)" in html
    assert {item.does for item in run.flight().rows} == {"over"}


def test_data_that_never_come_are_told_from_computing(tasks: LocalCluster) -> None:
    go = threading.Event()

    def batches() -> Iterator[Any]:
        for number in range(30):
            if number == 2:
                assert go.wait(60)
            yield (np.full((9, 1), number),)

    def step(params: Any, batch: Any) -> Any:
        return 0.0, {"w": params["w"] * 0}

    run = kit.train(step, {"w": np.zeros(1)}, batches, steps=5, cluster=tasks)
    until(lambda: {row.does for row in run.flight().rows} >= {"loading"})
    go.set()
    run.wait(30)


def test_task_that_failed_is_named_and_the_error_says_where_to_look(
    tasks: LocalCluster,
) -> None:
    go = threading.Event()

    def step(params: Any, batch: Any) -> Any:
        name = threading.current_thread().name
        if name == "kit-run-worker:2":
            assert go.wait(30)
            raise ValueError("no")
        return fit(params, batch)

    run = begin(tasks, step)
    until(lambda: run.flight()["ps:0"].waits_for == ("worker:2",))
    go.set()
    with pytest.raises(StepFailed) as caught:
        run.wait(30)

    result = run.flight()
    assert result.first_cause == "worker:2"
    assert result["worker:2"].does == "failed"
    assert result["ps:0"].waits_for == ("worker:2",)
    assert any("run.flight()" in note for note in caught.value.__notes__)


def test_task_that_was_killed_is_named() -> None:
    killed = Task("worker", 1)
    with process_cluster(1, 2) as cluster:
        run = kit.train(fit, initial(), DATA, steps=10**6, batch=BATCH, cluster=cluster)
        until(lambda: run.step > 3)
        cluster[killed].signal(signal.SIGKILL)
        with pytest.raises(PeerLost):
            run.wait(60)
        result = run.flight()

    assert result.first_cause == "worker:1"
    assert result["worker:1"].does == "lost"
    assert result["worker:1"].messages


def test_stop_that_takes_too_long_to_wait_for_says_where_to_look(
    tasks: LocalCluster,
) -> None:
    step = Stuck()
    run = begin(tasks, step)
    with pytest.raises(DeadlineExceededError, match=r"run\.flight\(\)"):
        run.wait(0.01)
    step.go.set()
    run.stop()
    run.wait(30)


# -- of tasks that wait for each other the first cause ---------------------------------

TASKS = ("ps:0", "worker:0", "worker:1", "worker:2")
S = 10**9
NOW = 100 * S


def seen(*doing: dict[str, Any] | str, **changes: Any) -> list[Seen]:
    """Members that do so; a text is the state of one that says nothing."""
    return [
        Seen(name, item, **changes)
        if isinstance(item, str)
        else Seen(name, "running", item, NOW, is_worker=name != "ps:0")
        for name, item in zip(TASKS, doing, strict=False)
    ]


def does(what: str, seconds: float, *members: int, step: int = 7) -> dict[str, Any]:
    since = NOW - round(seconds * S)
    return {"what": what, "since": since, "members": members, "step": step, "where": ""}


def look(members: list[Seen], **options: Any) -> Flight:
    return flight(members, Trace(TASKS), NOW, **options)


@for_each(
    ("doing", "missing", "cause"),
    [
        # A server waits for the worker that computes, the other worker for the server.
        ([("waiting", 3, 2), ("waiting", 3, 0), ("computing", 3)], [], "worker:1"),
        # A chain around a ring.
        (
            [("meeting", 9), ("waiting", 2, 3), ("loading", 4), ("waiting", 2, 2)],
            [1, 2, 3],
            "worker:1",
        ),
        # At a boundary, to which one does not come.
        ([("meeting", 3), ("meeting", 3), ("computing", 4)], [2], "worker:1"),
        # No task has waited for long.
        ([("waiting", 0.1, 2), ("waiting", 0.2, 0), ("computing", 0.2)], [], ""),
        # An idle server waits for the workers for ever.
        ([("meeting", 90), ("computing", 0.2), ("waiting", 0.1, 1)], [1, 2], ""),
        # They wait for each other.
        ([("meeting", 9), ("waiting", 3, 2), ("waiting", 3, 1)], [1, 2], ""),
    ],
)
def test_first_cause_is_waited_for_and_waits_for_nobody(
    doing: list[tuple[Any, ...]], missing: list[int], cause: str
) -> None:
    result = look(seen(*(does(*item) for item in doing)), missing=missing)

    assert result.first_cause == cause
    assert [row.task for row in result.rows if row.is_first_cause] == [cause] * bool(
        cause
    )


def test_those_who_wait_for_each_other_are_named() -> None:
    members = seen(does("meeting", 9), does("waiting", 3, 2), does("waiting", 3, 1))

    assert look(members).said.startswith("worker:0 and worker:1 wait for each other")


def test_silent_task_is_the_cause_and_the_pause_is_none() -> None:
    members = seen(does("waiting", 5, 1), does("computing", 5))
    members[1] = Seen("worker:0", "running", does("computing", 5), NOW - 5 * S)

    result = look(members)

    assert result.first_cause == "worker:0"
    assert result["worker:0"].does == "silent"
    assert "has not been heard for 5.0 s. ps:0 waits for it." in result.said
    assert look(members, is_paused=True).first_cause == ""


def test_deadline_is_traced_to_where_the_waiting_begins() -> None:
    late = DeadlineExceededError("too late", task="/job:worker/task:0")
    members = seen(does("waiting", 5, 1), does("waiting", 5, 2), does("computing", 5))

    assert look(members, error=late).first_cause == "worker:1"
    lost = PeerLost("it is gone", task="/job:worker/task:0")
    assert look(members, error=lost).first_cause == "worker:0"
