"""A step that never returns ends, and its task can be used for the next training."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kit
from kit.errors import (
    AbortedError,
    ClusterBusy,
    DeadlineExceededError,
    PeerLost,
    StepFailed,
)
from kit.testing.cluster import LocalCluster, local_cluster
from kit.testing.task_process import until
from tests.training.toy import Params, begin, fit, quick_cluster, replayed, same_bits

Function = Callable[..., Any]


def endless(params: Any, batch: Any) -> Any:
    while True:
        time.sleep(0.01)  # as a loop of the user's that polls for something


class Locked:
    """A step that waits in C, where no exception gets to it, until it is let go."""

    def __init__(self, at: int = 0) -> None:
        self._go, self._at, self._n = threading.Event(), at, 0

    def __call__(self, params: Any, batch: Any) -> Any:
        self._n += 1
        if self._n > self._at:
            self._go.wait()
        return fit(params, batch)

    def let_go(self) -> None:
        self._go.set()


@pytest.fixture
def tasks() -> Iterator[LocalCluster]:
    with local_cluster(1, 2) as cluster:
        yield cluster


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [
        {"topology": "ps"},
        {"topology": "ring"},
        {"topology": "mesh"},
        {"topology": "ps", "sync": False},
    ],
)
def test_deadline_ends_a_step_that_never_returns_on_any_worker(
    tasks: LocalCluster, how: dict[str, Any]
) -> None:
    with kit.settings(step_deadline_s=1):
        run = begin(tasks, endless, **how)

    with pytest.raises(DeadlineExceededError, match="step_deadline_s"):
        run.wait(20)

    assert "endless (test_endless_step.py:" in run.flight().said
    begin(tasks, fit, **how).wait(20)  # no task is still in the endless step


@pytest.mark.slow
def test_the_error_and_the_flight_name_step_and_line(tasks: LocalCluster) -> None:
    with kit.settings(step_deadline_s=1):
        run = begin(tasks, endless, topology="ring")
    until(lambda: "endless (test_endless_step.py:" in run.flight().said)
    during = run.flight().said

    with pytest.raises(DeadlineExceededError) as caught:
        run.wait(20)

    assert "has been computing in step 0" in during
    assert "endless (test_endless_step.py:" in str(caught.value)
    assert "endless (test_endless_step.py:" in run.flight().said


@pytest.mark.slow
def test_stop_ends_a_training_within_a_step(tasks: LocalCluster) -> None:
    step = Locked(at=4)  # both workers count: it is the third step of one at least
    run = begin(tasks, step, topology="ring", steps=50)
    until(lambda: "(test_endless_step.py:" in run.flight().said)

    run.stop()
    with pytest.raises(AbortedError, match=r"run\.stop\(\) has ended the training"):
        run.wait(10)

    assert same_bits(run.params, replayed(run.step, 2, kit.GradientDescent()))
    step.let_go()


@pytest.mark.slow
def test_task_that_does_not_come_back_says_so_to_the_next_training(
    tasks: LocalCluster,
) -> None:
    step = Locked()
    with kit.settings(step_deadline_s=1, stop_deadline_s=2):
        run = begin(tasks, step, topology="ring")
    with pytest.raises(DeadlineExceededError) as caught:
        run.wait(20)

    with pytest.raises(ClusterBusy, match=r"cluster\.restart\('worker:"):
        begin(tasks, fit)

    assert any("goes on although" in note for note in caught.value.__notes__)
    step.let_go()
    until(
        lambda: all(
            server.trainings.find(run.job.run).is_over for server in tasks.servers
        )
    )
    begin(tasks, fit).wait(20)  # it has come back in the end


@pytest.mark.slow
def test_a_slow_step_is_left_to_its_end_when_another_worker_fails(
    tasks: LocalCluster,
) -> None:
    slow = Locked()

    def step(params: Any, batch: Any) -> Any:
        if threading.current_thread().name.endswith("worker:1"):
            raise ZeroDivisionError
        return slow(params, batch)

    with kit.settings(stop_deadline_s=1):
        run = begin(tasks, step)
    until(lambda: tasks.servers[1].trainings.find(run.job.run).error is not None)
    threading.Timer(1.5, slow.let_go).start()
    with pytest.raises(StepFailed):
        run.wait(20)

    assert run.error is not None
    assert not any("restarted" in note for note in run.error.__notes__)


@pytest.mark.slow
def test_backup_workers_do_without_the_one_whose_step_never_returns() -> None:
    step, pause = Locked(), threading.Event()

    def one_is_endless(params: Any, batch: Any) -> Any:
        if threading.current_thread().name.endswith("worker:2"):
            return step(params, batch)
        pause.wait(0.01)
        return fit(params, batch)

    with local_cluster(1, 3) as cluster:
        with kit.settings(step_deadline_s=1, stop_deadline_s=2):
            run = begin(cluster, one_is_endless, aggregate=2, steps=400)
        until(lambda: "worker:2" in run.lost or run.done)

        assert "has not come to its end" in str(run.lost)
        step.let_go()
        run.wait(20)


# -- ended from outside ----------------------------------------------------------------

ALONE: list[dict[str, Any]] = [
    {"topology": "ring"},
    {"topology": "ps", "sync": False},
    {"topology": "ps", "aggregate": 1},
]


@pytest.mark.slow
@pytest.mark.parametrize("how", ALONE, ids=["ring", "asynchronous", "first-of-one"])
def test_worker_that_waits_for_nobody_ends_before_its_next_step(
    how: dict[str, Any],
) -> None:
    n_calls, has_run = 0, threading.Event()

    def step(params: Params, batch: Any) -> Any:
        nonlocal n_calls
        n_calls += 1
        if n_calls == 5:
            has_run.wait(20)  # the steps may be ahead of the call that begins them
            member = cluster.servers[-1].trainings.find(run.job.run)
            member.abort(ClusterBusy("another training should begin here."))
        return fit(params, batch)

    with quick_cluster(int(how["topology"] == "ps"), 1) as cluster:
        run = begin(cluster, step, steps=100_000, **how)
        has_run.set()
        with pytest.raises(ClusterBusy, match="another training"):
            run.wait(20)

    assert n_calls == 5


def test_what_ends_the_coordinators_member_from_outside_is_not_said_to_the_others() -> (
    None
):
    has_run = threading.Event()

    def step(params: Params, batch: Any) -> Any:
        has_run.wait(20)
        member = cluster.servers[0].trainings.find(run.job.run)
        member.abort(ClusterBusy("its task was stopped."))
        return fit(params, batch)

    with quick_cluster(0, 1) as cluster:
        run = begin(cluster, step, steps=9, topology="ring")
        has_run.set()
        with pytest.raises(ClusterBusy, match="was stopped"):
            run.wait(20)
        coordinator = cluster.servers[0].trainings.find(run.job.run).coordinator
        assert coordinator is not None
        assert coordinator.error is None


def shared_memory() -> list[str]:
    """Return the arenas that this process holds."""
    gc.collect()
    targets = [os.readlink(entry.path) for entry in os.scandir("/proc/self/fd")]  # noqa: PTH115
    return [target for target in targets if target.startswith("/memfd:kit-kit-")]


def test_report_of_a_loss_that_was_not_the_cause_holds_no_memory() -> None:
    has_run = threading.Event()

    def step(params: Params, batch: Any) -> Any:
        has_run.wait(20)
        try:
            raise PeerLost("it is gone.", task="/job:worker/task:1")
        except PeerLost as error:  # its frames know the parameters
            member = cluster.servers[0].trainings.find(run.job.run)
            assert member.coordinator is not None
            member.coordinator.fail(error, by=0)
        raise ValueError("the cause")

    with quick_cluster(0, 2) as cluster:
        run = begin(cluster, step, steps=9, topology="ring")
        has_run.set()
        with pytest.raises(StepFailed, match="ValueError: the cause"):
            run.wait(20)

    assert cluster.servers[0].trainings.find(run.job.run).is_over
    assert shared_memory() == []
