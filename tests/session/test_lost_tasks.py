"""Tasks in processes of their own that are killed, stopped and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from kit.errors import (
    AbortedError,
    DeadlineExceededError,
    FailedPreconditionError,
    PeerLost,
    UnavailableError,
)
from kit.graph.graph import Graph
from kit.graph.op import Tensor
from kit.graph.ops.state.source import constant
from kit.graph.variable import initialize_all
from kit.session.client.metadata import RunMetadata
from kit.session.client.session import Session
from kit.settings import Settings
from kit.task import Task
from kit.testing.processes import ProcessCluster, process_cluster
from kit.testing.task_process import until
from tests.session.scene import (
    PS,
    W0,
    W1,
    at,
    failure,
    in_thread,
    until_it_waits,
    value,
    variable,
    waits_for_ever,
    works,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(120),
    # A test begins with new processes in the place of those that were killed.
    pytest.mark.lasting("process", "descriptor"),
]
PS0, LAST = Task("ps", 0), Task("worker", 1)
FAR_S = 60.0


@pytest.fixture(scope="module", params=["unix", "tcp"])
def running(request: pytest.FixtureRequest) -> Iterator[ProcessCluster]:
    """Give ps:0, worker:0 and worker:1 as processes; tcp with TLS."""
    with process_cluster(1, 2, settings=Settings(transport=request.param)) as cluster:
        yield cluster


@pytest.fixture
def processes(running: ProcessCluster) -> ProcessCluster:
    """Give all tasks well, and without the variables of the test before."""
    running.restart_dead()
    session = Session(running)
    session.reset()
    session.close()
    return running


@contextmanager
def soon(within_s: float) -> Iterator[None]:
    begun = time.monotonic()
    yield
    assert time.monotonic() - begun < within_s


def test_an_old_session_stays_aborted_after_a_restart_and_a_new_one_works(
    processes: ProcessCluster,
) -> None:
    v = variable(PS, "v", 3)
    old = Session(processes)
    old.run(initialize_all())
    assert old.run(v) == 3.0

    processes[PS0].kill()
    with pytest.raises(UnavailableError, match="/job:ps/task:0"):
        old.run(v)
    processes.restart_dead()

    more = v.assign_add(np.float32(1))
    for wanted in (v, v, more, more):  # kinds that are known, and new ones
        with pytest.raises(AbortedError, match="restarted"):
            old.run(wanted)
    old.close()
    with Session(processes) as session:
        with pytest.raises(FailedPreconditionError, match="uninitialized"):
            session.run(v)
        session.run(initialize_all())
        assert session.run(more) == 4.0


def test_a_session_of_a_master_that_was_restarted_is_aborted(
    processes: ProcessCluster,
) -> None:
    tensor = value(W0)
    session = Session(processes)
    session.run(tensor)

    processes[Task("worker", 0)].kill()
    with pytest.raises(UnavailableError):
        session.run(tensor)
    processes.restart_dead()

    for _ in range(2):
        with pytest.raises(AbortedError, match="restarted"):
            session.run(tensor)
    session.close()
    with Session(processes) as session:
        assert session.run(tensor) == 1.0


@pytest.mark.parametrize("victim", [PS0, LAST])
def test_a_task_killed_in_a_run_is_named_long_before_the_deadline(
    processes: ProcessCluster, victim: Task
) -> None:
    begun, waits = waits_for_ever(PS if victim == PS0 else W1)
    with at(W1 if victim == PS0 else PS):
        behind = waits + np.int32(1)
    with Session(processes) as session:
        assert works(session, W0, PS, W1)
        run = in_thread(lambda: session.run(behind, deadline_s=FAR_S))
        until_it_waits(session, begun)

        processes[victim].signal(signal.SIGKILL)

        error = failure(run, within_s=5.0)
        assert isinstance(error, PeerLost)
        assert str(victim) in str(error)
    assert processes[victim].wait_for_death(5.0) == -signal.SIGKILL
    others = [W0, W1 if victim == PS0 else PS]
    with (
        Graph().as_default(),
        Session(processes, device_filters=others) as session,
        soon(5.0),
    ):
        assert works(session, *others)


def test_a_target_killed_in_a_run_is_named(processes: ProcessCluster) -> None:
    begun, waits = waits_for_ever(W0)
    with Session(processes) as session:
        run = in_thread(lambda: session.run(waits, deadline_s=FAR_S))
        until_it_waits(session, begun)

        processes[Task("worker", 0)].signal(signal.SIGKILL)

        error = failure(run)
        assert isinstance(error, PeerLost)
        assert "worker:0" in str(error)


def test_a_stopped_task_is_named_at_the_deadline(processes: ProcessCluster) -> None:
    v = variable(PS, "v")
    with at(W1):
        behind = v + np.float32(1)
    with Session(processes) as session:
        session.run(initialize_all())
        session.run(behind)
        processes[PS0].signal(signal.SIGSTOP)
        processes[PS0].wait_for_stop(5.0)

        with soon(8.0), pytest.raises(DeadlineExceededError) as caught:
            session.run(behind, deadline_s=1.0)

        processes[PS0].signal(signal.SIGCONT)
        assert "/job:ps/task:0" in str(caught.value)
        until(lambda: works(session, W0, PS, W1))


def test_a_stopped_target_is_named_at_the_deadline(processes: ProcessCluster) -> None:
    tensor = value(W0)
    target = processes[Task("worker", 0)]
    with Session(processes) as session:
        session.run(tensor)
        target.signal(signal.SIGSTOP)
        target.wait_for_stop(5.0)

        with soon(10.0), pytest.raises(DeadlineExceededError, match="worker:0"):
            session.run(tensor, deadline_s=0.5)

        target.signal(signal.SIGCONT)
        assert session.run(tensor) == 1.0


def test_large_tensors_cross_both_ways_at_once(processes: ProcessCluster) -> None:
    n = 1 << 24  # of four bytes: 64 MiB
    with at(PS):
        ones = filled(n, 1.0)
    with at(W1):
        twos = filled(n, 2.0)
        left = (ones + np.float32(1))[-3:]
    with at(PS):
        right = (twos + np.float32(1))[-3:]
    metadata = RunMetadata()
    with Session(processes) as session:
        result = session.run([left, right], deadline_s=FAR_S, metadata=metadata)

    assert [array.tolist() for array in result] == [[2.0] * 3, [3.0] * 3]
    assert [transfer.n_bytes for transfer in metadata.transfers] == [4 * n] * 2


def filled(n: int, number: float) -> Tensor:
    start = constant(np.float32(number))
    made: Tensor = start.graph.create("Fill", start, shape=(n,)).outputs[0]
    return made


def client(
    processes: ProcessCluster, worker: int, *, waits: bool = False
) -> subprocess.Popen[bytes]:
    """Start a client in a process of its own."""
    result = processes.directory
    about = {
        "addresses": {task.short: str(at) for task, at in result.addresses.items()},
        "credentials": result.credentials.to_plain(),
        "folder": str(result.runtime_dir),
        "settings": result.settings.as_plain(),
        "worker": worker,
        "waits": waits,
    }
    return subprocess.Popen(
        [sys.executable, "-m", "tests.session.client", json.dumps(about)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_clients_in_processes_of_their_own_count_together(
    processes: ProcessCluster,
) -> None:
    with Graph().as_default(), Session(processes) as session:
        count = variable(PS, "count")
        session.run(count.initializer)

        clients = [client(processes, worker) for worker in (0, 1)]
        for item in clients:
            _, words = item.communicate(timeout=60)
            assert item.returncode == 0, words.decode()

        assert session.run(count) == 400.0


def test_an_interrupted_client_ends_and_leaves_the_tasks_well(
    processes: ProcessCluster,
) -> None:
    first = client(processes, 0, waits=True)
    assert first.stdout is not None
    assert first.stdout.readline() == b"ready\n"
    with Graph().as_default(), Session(processes) as session:
        until_it_waits(session, variable(PS, "begun"))

    first.send_signal(signal.SIGINT)

    with soon(10.0):
        _, words = first.communicate(timeout=20)
    assert b"KeyboardInterrupt" in words
    with Session(processes) as session:
        assert works(session, W0, PS, W1)
