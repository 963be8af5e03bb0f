"""A stop ends everything in time, whatever is broken when it begins or breaks then."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kit.cluster import Bootstrap, Cluster, ClusterState
from kit.cluster.processes import reaper, supervisor
from kit.cluster.processes.engines import Engines
from kit.cluster.processes.forks import connection_file
from kit.cluster.processes.hosts import LocalHosts
from kit.cluster.processes.processes import ReaperHandle
from kit.cluster.processes.reaper import Process
from kit.cluster.processes.servers import Servers
from kit.errors import (
    CancelledError,
    DeadlineExceededError,
    FailedPreconditionError,
    PeerLost,
    StartFailed,
)
from kit.testing.task_process import until
from tests.cluster.insides import loop_of, supervisor_of
from tests.zygote import forking

pytestmark = [pytest.mark.engines, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
STOP_S = 10.0  # what is promised
VICTIMS = ("controller", "fork server", "reaper", "engine", "nanny")


def victim_of(cluster: Cluster, name: str) -> Process:
    mine = supervisor_of(cluster)
    engine = mine.engine_of[cluster.tasks[-1]]
    (nanny,) = reaper.descendants([engine]) - {engine}
    result = {
        "controller": mine.engines.controller,
        "fork server": mine.hosts.fork_server,
        "reaper": reaper.find(mine.reaper.pid),
        "engine": engine,
        "nanny": nanny,
    }[name]
    assert result is not None
    return result


def hit(victim: Process, number: signal.Signals) -> None:
    """Send the signal and wait until it has taken effect."""
    assert reaper.send(victim, number)
    expected = "T" if number == signal.SIGSTOP else "Z"
    until(lambda: state_of(victim) == expected)


def state_of(process: Process) -> str:
    """Return the letter of /proc for it, Z for one that is gone."""
    if process.is_stopped:
        return "T"
    return "S" if process.is_running else "Z"


def stop_in_time(cluster: Cluster) -> None:
    begin = time.monotonic()
    cluster.stop()
    took_s = time.monotonic() - begin
    cluster.stop()

    assert took_s < STOP_S
    assert cluster.state is ClusterState.STOPPED
    assert {status.state for status in cluster.status} == {ClusterState.STOPPED}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("name", VICTIMS)
def test_a_stop_leaves_nothing_when_a_process_was_hit_before(
    bootstrap: Bootstrap,
    gone: Callable[[], None],
    capfd: pytest.CaptureFixture[str],
    name: str,
    number: signal.Signals,
) -> None:
    cluster = Cluster(ps=0, worker=2, stop_deadline_s=0.5, bootstrap=bootstrap).start()

    hit(victim_of(cluster, name), number)
    stop_in_time(cluster)

    gone()
    assert capfd.readouterr() == ("", "")


SERVERS_END, REST_ENDS = (Servers, "stop"), (ReaperHandle, "end")


@pytest.mark.parametrize(
    ("name", "moment", "number"),
    [
        ("controller", SERVERS_END, signal.SIGKILL),
        ("fork server", REST_ENDS, signal.SIGSTOP),
        ("reaper", SERVERS_END, signal.SIGSTOP),
        ("engine", REST_ENDS, signal.SIGKILL),
    ],
)
def test_a_stop_leaves_nothing_when_a_process_is_hit_meanwhile(
    bootstrap: Bootstrap,
    gone: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    moment: tuple[type, str],
    number: signal.Signals,
) -> None:
    real, victims = getattr(*moment), list[Process]()

    def hit_first(*args: object) -> object:
        while victims:
            hit(victims.pop(), number)
        return real(*args)

    monkeypatch.setattr(*moment, hit_first)
    monkeypatch.setattr(supervisor, "GRACE_S", 0.3)
    cluster = Cluster(ps=0, worker=2, stop_deadline_s=0.5, bootstrap=bootstrap).start()
    victims.append(victim_of(cluster, name))

    stop_in_time(cluster)

    assert victims == []
    gone()


def test_without_its_fork_server_a_cluster_works_and_says_what_it_cannot(
    bootstrap: Bootstrap, gone: Callable[[], None]
) -> None:
    with Cluster(ps=0, worker=2, bootstrap=bootstrap) as cluster:
        before = cluster.call("all", os.getpid)
        hit(victim_of(cluster, "fork server"), signal.SIGKILL)
        until(lambda: cluster.state is ClusterState.LOST)

        assert "lost: fork server" in repr(cluster)
        assert "fork server" in str(cluster.status[0])
        with pytest.raises(FailedPreconditionError, match=r"fork server .*\.stop\(\)"):
            cluster.restart("worker:1")
        assert cluster.call("all", os.getpid) == before

        hit(victim_of(cluster, "engine"), signal.SIGKILL)
        until(lambda: cluster.status[1].state is ClusterState.LOST)
        with pytest.raises(PeerLost):
            cluster.call("worker:1", os.getpid)
        with pytest.raises(FailedPreconditionError, match="fork server"):
            cluster.restart("worker:1")

        folder = cluster.log_path("worker:1").parents[1]
        while folder.exists():  # tasks may write to it meanwhile
            shutil.rmtree(folder, ignore_errors=True)
        with pytest.raises(FailedPreconditionError, match=r"folder .* was removed"):
            cluster.restart("worker:1")
    gone()


def test_a_start_whose_fork_server_is_killed_leaves_no_engine(
    gone: Callable[[], None],
    seen: set[Process],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forked: set[Process] = set()

    async def kill_it(self: LocalHosts) -> dict[int, Process]:
        result = await real(self)
        assert self.fork_server is not None
        hit(self.fork_server, signal.SIGKILL)
        forked.update(result.values())
        return result

    real = LocalHosts.processes
    monkeypatch.setattr(LocalHosts, "processes", kill_it)

    with pytest.raises(StartFailed):
        Cluster(ps=0, worker=8).start()

    assert forked
    seen |= forked
    gone()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_start_without_a_controller_can_be_given_up(
    gone: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
) -> None:
    is_hit = threading.Event()
    real = Engines.connect

    async def hit_it(self: Engines) -> None:
        until(connection_file(self.folder, "client").exists)
        hit(self.controller, number)
        is_hit.set()
        await real(self)

    monkeypatch.setattr(Engines, "connect", hit_it)
    cluster = Cluster(ps=0, worker=2)
    failures: list[BaseException] = []

    def start() -> None:
        try:
            cluster.start()
        except (StartFailed, CancelledError) as error:
            failures.append(error)

    starter = threading.Thread(target=start)
    starter.start()
    assert is_hit.wait(60)
    begin = time.monotonic()
    cluster.stop()

    assert time.monotonic() - begin < STOP_S
    starter.join(STOP_S)
    assert len(failures) == 1
    assert cluster.state is ClusterState.STOPPED
    gone()


def test_a_loop_that_hangs_does_not_hold_up_the_stop(
    bootstrap: Bootstrap, gone: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "GRACE_S", 0.0)
    monkeypatch.setattr(supervisor, "LAST_S", 0.0)
    cluster = Cluster(ps=0, worker=1, stop_deadline_s=0.1, bootstrap=bootstrap).start()
    is_hanging, is_over = threading.Event(), threading.Event()

    async def hang() -> None:
        is_hanging.set()
        is_over.wait(60)

    loop_of(cluster).submit(hang())
    assert is_hanging.wait(10)
    begin = time.monotonic()
    cluster.stop()

    assert time.monotonic() - begin < STOP_S
    assert not is_over.is_set()
    assert cluster.state is ClusterState.STOPPED
    gone()
    is_over.set()


def test_a_stop_that_could_not_end_a_process_says_so_until_it_has_ended(
    bootstrap: Bootstrap, gone: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(ps=0, worker=1, bootstrap=bootstrap).start()
    pids = {str(process.pid) for process in cluster.processes}
    with monkeypatch.context() as fault:
        fault.setattr(ReaperHandle, "end", lambda *_: False)
        with pytest.raises(DeadlineExceededError, match="not ended") as caught:
            cluster.stop()

    cluster.stop()

    assert pids == set(re.findall(r"\d+(?=[,.])", str(caught.value).split("-p ")[1]))
    gone()


# Each fault is one of the notebook's process, so it has one of its own. What it prints
# before the fault is who belongs to the cluster.
NOTEBOOK = """
import json, os, resource, shutil, signal, sys, threading, _posixsubprocess, _thread
from kit.cluster import Bootstrap, Cluster, ClusterState

