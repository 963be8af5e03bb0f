"""Whatever happens to a cluster, nothing of it is left."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kit.cluster import Bootstrap, Cluster, ClusterState
from kit.cluster.processes import reaper
from kit.cluster.processes.reaper import Process
from kit.errors import ControllerLost, PeerLost
from kit.testing.task_process import until
from tests.zygote import forking

pytestmark = [pytest.mark.engines, pytest.mark.slow]

ROOT = Path(__file__).parents[2]


def detach() -> int:
    """Start a process that has no parent; return its number."""
    sleeper = "import signal; signal.pause()"
    code = (
        "import subprocess, sys; null = subprocess.DEVNULL; print(subprocess.Popen("
        f"[sys.executable, '-c', {sleeper!r}], stdout=null, stderr=null).pid)"
    )
    command = [sys.executable, "-c", code]
    return int(subprocess.run(command, capture_output=True, check=True).stdout)


def test_a_stop_leaves_nothing_not_even_of_what_tasks_have_started_and_prints_nothing(
    bootstrap: Bootstrap,
    runtime: Path,
    seen: set[Process],
    gone: Callable[[], None],
    capfd: pytest.CaptureFixture[str],
) -> None:
    cluster = Cluster(ps=0, worker=2, bootstrap=bootstrap).start()
    # Controller, its heart beat, fork server, engines, nannies.
    assert len([process for process in seen if process.is_running]) >= 7
    assert len(list(runtime.iterdir())) == 1
    orphan = reaper.find(cluster.call("worker:0", detach))
    assert orphan is not None

    cluster.stop()
    cluster.stop()

    assert not orphan.is_running
    assert cluster.state is ClusterState.STOPPED
    gone()
    assert capfd.readouterr() == ("", "")


def test_a_lost_task_and_a_lost_controller_are_known_at_once_with_the_reason(
    bootstrap: Bootstrap, gone: Callable[[], None]
) -> None:
    with Cluster(ps=0, worker=2, bootstrap=bootstrap) as cluster:
        pid = cluster.call("worker:1", os.getpid)
        threading.Timer(0.2, os.kill, (pid, signal.SIGKILL)).start()

        with pytest.raises(PeerLost, match="signal 9") as caught:
            cluster.call("all", signal.pause)  # for ever

        assert caught.value.task == "/job:worker/task:1"
        assert cluster.state is ClusterState.LOST
        assert "out of memory" in cluster.status[1].reason
        assert "worker:1" in repr(cluster)

        controller = cluster.controller_pid
        threading.Timer(0.2, os.kill, (controller, signal.SIGKILL)).start()
        begin = time.monotonic()

        with pytest.raises(ControllerLost, match="start a new one"):
            cluster.call("worker:0", signal.pause)
        with pytest.raises(ControllerLost):
            cluster.view("worker:0")

        assert time.monotonic() - begin < 5
        assert cluster.state is ClusterState.LOST
    gone()


def test_start_and_stop_do_not_block_a_running_loop(
    bootstrap: Bootstrap, seen: set[Process], gone: Callable[[], None]
) -> None:
    async def cell() -> tuple[int, float, float]:
        longest, begun = 0.0, time.monotonic()

        async def tick() -> None:
            nonlocal longest
            while True:
                begin = time.monotonic()
                await asyncio.sleep(0.01)
                longest = max(longest, time.monotonic() - begin)

        ticker = asyncio.ensure_future(tick())
        async with Cluster(ps=0, worker=1, bootstrap=bootstrap) as cluster:
            pid: int = await cluster.call_async("worker:0", os.getpid)
        ticker.cancel()
        return pid, longest, time.monotonic() - begun

    pid, longest, whole = asyncio.run(cell())

    assert pid in {process.pid for process in seen}
    assert longest < 0.4 * whole  # it takes two seconds and more
    gone()


KERNEL = """
import json, signal
from kit.cluster import Bootstrap, Cluster

def boot():
    def start(config):
        return {"address": "unix:/x"}
    return Bootstrap(start, lambda spec: None, lambda: None)

cluster = Cluster(ps=0, worker=2, lease_s=1.0, bootstrap=boot()).start()
print(json.dumps(sorted(cluster.processes)), flush=True)
signal.pause()
"""


def test_a_killed_kernel_takes_everything_with_it_after_the_lease(
    runtime: Path, seen: set[Process], gone: Callable[[], None]
) -> None:
    with forking():
        kernel = subprocess.Popen(
            [sys.executable, "-c", KERNEL],
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
    with kernel:
        assert kernel.stdout is not None
        seen |= {Process(*plain) for plain in json.loads(kernel.stdout.readline())}
        assert len([process for process in seen if process.is_running]) >= 7
        assert len(list(runtime.iterdir())) == 1

        kernel.kill()
        kernel.wait()

        assert reaper.wait_gone(seen, 15) == set()
        until(lambda: not list(runtime.iterdir()))
    gone()
