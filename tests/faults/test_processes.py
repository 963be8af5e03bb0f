"""`process_cluster`: what it tells of its processes when a test fails."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from kit.errors import PeerLost
from kit.task import Task
from kit.testing.cluster import BareCluster, local_cluster
from kit.testing.processes import process_cluster
from kit.testing.task_process import TaskProcess, until
from tests.faults.scene import is_running

pytestmark = pytest.mark.slow


def test_an_error_carries_the_stacks_of_all_processes_frozen_ones_too() -> None:
    processes: list[TaskProcess] = []

    def fail() -> None:
        with process_cluster(ps=1, worker=2) as cluster:
            processes.extend(cluster[task] for task in cluster.tasks)
            frozen = cluster[Task("worker", 1)]
            frozen.signal(signal.SIGSTOP)
            frozen.wait_for_stop(10)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        fail()

    (note,) = caught.value.__notes__
    by_task = note.split("--- ")[1:]
    assert [text.split()[0] for text in by_task] == ["ps:0", "worker:0", "worker:1"]
    assert all(re.search(r"task_process\.py.* in host\b", item) for item in by_task)
    # None of them goes on after its frames were looked at.
    assert [process.wait_for_death(0) for process in processes] == 3 * [-signal.SIGABRT]


class Printing:
    """Prints what Python code means in the process that it is sent to."""

    def __init__(self, code: str) -> None:
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (f"import os, random, sys, numpy; print({self.code}, flush=True)",)


@contextmanager
def processes_in(folder: Path, n: int) -> Iterator[list[TaskProcess]]:
    with ExitStack() as stack:
        processes = []
        for number in range(n):
            processes.append(TaskProcess(folder / f"{number}.log"))
            stack.callback(processes[-1].end)
        yield processes


def said(process: TaskProcess, code: str) -> str:
    """Return what it prints, having nothing to do but to end in order."""
    process.tell("give_up", Printing(code))
    with pytest.raises(Exception, match="hosts no task"):
        process.answer("give_up")
    return process.words().strip()


@pytest.mark.parametrize("start", [local_cluster, process_cluster])
def test_a_cluster_starts_where_temporary_files_are_too_far_down_for_sockets(
    start: Callable[..., AbstractContextManager[BareCluster]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / ("x" * 90)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))

    with start(ps=0, worker=1) as cluster:
        assert cluster.directory.addresses


def test_a_process_is_where_the_test_is_when_it_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with processes_in(tmp_path, 1):  # so the fork server is older than all of this
        monkeypatch.setenv("PSRING_FOR_A_TEST", "set")
        monkeypatch.delenv("PATH")
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend("/for/a/test")
        with processes_in(tmp_path, 1) as (process,):
            words = said(
                process,
                "os.environ['PSRING_FOR_A_TEST'], 'PATH' in os.environ, "
                "os.environ['OMP_NUM_THREADS'], os.getcwd(), sys.path[0]",
            )

    assert words == f"set False 1 {tmp_path} /for/a/test"


def test_forks_of_one_thread_draw_each_something_else(tmp_path: Path) -> None:
    draws = "random.random(), numpy.random.random()"

    with processes_in(tmp_path, 3) as processes:
        server = psutil.Process(processes[0].pid).parent()
        assert server is not None
        assert (server.ppid(), server.num_threads()) == (os.getpid(), 1)
        drawn = [word for process in processes for word in said(process, draws).split()]

    assert len(set(drawn)) == 6


def test_a_killed_process_is_dead_to_its_starter_and_its_sibling_lives(
    tmp_path: Path,
) -> None:
    with processes_in(tmp_path, 2) as (first, second):
        first.signal(signal.SIGKILL)

        assert first.wait_for_death(10) == -signal.SIGKILL
        assert not first.is_alive
        assert second.is_well
        # Nobody else holds the other end: it is closed.
        with pytest.raises(PeerLost, match="-9"):
            first.answer("start")
        assert second.end()
        assert second.wait_for_death(0) == 0


def test_a_task_is_restarted_though_the_spare_process_was_killed() -> None:
    worker = Task("worker", 0)
    with process_cluster(ps=0, worker=1) as cluster:
        first = cluster[worker]
        parent = psutil.Process(first.pid).parent()
        assert parent is not None
        (spare,) = {child.pid for child in parent.children()} - {first.pid}
        os.kill(spare, signal.SIGKILL)
        until(lambda: not psutil.pid_exists(spare), 10)
        first.signal(signal.SIGKILL)
        first.wait_for_death(10)

        assert cluster.restart_dead() == [worker]
        assert cluster[worker].is_well


def test_processes_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib, psutil\n"
        "from kit.testing.task_process import TaskProcess\n"
        "ours = [TaskProcess(pathlib.Path(sys.argv[1], name)) for name in 'ab']\n"
        "server = psutil.Process(ours[0].pid).ppid()\n"
        "print(server, *(one.pid for one in ours), flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as starter:
        assert starter.stdout is not None
        pids = [int(word) for word in starter.stdout.readline().split()]
        assert all(psutil.pid_exists(pid) for pid in pids)

        starter.kill()

        until(lambda: not any(is_running(pid) for pid in pids), 10)
    assert len(pids) == 3


def test_a_dead_fork_server_is_replaced(tmp_path: Path) -> None:
    with processes_in(tmp_path, 1) as (process,):
        server = psutil.Process(process.pid).parent()
        assert server is not None
        server.kill()

        with pytest.raises(PeerLost, match=r"fork server .* \(-9\)"):
            TaskProcess(tmp_path / "lost.log")
        with processes_in(tmp_path, 1) as (another,):
            assert another.is_well

    assert process.wait_for_death(0) == 255