def boot():
    def start(config):
        return {"address": "unix:/x"}
    return Bootstrap(start, lambda spec: None, lambda: None)

def nothing():
    pass

def no_controller():
    os.kill(cluster.controller_pid, signal.SIGKILL)
    while cluster.state is not ClusterState.LOST:
        pass

def no_descriptor():
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    try:
        while True:
            kept.append(os.dup(0))
    except OSError:
        pass

def no_process():
    def refuse(*_, **__):
        raise RuntimeError("can't start new thread")
    threading._start_new_thread = _thread.start_new_thread = refuse
    os.fork = _posixsubprocess.fork_exec = refuse
    try:
        threading.Thread(target=print).start()
    except RuntimeError:
        kept.append("refused")

def no_memory():
    taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken, taken))
    size = 1 << 24
    while size > 64:
        try:
            kept.append(bytearray(size))
        except MemoryError:
            size //= 2

def no_folder():
    shutil.rmtree(cluster._life.supervisor.folder)
    kept.append("removed")

kept = []
cluster = Cluster(ps=0, worker=2, bootstrap=boot()).start()
print(json.dumps(sorted(cluster.processes)), flush=True)
globals()[sys.argv[1]]()
"""
STOP = """
cluster.stop()
cluster.stop()
is_hit = bool(kept) or sys.argv[1] == "no_controller"
kept.clear()
print(cluster.state, is_hit, flush=True)
"""


@pytest.mark.parametrize(
    ("fault", "end"),
    [
        *(("no_descriptor", STOP), ("no_process", STOP)),
        *(("no_memory", STOP), ("no_folder", STOP)),
        *(("nothing", ""), ("no_controller", "")),
        *(("no_descriptor", ""), ("no_process", "")),
    ],
)
def test_a_notebook_in_need_leaves_nothing(
    seen: set[Process], gone: Callable[[], None], fault: str, end: str
) -> None:
    with forking():
        notebook = subprocess.Popen(
            [sys.executable, "-c", NOTEBOOK + end, fault],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
    with notebook:
        assert notebook.stdout is not None
        seen |= {Process(*load) for load in json.loads(notebook.stdout.readline())}
        begin = time.monotonic()
        words, complaints = notebook.communicate(timeout=60)

    assert time.monotonic() - begin < 3 * STOP_S  # with the end of the interpreter
    assert complaints == b""
    assert words == (b"stopped True\n" if end else b"")
    assert notebook.returncode == 0
    assert len(seen) >= 7
    gone()


START_IN_NEED = """
import os, resource, sys
from kit.cluster import Cluster
from kit.errors import ResourceExhaustedError

kept = [os.dup(0) for _ in range(400)]
resource.setrlimit(resource.RLIMIT_NOFILE, (kept[-1] + 1, kept[-1] + 1))
for fd in kept[:int(sys.argv[1])]:
    os.close(fd)
try:
    Cluster(ps=0, worker=1).start()
except ResourceExhaustedError as error:
    print(error)
"""


# Not for a process; one for which ZeroMQ aborts; for which engines never register; for
# which the client's thread does not begin; nearly enough.
@pytest.mark.parametrize("left", [6, 12, 14, 24, 40])
def test_a_start_without_descriptors_is_an_error_of_that_start(
    left: int, runtime: Path
) -> None:
    with forking():
        done = subprocess.run(
            [sys.executable, "-c", START_IN_NEED, str(left)],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
        )

    assert done.stderr == ""
    assert done.returncode == 0
    assert "are open already (ulimit -Hn). Close some" in done.stdout
    assert list(runtime.iterdir()) == []
