"""A start that does not succeed says why, and leaves nothing."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ipyparallel
import pytest

from kit import machine
from kit.cluster import Bootstrap, Cluster, ClusterState, memory
from kit.cluster.processes.reaper import Process
from kit.errors import (
    CancelledError,
    NotEnoughMemory,
    PeerLost,
    StartFailed,
    UnknownError,
)
from kit.testing.task_process import until

pytestmark = [pytest.mark.engines, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
FORK_SERVER = "kit.cluster.processes.fork_server"


def test_a_server_or_an_engine_that_does_not_start_fails_the_start_at_once(
    gone: Callable[[], None],
) -> None:
    def fail(config: dict[str, Any]) -> dict[str, Any]:
        raise RuntimeError(f"no server for {config['job']} today")

    def die(config: dict[str, Any]) -> dict[str, Any]:
        import os

        os._exit(7)

    for start, words in {
        fail: "no server for worker today",
        die: "worker:0 exited with status 7",
    }.items():
        broken = Bootstrap(start, lambda spec: None, lambda: None)

        with pytest.raises((StartFailed, PeerLost, UnknownError), match=words):
            Cluster(ps=0, worker=1, bootstrap=broken).start()

        gone()


def python_that(runtime: Path, action: str) -> str:
    script = runtime.parent / "python"
    script.write_text(f"#!/bin/sh\n{action}\n")
    script.chmod(0o755)
    return str(script)


@pytest.mark.parametrize(
    ("action", "text"),
    [
        ("echo cannot find my libraries >&2; exit 3", "cannot find my libraries"),
        (f'[ "$3" = {FORK_SERVER} ] && exit 4; exec {sys.executable} "$@"', "4"),
    ],
)
def test_a_python_that_does_not_work_fails_the_start_with_its_words(
    runtime: Path, seen: set[Process], action: str, text: str
) -> None:
    begin = time.monotonic()

    with pytest.raises(StartFailed, match=text):
        Cluster(ps=0, worker=1, python=python_that(runtime, action)).start()

    assert time.monotonic() - begin < 10
    # It may have ended before it could be recorded.
    assert [process for process in seen if process.is_running] == []
    assert list(runtime.iterdir()) == []


def test_a_start_that_hangs_ends_at_its_deadline_and_says_for_what_it_waited(
    runtime: Path, gone: Callable[[], None]
) -> None:
    hanging = python_that(runtime, "exec sleep 60")

    with pytest.raises(StartFailed, match=r"within 1 s: still waiting") as failed:
        Cluster(ps=0, worker=1, python=hanging, start_deadline_s=1).start()
    advice = "start_deadline_s=2, or %%cluster --timeout 2 in a notebook."
    assert advice in str(failed.value)

    gone()


def in_the_midst(seen: set[Process], act: Callable[[], None]) -> threading.Thread:
    """Act from a thread as soon as the first process of a start is recorded."""

    def wait_and_act() -> None:
        until(lambda: bool(seen), 30)
        act()

    thread = threading.Thread(target=wait_and_act)
    thread.start()
    return thread


def test_a_stop_during_the_start_cleans_up(
    bootstrap: Bootstrap, seen: set[Process], gone: Callable[[], None]
) -> None:
    cluster = Cluster(ps=0, worker=2, bootstrap=bootstrap)
    stopper = in_the_midst(seen, cluster.stop)

    with pytest.raises(CancelledError, match="given up"):
        cluster.start()
    stopper.join(20)

    assert cluster.state is ClusterState.STOPPED
    gone()


def test_ctrl_c_during_the_start_cleans_up(
    bootstrap: Bootstrap, seen: set[Process], gone: Callable[[], None]
) -> None:
    cluster = Cluster(ps=0, worker=2, bootstrap=bootstrap)
    presser = in_the_midst(seen, lambda: os.kill(os.getpid(), signal.SIGINT))

    with pytest.raises(KeyboardInterrupt):
        cluster.start()
    presser.join(20)

    gone()


def test_a_cancelled_start_cleans_up(
    bootstrap: Bootstrap, seen: set[Process], gone: Callable[[], None]
) -> None:
    async def cell() -> None:
        start = asyncio.ensure_future(
            Cluster(ps=0, worker=2, bootstrap=bootstrap).start_async()
        )
        async with asyncio.timeout(30):
            while not seen:
                await asyncio.sleep(0.005)
        start.cancel()
        with pytest.raises(asyncio.CancelledError):
            await start

    asyncio.run(cell())

    gone()


unheard: list[Any] = []


class LateClient(ipyparallel.Client):  # type: ignore[misc]  # it has no types
    """A client that misses what the hub publishes before its subscription is there.

    In its first answer the hub knows no engine yet.
    """

    has_asked = False

    def _register_engine(self, message: Any) -> None:
        if len(unheard) < 4:
            unheard.append(message)
        else:
            super()._register_engine(message)

    def _update_engines(self, engines: Any) -> None:
        if self.has_asked:
            super()._update_engines(engines)
        self.has_asked = True


def test_tasks_start_though_the_client_hears_of_most_too_early(
    gone: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ipyparallel, "Client", LateClient)
    unheard.clear()

    with Cluster(ps=1, worker=4, start_deadline_s=40) as cluster:
        assert len(set(cluster.call("all", os.getpid))) == 5
    assert len(unheard) == 4
    gone()


def test_a_start_without_descriptors_is_refused_in_words(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def popen(*_: Any, **__: Any) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("subprocess.Popen", popen)
    cluster = Cluster(ps=0, worker=1)

    with pytest.raises(StartFailed, match=r"Too many open files.*ulimit"):
        cluster.start()

    assert cluster.state is ClusterState.STOPPED
    assert list(runtime.iterdir()) == []


def test_too_little_memory_starts_nothing(
    runtime: Path, seen: set[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    small = machine.MachineMemory(1024, memory.need_mib(2), is_contained=True)
    monkeypatch.setattr(machine, "memory", lambda: small)

    with pytest.raises(NotEnoughMemory, match="ps=1, worker=1 would fit"):
        Cluster(ps=1, worker=3).start()

    assert seen == set()
    assert list(runtime.iterdir()) == []
