"""A task gets a new process at its old address, and the cluster goes on with it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import kit
from kit.cluster import Bootstrap, Cluster, ClusterState
from kit.cluster.processes.bootstrap import SERVERS
from kit.cluster.processes.hosts import LocalHosts
from kit.cluster.processes.reaper import Process
from kit.errors import (
    ClusterBusy,
    FailedPreconditionError,
    PeerLost,
    PlacementError,
    ResourceExhaustedError,
    StartFailed,
)
from kit.testing.task_process import until
from tests.cluster.insides import supervisor_of

pytestmark = [pytest.mark.engines, pytest.mark.slow]
keeps = pytest.mark.lasting("process")  # the engines that it has begun anew


def remember() -> int:
    import builtins
    import os

    vars(builtins)["kit_memory"] = 1
    return os.getpid()


def has_memory() -> bool:
    import builtins

    return "kit_memory" in vars(builtins)


def test_only_the_restarted_task_is_new_and_its_address_is_the_same(
    gone: Callable[[], None],
) -> None:
    with Cluster(ps=1, worker=2, transport="tcp") as cluster:
        before = cluster.call("all", remember)
        address = cluster.spec.task_address("worker", 1)

        cluster.restart("worker:1")

        after = cluster.call("all", os.getpid)
        is_kept = [old == new for old, new in zip(before, after, strict=True)]
        assert is_kept == cluster.call("all", has_memory) == [True, True, False]
        assert cluster.spec.task_address("worker", 1) == address
        assert cluster.state is ClusterState.READY
        assert cluster.status[2].pid == after[2]
    gone()


def gradient(params: Any, batch: object) -> tuple[float, Any]:
    return 0.0, {"w": params["w"] * 0 + 1}


def train(cluster: Cluster, *, steps: int = 10**6, **options: Any) -> kit.Run:
    data, params = (np.zeros((8, 1)),), {"w": np.zeros(1000)}
    options |= {"optimizer": kit.GradientDescent(0.5), "cluster": cluster}
    return kit.train(gradient, params, data, steps=steps, batch=8, **options)


@keeps
def test_a_task_is_restarted_again_and_again_and_the_cluster_computes_and_trains(
    cluster: Cluster,
) -> None:
    for number in (signal.SIGABRT, signal.SIGKILL):
        os.kill(cluster.call("worker:1", os.getpid), number)
        words = (
            rf"killed by signal {int(number)} .*start it again with cluster\.restart"
        )
        with pytest.raises(PeerLost, match=words):
            cluster.call("worker:1", signal.pause)
        assert cluster.state is ClusterState.LOST

        cluster.restart("worker:1")

    assert cluster.on("worker:1", "print('here')")[0].stdout == "here\n"
    with kit.Graph().as_default(), kit.device("/job:worker/task:1"):
        total = kit.constant(2.0) + 3.0
        with kit.Session(cluster) as session:
            assert session.run(total) == 5.0
    run = train(cluster, topology="ring", steps=4).wait(30)
    np.testing.assert_array_equal(run.params["w"], np.full(1000, -2.0))


@keeps
def test_a_process_that_does_not_come_up_is_no_task_and_can_be_tried_again(
    cluster: Cluster,
) -> None:
    folder, before = supervisor_of(cluster).folder, cluster.tasks
    security = folder / "ipython" / "profile" / "security"
    whole = {path: path.read_text() for path in security.glob("*engine.json")}
    for path in whole:
        path.write_text('{"url": "nowhere"}')

    with pytest.raises(StartFailed, match=r"worker:1 did not come up again"):
        cluster.restart("worker:1")
    with pytest.raises(StartFailed, match="worker:3 did not come up"):
        cluster.add("worker")

    assert cluster.status[2].state is ClusterState.LOST
    assert cluster.tasks == before
    assert cluster.on("worker:0", "1")[0].result == "1"
    for path, text in whole.items():
        path.write_text(text)
    cluster.restart("worker:1")
    assert cluster.state is ClusterState.READY


@keeps
def test_a_restart_is_refused_while_a_training_runs_and_for_strangers(
    cluster: Cluster,
) -> None:
    run = train(cluster, topology="ring")
    assert run.link == "100mbit"

    with pytest.raises(ClusterBusy, match=r"cannot restart worker:1 while a training"):
        cluster.restart("worker:1")
    with pytest.raises(PlacementError, match="worker:7"):
        cluster.restart("worker:7")

    run.stop()
    run.wait(30)
    cluster.restart("worker:1")


@keeps
def test_cells_one_after_the_other_know_their_task(cluster: Cluster) -> None:
    result = cluster.on("all", "task.short", each=True)

    assert [item.result for item in result] == [
        repr(task.short) for task in cluster.tasks
    ]
    assert asyncio.run(cluster.on_async("all", "task.short", each=True)) == result


@keeps
def test_a_cell_that_is_awaited_and_cancelled_is_interrupted(
    cluster: Cluster, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    code = f"import pathlib, time\npathlib.Path({str(begun)!r}).touch()\ntime.sleep(60)"

    async def cancelled(cluster: Cluster) -> None:
        cell = asyncio.ensure_future(cluster.on_async("worker:1", code))
        while not begun.exists():
            await asyncio.sleep(0.01)
        cell.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cell

    asyncio.run(cancelled(cluster))

    assert cluster.on("worker:1", "1", timeout_s=30)[0].result == "1"


def contributed(run: kit.Run, task: str, since: int) -> bool:
    return any(task in metric["contributors"] for metric in run.metrics[since + 1 :])


@keeps
def test_a_lost_backup_worker_is_restarted_beside_the_training_and_rejoins_it(
    cluster: Cluster,
) -> None:
    run = train(cluster, aggregate=2)
    until(lambda: run.step > 5, 20)
    with pytest.raises(ClusterBusy, match=r"cannot restart worker:2.*not lost it"):
        cluster.restart("worker:2")
    with pytest.raises(ClusterBusy, match=r"cannot restart ps:0.*needs it"):
        cluster.restart("ps:0")
    with pytest.raises(ClusterBusy, match=r"cannot restart worker:0.*needs it"):
        cluster.restart("worker:0")

    os.kill(cluster.call("worker:2", os.getpid), signal.SIGKILL)
    until(lambda: "worker:2" in run.lost, 20)
    cluster.restart("worker:2")
    until(lambda: not run.lost, 20)
    until(partial(contributed, run, "worker:2", run.step), 20)

    assert [epoch.joined for epoch in run.trace.epochs] == ["", "worker:2"]
    run.stop()
    run.wait(30)
    assert run.state == "done"
    np.testing.assert_array_equal(run.params["w"], np.full(1000, -0.5 * run.step))


@contextmanager
def goes_on(cluster: Cluster) -> Iterator[Process]:
    """Give the fork server, which goes on at the end if it was stopped."""
    server = supervisor_of(cluster).hosts.fork_server
    assert server is not None
    try:
        yield server
    finally:
        os.kill(server.pid, signal.SIGCONT)
        until(lambda: not server.is_stopped, 10)


@keeps
def test_restart_says_at_once_that_the_fork_server_is_stopped(cluster: Cluster) -> None:
    with goes_on(cluster) as server:
        before = cluster.call("all", os.getpid)
        os.kill(server.pid, signal.SIGSTOP)
        until(lambda: server.is_stopped, 10)

        with pytest.raises(FailedPreconditionError, match=f"kill -CONT {server.pid}"):
            cluster.restart("worker:1")

        assert cluster.call("all", os.getpid) == before
    cluster.restart("worker:1")
    assert cluster.state is ClusterState.READY


@keeps
def test_restart_during_which_the_fork_server_is_stopped_can_be_repeated(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = LocalHosts.fork

    async def stop_and_order(self: LocalHosts, index: int) -> Process:
        os.kill(server.pid, signal.SIGSTOP)
        until(lambda: server.is_stopped, 10)
        process: Process = await order(self, index)
        return process

    with goes_on(cluster) as server, monkeypatch.context() as patched:
        patched.setattr(LocalHosts, "fork", stop_and_order)
        with pytest.raises(StartFailed, match=f"kill -CONT {server.pid}"):
            cluster.restart("worker:1")

    cluster.restart("worker:1")

    assert cluster.state is ClusterState.READY
    assert cluster.call("worker:1", len, "abc") == 3
    until(lambda: len(forks_of(server)) == len(cluster.tasks), 10)  # not also the first


def forks_of(server: Process) -> list[psutil.Process]:
    return psutil.Process(server.pid).children()


# Loaded by every Python of a cluster. While the file is there, the system has no
# process for a fork server; each refusal is noted in it.
REFUSING = """
import errno, os, sys
fork = os.fork
def refuse():
    is_server = "kit.cluster.processes.fork_server" in sys.orig_argv
    if not is_server or not os.path.exists({file!r}):
        return fork()
    with open({file!r}, "a") as noted:
        noted.write("refused\\n")
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
os.fork = refuse
"""


@pytest.fixture
def no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that makes all forks of clusters fail as long as it exists."""
    file = tmp_path / "no-process"
    (tmp_path / "sitecustomize.py").write_text(REFUSING.format(file=str(file)))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return file


