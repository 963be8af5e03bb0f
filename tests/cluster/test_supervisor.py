"""A supervisor whose engines do only what the test says."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest

from kit.cluster.cells.cells import CellRun
from kit.cluster.cells.remote import pack
from kit.cluster.changes import TaskChange
from kit.cluster.options import ClusterOptions
from kit.cluster.processes import host_calls
from kit.cluster.processes import supervisor as supervisor_module
from kit.cluster.processes.engines import Engines
from kit.cluster.processes.forks import ForkOrders
from kit.cluster.processes.hosts import LocalHost, LocalHosts
from kit.cluster.processes.reaper import Process
from kit.cluster.processes.supervisor import Supervisor
from kit.cluster.report import ClusterState
from kit.cluster.restarting import restart
from kit.errors import CancelledError, ClusterBusy, PeerLost
from kit.task import Task
from tests.cluster.insides import in_a_loop

ONE = Task("worker", 0)
NOBODY = Process(2**22 + 1, 0)  # above the largest pid there can be
OPTIONS = ClusterOptions(
    (ONE,), threads=1, python="python", transport="unix", stop_deadline_s=0.01
)

pytestmark = pytest.mark.usefixtures("runtime")


class Silent(Engines):
    """Engines that are registered and never answer."""

    def __init__(self, options: ClusterOptions, folder: Path, processes: Any) -> None:
        self.options, self.folder, self.processes = options, folder, processes
        self.names = ["worker:0", "worker:1"]
        self.ended = asyncio.get_running_loop().create_future()
        self.is_launching, self.gate = asyncio.Event(), asyncio.Event()
        self.n_calls = 0

    async def launch(self, misses: int, config: object, **more: Any) -> None:
        try:
            self.is_launching.set()
            await asyncio.Event().wait()
        finally:
            await self.gate.wait()

    @property
    def registered(self) -> frozenset[int]:
        return frozenset({0})

    async def unregistered(self, index: int) -> None:
        while index in self.registered:
            await asyncio.sleep(0.01)

    def submit(self, index: int, payload: bytes) -> Future[bytes]:
        self.n_calls += 1
        return Future()

    async def forget(self) -> None:
        self.ended.cancel()


class SilentHost(LocalHost):
    """A host whose fork server is this test."""

    def launch(self) -> Process:
        ours, self.server = Pipe()
        self._orders = ForkOrders(ours)
        asyncio.get_running_loop().add_reader(ours, self._read, self._orders)
        return NOBODY

    def on_end(
        self, index: int, process: Process, callback: Callable[[], object]
    ) -> None:
        asyncio.get_running_loop().call_soon(callback)  # none of them runs

    def log_tail(self, index: int, name: str, n_lines: int) -> str:
        return ""


class SilentHosts(LocalHosts):
    """This host alone, as above."""

    def __init__(self, engines: Engines) -> None:
        super().__init__(engines)
        self._host = self.host = SilentHost(engines)


@contextlib.asynccontextmanager
async def ready_supervisor() -> AsyncIterator[tuple[Supervisor, Silent]]:
    supervisor = Supervisor(OPTIONS)
    supervisor.engines = engines = Silent(OPTIONS, supervisor.folder, None)
    supervisor.hosts = hosts = SilentHosts(engines)
    hosts.host.launch()
    supervisor.set_ready(ONE)
    try:
        yield supervisor, engines
    finally:
        await supervisor.stop()
        hosts.host.server.close()


def call(supervisor: Supervisor) -> asyncio.Task[Any]:
    payload = pack(int, [], {})
    return asyncio.ensure_future(supervisor.calls.perform({ONE: payload}, 60, "answer"))


async def turn() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@in_a_loop
async def test_a_start_that_is_cancelled_while_it_cleans_up_leaves_nothing(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_module, "Engines", Silent)
    supervisor = Supervisor(OPTIONS)
    start = asyncio.ensure_future(supervisor.start())
    await turn()
    engines = supervisor.engines
    assert isinstance(engines, Silent)
    assert engines.is_launching.is_set()
    assert len(list(runtime.iterdir())) == 1
    engines.ended.set_result("the controller ended with status 1")
    await turn()
    start.cancel()
    await turn()
    engines.gate.set()

    with pytest.raises(asyncio.CancelledError):
        await start
    assert list(runtime.iterdir()) == []


@in_a_loop
async def test_what_is_under_way_ends_when_the_supervisor_is_stopped() -> None:
    async with ready_supervisor() as (supervisor, engines):
        assert supervisor.reason_of_loss(ONE) == ""
        work = call(supervisor)
        await turn()
        assert engines.n_calls == 1
    async with ready_supervisor() as (another, _):
        restarting = asyncio.ensure_future(restart(another, ONE))
        await turn()
        assert another.changes.of(TaskChange.RESTART) == [ONE]

    assert restarting.cancelled()
    with pytest.raises(CancelledError, match=r"Start a new one, Cluster\(ps=0, worker"):
        await work
    # That is why a cell fails.
    assert supervisor.reason_of_loss(ONE) == "was stopped with its cluster"


@in_a_loop
async def test_news_of_the_last_process_does_not_make_the_next_one_lost() -> None:
    async with ready_supervisor() as (supervisor, _):
        supervisor.watch_engine(ONE, NOBODY)
        await turn()
        (ending,) = supervisor._endings  # it waits for the exit status
        supervisor.forget_engine(ONE)
        await ending

        assert supervisor.status[ONE].state is ClusterState.STARTING


@in_a_loop
async def test_no_call_goes_on_or_is_sent_when_its_task_is_restarted() -> None:
    async with ready_supervisor() as (supervisor, engines):
        work = call(supervisor)
        await turn()
        supervisor.forget_engine(ONE)

        again = "worker:0 is being restarted; call it again"
        with pytest.raises(PeerLost, match=again):
            await work
        with pytest.raises(PeerLost, match="is being restarted"):
            await call(supervisor)
        (failure,) = CellRun([ONE], "1", supervisor).failures
        assert failure.line == "PeerLost: worker:0 is being restarted"
        assert engines.n_calls == 1


@in_a_loop
async def test_children_of_an_engine_that_do_not_end_do_not_hold_up_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    are_ending, may_end = threading.Event(), threading.Event()

    def end(processes: object, grace_s: float) -> None:
        are_ending.set()
        assert may_end.wait(10), "the loop does not go on"

    monkeypatch.setattr(host_calls, "family_of", lambda _: {NOBODY})
    monkeypatch.setattr(host_calls, "end_all", end)

    async with ready_supervisor() as (supervisor, _):
        work = asyncio.ensure_future(supervisor.hosts.end(1, NOBODY))
        while not are_ending.is_set():
            await asyncio.sleep(0.001)
        assert not work.done()
        may_end.set()
        await work


@in_a_loop
async def test_a_task_has_one_restart_at_a_time_and_a_next_when_it_fails() -> None:
    async with ready_supervisor() as (supervisor, _):
        first = asyncio.ensure_future(restart(supervisor, ONE))
        await turn()
        with pytest.raises(ClusterBusy, match="worker:0 is being restarted already"):
            await restart(supervisor, ONE)
        assert not first.done()

        first.cancel()
        await turn()
        assert supervisor.changes.of(TaskChange.RESTART) == []
