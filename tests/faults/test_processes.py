"""`process_cluster`: what it tells of its processes when a test fails."""

from __future__ import annotations

import re
import signal

import pytest

from kit.task import Task
from kit.testing.processes import process_cluster
from kit.testing.task_process import TaskProcess

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
    assert [one.split()[0] for one in by_task] == ["ps:0", "worker:0", "worker:1"]
    assert all(re.search(r"task_process\.py.* in host\b", one) for one in by_task)
    # None of them goes on after its frames were looked at.
    assert [one.wait_for_death(0) for one in processes] == 3 * [-signal.SIGABRT]