def states(cluster: Cluster) -> list[str]:
    return [str(status.state) for status in cluster.status]


def launched_by(name: str) -> kit.launchers.MPI | None:
    """As another host would be: its own fork server, with an engine for the host."""
    if name == "here":
        return None
    command = Path(sys.executable).with_name("mpiexec.hydra")
    if not command.exists():
        pytest.skip("no MPI: mpiexec.hydra not installed (pip install mpich)")
    return kit.launchers.MPI(command=[str(command)], address="127.0.0.1")


@pytest.mark.parametrize("where", ["here", "on another host"])
def test_a_process_that_the_system_refuses_is_the_error_of_that_restart_alone(
    where: str, no_process: Path, runtime: Path, bootstrap: Bootstrap
) -> None:
    launcher = launched_by(where)
    start = SERVERS if launcher else bootstrap
    made = Cluster(
        ps=0,
        worker=2,
        launcher=launcher,
        bootstrap=start,
        transport="tcp" if launcher else "auto",  # the test's folder has a long path
    )
    with made as cluster:
        before = cluster.call("worker:0", os.getpid)
        no_process.touch()

        with pytest.raises(StartFailed) as caught:
            cluster.restart("worker:1")

        assert "refused" in no_process.read_text()
        assert isinstance(caught.value.__cause__, ResourceExhaustedError)
        for words in (os.uname().nodename, "threads-max", "try again", "worker:1"):
            assert words in str(caught.value)
        assert states(cluster) == ["ready", "lost"]
        assert cluster.call("worker:0", os.getpid) == before
        no_process.unlink()
        cluster.restart("worker:1")
        assert cluster.call("worker:0", os.getpid) == before
        assert cluster.state is ClusterState.READY


def test_a_start_says_at_once_that_the_system_refuses_a_process(
    no_process: Path, runtime: Path, bootstrap: Bootstrap
) -> None:
    no_process.touch()

    with pytest.raises(StartFailed, match=r"worker:0 did not start: .* no process"):
        Cluster(ps=0, worker=1, bootstrap=bootstrap).start()

    assert "refused" in no_process.read_text()
    assert list(runtime.iterdir()) == []
