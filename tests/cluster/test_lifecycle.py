"""A cluster's end, for all who wait for it, with a supervisor that obeys."""

from __future__ import annotations

import asyncio
import threading
import time
from asyncio import run
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kit.cluster import Cluster, ClusterState, current, lifecycle, polling
from kit.cluster.options import ClusterOptions
from kit.cluster.report import TaskStatus
from kit.errors import (
    CancelledError,
    DeadlineExceededError,
    FailedPreconditionError,
    StartFailed,
)
from kit.task import Task
from kit.testing.task_process import until
from tests.cluster.insides import loop_of, supervisor_of


class FakeSupervisor:
    """Starts at once, and stops when it is let through."""

    gate: threading.Event
    stop_s = 10.0
    has_ended = True
    engines = None
    hosts = SimpleNamespace(threads=1)
    controller_lost = ""
    lost: tuple[str, ...] = ()

    def __init__(self, options: ClusterOptions) -> None:
        self.status: dict[Task, TaskStatus] = {}

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        while not self.gate.is_set():
            await asyncio.sleep(0.001)

    def end(self, grace_s: float) -> None:
        self.ended_in = threading.current_thread()

    def check_ended(self) -> None:
        pass


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """What a stop waits for."""
    gate = threading.Event()
    monkeypatch.setattr(FakeSupervisor, "gate", gate, raising=False)
    monkeypatch.setattr(lifecycle, "Supervisor", FakeSupervisor)
    yield gate
    gate.set()


@pytest.fixture
def cluster(gate: threading.Event) -> Cluster:
    """Return one that runs and whose stop has to be let through."""
    return Cluster(ps=0, worker=1).start()


def interrupted(pause_s: float) -> None:
    raise KeyboardInterrupt


def test_a_stop_whose_waiter_is_interrupted_is_a_stop_all_the_same(
    cluster: Cluster, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(polling, "time", SimpleNamespace(sleep=interrupted))
        with pytest.raises(KeyboardInterrupt):
            cluster.stop()
    gate.set()
    cluster.stop()

    assert cluster.state is ClusterState.STOPPED
    with pytest.raises(FailedPreconditionError, match="no cluster is running"):
        current()


def test_who_waits_for_a_stop_that_hangs_carries_it_out(cluster: Cluster) -> None:
    supervisor: Any = supervisor_of(cluster)
    assert isinstance(supervisor, FakeSupervisor)
    supervisor.stop_s = 0.01

    cluster.stop()

    assert supervisor.ended_in is threading.current_thread()
    assert cluster.state is ClusterState.STOPPED


def test_a_stop_that_nobody_waits_for_any_more_ends_the_thread_of_the_loop(
    cluster: Cluster, gate: threading.Event
) -> None:
    async def cell() -> None:
        stop = asyncio.ensure_future(cluster.stop_async())
        while cluster.state is not ClusterState.STOPPING:
            await asyncio.sleep(0.001)
        stop.cancel()
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await stop

    asyncio.run(cell())

    until(lambda: all(t.name != "kit-cluster-loop" for t in threading.enumerate()), 5)
    assert cluster.state is ClusterState.STOPPED


def test_a_second_stop_waits_for_the_first(
    cluster: Cluster, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[threading.Thread] = []
    has_begun = threading.Event()

    def counted(pause_s: float) -> None:
        if threading.current_thread() not in waiting:
            waiting.append(threading.current_thread())
        has_begun.set()
        if len(waiting) == 2:
            gate.set()
        time.sleep(pause_s)

    monkeypatch.setattr(polling, "time", SimpleNamespace(sleep=counted))
    first = threading.Thread(target=cluster.stop)
    first.start()
    assert has_begun.wait(5)

    cluster.stop()

    assert cluster.state is ClusterState.STOPPED
    assert waiting == [first, threading.current_thread()]
    first.join(5)


def test_a_start_that_fails_is_over_although_its_waiter_is_interrupted(
    gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(supervisor: FakeSupervisor) -> None:
        while not gate.is_set():
            await asyncio.sleep(0.001)
        raise OSError("no process can be started")

    cluster = Cluster(ps=0, worker=1)
    monkeypatch.setattr(FakeSupervisor, "start", fail)
    with monkeypatch.context() as patch:
        patch.setattr(polling, "time", SimpleNamespace(sleep=interrupted))
        with pytest.raises(KeyboardInterrupt):
            cluster.start()
    gate.set()
    cluster.stop()

    assert cluster.state is ClusterState.STOPPED


def test_work_under_way_when_the_cluster_is_stopped_ends(
    cluster: Cluster, gate: threading.Event
) -> None:
    work = loop_of(cluster).submit(asyncio.Event().wait())
    gate.set()

    cluster.stop()

    with pytest.raises(CancelledError, match="the cluster was stopped"):
        work.result(5)


class Stubborn(FakeSupervisor):
    """Does not start, or only sometimes, and never ends."""

    has_started = False

    async def start(self) -> None:
        if not self.has_started:
            raise StartFailed("the first error")

    def check_ended(self) -> None:
        raise DeadlineExceededError("some processes have not ended")


def test_error_of_a_stop_does_not_hide_the_one_that_led_to_it(
    gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate.set()
    monkeypatch.setattr(lifecycle, "Supervisor", Stubborn)

    async def awaited(is_entered: bool) -> None:
        if is_entered:
            async with Cluster(ps=0, worker=1):
                raise ValueError("the first error")
        await Cluster(ps=0, worker=1).start_async()

    def entered() -> None:
        with Cluster(ps=0, worker=1):
            raise ValueError("the first error")

    def polled() -> None:
        list(Cluster(ps=0, worker=1).begin_start())

    for begins in Cluster(ps=0, worker=1).start, polled, lambda: run(awaited(False)):
        with pytest.raises(StartFailed, match="the first error") as raised:
            begins()
        assert "have not ended" in raised.value.__notes__[0]
    monkeypatch.setattr(Stubborn, "has_started", True)
    for ends in entered, lambda: run(awaited(True)):
        with pytest.raises(ValueError, match="the first error") as failed:
            ends()
        assert "have not ended" in failed.value.__notes__[0]


def test_a_start_beside_a_cluster_that_runs_says_how_to_use_or_end_that_one(
    cluster: Cluster, gate: threading.Event
) -> None:
    gate.set()

    with pytest.warns(UserWarning, match=r"worker=1.*cluster = kit.current_cluster"):
        again = Cluster(ps=0, worker=1).start()

    current().stop()
    assert again.state is ClusterState.STOPPED
    current().stop()
    assert cluster.state is ClusterState.STOPPED


def test_a_start_beside_a_cluster_that_a_with_will_end_warns_of_nothing(
    gate: threading.Event,
) -> None:
    gate.set()

    with Cluster(ps=0, worker=1), Cluster(ps=0, worker=1):
        Cluster(ps=0, worker=1).start().stop()
