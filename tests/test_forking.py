"""Bare processes are forked; a lack of resources refuses the one that needs them."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from multiprocessing import Pipe
from pathlib import Path

import psutil
import pytest

from kit.errors import ResourceExhaustedError
from kit.forking import ForkServer

pytestmark = pytest.mark.slow


@pytest.fixture
def forks() -> Iterator[ForkServer]:
    server = ForkServer("kit.puzzles.fork_server")
    yield server
    server.end()


def open_in(pid: int) -> set[int]:
    """The descriptors of a process; the limit is one on their numbers."""
    return {int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir()}


def test_a_server_without_descriptors_refuses_a_process_and_keeps_the_others(
    forks: ForkServer, tmp_path: Path
) -> None:
    ours, theirs = Pipe()
    with ours, theirs:
        first = forks.fork(theirs, tmp_path / "log")
        server = psutil.Process(first.pid).ppid()
        limits = resource.prlimit(server, resource.RLIMIT_NOFILE)
        hard = limits[1]
        for left in range(3):  # of the three that it needs for a process
            taken = open_in(server)
            free = [number for number in range(100) if number not in taken]
            resource.prlimit(server, resource.RLIMIT_NOFILE, (free[left], hard))

            with pytest.raises(ResourceExhaustedError, match="ulimit -n") as caught:
                forks.fork(theirs, tmp_path / "log")

            assert os.uname().nodename in str(caught.value)
            assert open_in(server) == taken
        resource.prlimit(server, resource.RLIMIT_NOFILE, limits)

        second = forks.fork(theirs, tmp_path / "log")
        for process in (second, first):
            assert process.poll() is None
            assert psutil.Process(process.pid).ppid() == server
            process.send_signal(9)
            assert process.wait() == -9
