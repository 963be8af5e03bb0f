"""A start that does not succeed says why, and leaves nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kit import machine
from kit.cluster import Bootstrap, Cluster, State, memory
from kit.cluster.keeper import Process
from kit.errors import (
    CancelledError,
    NotEnoughMemory,
    PeerLost,
    StartFailed,
    UnknownError,
)

pytestmark = [pytest.mark.engines, pytest.mark.slow]

ROOT = Path(__file__).parents[2]


def test_a_server_that_does_not_start_fails_the_start(gone: Callable[[], None]) -> None:
    def start(config: dict[str, Any]) -> dict[str, Any]:
        raise RuntimeError(f"no server for {config['job']} today")

    broken = Bootstrap(start, lambda spec: None, lambda: None)

    with pytest.raises(UnknownError, match="no server for worker today"):
        Cluster(ps=0, worker=1, bootstrap=broken).start()

    gone()


def test_an_engine_that_ends_during_the_start_fails_it_at_once(
    gone: Callable[[], None],
) -> None:
    def start(config: dict[str, Any]) -> dict[str, Any]:
        import os

        os._exit(7)

    dying = Bootstrap(start, lambda spec: None, lambda: None)

    with pytest.raises((StartFailed, PeerLost), match=r"worker:0 exited with status 7"):
        Cluster(ps=0, worker=1, bootstrap=dying).start()

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
        (f'[ "$3" = kit.cluster.nursery ] && exit 4; exec {sys.executable} "$@"', "4"),
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

    with pytest.raises(StartFailed, match=r"within 1 s: still waiting for the engines"):
        Cluster(ps=0, worker=1, python=hanging, start_deadline_s=1).start()

    gone()


def test_a_stop_during_the_start_cleans_up(
    bootstrap: Bootstrap, gone: Callable[[], None]
) -> None:
    cluster = Cluster(ps=0, worker=2, bootstrap=bootstrap)
    stopper = threading.Timer(0.3, cluster.stop)
    stopper.start()

    with pytest.raises(CancelledError, match="given up"):
        cluster.start()
    stopper.join(20)

    assert cluster.state is State.STOPPED
    gone()


def test_ctrl_c_during_the_start_cleans_up(
    bootstrap: Bootstrap, gone: Callable[[], None]
) -> None:
    cluster = Cluster(ps=0, worker=2, bootstrap=bootstrap)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()

    with pytest.raises(KeyboardInterrupt):
        cluster.start()

    gone()


def test_a_cancelled_start_cleans_up(
    bootstrap: Bootstrap, gone: Callable[[], None]
) -> None:
    async def cell() -> None:
        start = asyncio.ensure_future(
            Cluster(ps=0, worker=2, bootstrap=bootstrap).start_async()
        )
        await asyncio.sleep(0.3)
        start.cancel()
        with pytest.raises(asyncio.CancelledError):
            await start

    asyncio.run(cell())

    gone()


def test_too_little_memory_starts_nothing(
    runtime: Path, seen: set[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    small = machine.Memory(1024, memory.need_mib(2), is_contained=True)
    monkeypatch.setattr(machine, "memory", lambda: small)

    with pytest.raises(NotEnoughMemory, match="ps=1, worker=1 would fit"):
        Cluster(ps=1, worker=3).start()

    assert seen == set()
    assert list(runtime.iterdir()) == []
