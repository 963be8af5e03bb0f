"""Sessions leave nothing on the tasks: not many of them, and not abandoned ones."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kit.errors import AbortedError, ResourceExhaustedError
from kit.graph.graph import Graph
from kit.session.client.options import SessionOptions
from kit.session.client.session import Session
from kit.session.client.targets import LOCAL, local_master
from kit.session.master.cluster_tasks import ClusterTasks
from kit.session.master.master import Master
from kit.session.master.partition import Segment
from kit.session.transport.peers import Peers
from kit.session.worker.step import Step
from kit.session.worker.task_runtime import TaskRuntime
from kit.session.worker.worker import Rendezvous, Worker
from kit.testing.cluster import LocalCluster
from kit.testing.task_process import until
from tests.session.scene import PS, W0, W1, at, value


def held(cluster: LocalCluster) -> dict[str, int]:
    """Count all that a session takes on its tasks."""
    graphs = [server.graphs for server in cluster.servers]
    return {
        "sessions": sum(len(graph.master) for graph in graphs),
        "segments": sum(graph.worker.n_segments for graph in graphs),
        "steps": sum(len(graph.worker.rendezvous) for graph in graphs),
        "rooms": sum(len(graph.runtime.session_states) for graph in graphs),
    }


NO_SEGMENT = Segment([], [], [], [], [], [])


def lonely_worker() -> Worker:
    return Worker(TaskRuntime(LOCAL), Peers(lambda *_: None))  # type: ignore[arg-type]


def step_of(number: int, session: int = 1) -> Step:
    return Step(number, (LOCAL, session), LOCAL, None, 1.0)  # type: ignore[arg-type]


def master_at(now: list[float]) -> Master:
    """Return a master whose clock is the first element of a list."""
    worker = local_master().worker
    return Master(worker, ClusterTasks(worker, lambda: [LOCAL]), clock=lambda: now[0])


NOTHING = dict.fromkeys(("sessions", "segments", "steps", "rooms"), 0)


@pytest.mark.slow
def test_many_sessions_leave_nothing(cluster: LocalCluster, target: Any) -> None:
    with at(W0):
        total = value(PS) + value(W1)

    def run() -> None:
        with Session(target, isolate_state=True) as session:
            assert session.run(total) == 2.0

    for _ in range(20):
        run()
    until(lambda: threading.active_count() < 40)
    before = len(list(Path("/proc/self/fd").iterdir())), threading.active_count()
    for _ in range(200):
        run()

    assert held(cluster) == NOTHING
    until(lambda: threading.active_count() <= before[1])
    gc.collect()
    until(lambda: len(os.listdir("/proc/self/fd")) <= before[0])  # noqa: PTH208


def test_a_session_that_its_client_left_is_ended_in_time() -> None:
    now = [0.0]
    master = master_at(now)
    left, kept = master.create(SessionOptions()), master.create(SessionOptions())
    link, other = object(), object()
    for number in (left, kept):
        master.used(number, link)
    master.used(kept, other)

    master.left(link)
    now[0] = 599.0
    master.create(SessionOptions())
    assert master.session(left) is not None
    now[0] = 601.0
    master.create(SessionOptions())

    with pytest.raises(AbortedError):
        master.session(left)
    assert master.session(kept) is not None


def test_a_client_that_dials_again_keeps_its_session() -> None:
    now = [0.0]
    master = master_at(now)
    number = master.create(SessionOptions())
    master.used(number, "first")
    master.left("first")
    master.used(number, "second")

    now[0] = 10_000.0
    master.create(SessionOptions())

    assert master.session(number) is not None


def test_a_link_that_failed_is_replaced(cluster: LocalCluster) -> None:
    tensor = value(PS)
    with Session(cluster.session_target) as session:
        session.run(tensor)
        for link in list(cluster.servers[1].graphs.links):
            link.close()
        until(lambda: not cluster.servers[1].graphs.links)
        assert session.run(tensor) == 1.0


def test_tensors_that_nobody_asks_for_are_dropped() -> None:
    now = [0.0]
    box = Rendezvous(clock=lambda: now[0])
    box.put(1, 0, "early")
    box.begin(2)
    box.put(2, 0, "begun")
    now[0] = 61.0

    box.put(3, 0, "new")

    assert len(box) == 2
    box.end(2)
    box.put(2, 1, "late")
    assert len(box) == 1


def test_a_step_that_was_aborted_takes_no_link() -> None:
    worker, step = lonely_worker(), step_of(1)
    error = AbortedError("why")
    worker.abort(step, error)

    with pytest.raises(AbortedError, match="why"):
        step.hold(object())  # type: ignore[arg-type]
    worker.abort(step, AbortedError("later"))
    assert step.error is error


def test_closing_a_local_session_ends_its_threads(graph: Graph) -> None:
    before = set(threading.enumerate())
    tensor = value("")
    with Session() as session:
        assert session.run(tensor + np.float32(1)) == 2.0
    assert set(threading.enumerate()) <= before


@pytest.mark.slow
def test_tensors_of_steps_that_nobody_begins_take_little_room() -> None:
    box = Rendezvous(clock=lambda: 0.0)
    box.begin(3)
    box.put(3, 0, "wanted")

    for step in range(10, 3_000):
        box.put(step, 0, "unasked")

    assert len(box) < 1100
    for number, tensor in ((3, "wanted"), (2_999, "unasked")):
        assert box.take(step_of(number), 0, "it") == tensor


def test_abandoned_sessions_are_bounded_in_number(cluster: LocalCluster) -> None:
    master = cluster.servers[0].graphs.master
    kept = master.create(SessionOptions())
    master.used(kept, "a client")
    sessions = [kept]
    for number in range(400):
        session = master.create(SessionOptions())
        sessions.append(session)
        master.used(session, number)
        master.left(number)

    assert len(master) < 300
    assert master.session(kept)
    for session in sessions:
        master.end(session)


def test_client_that_begins_ever_more_sessions_is_stopped(
    cluster: LocalCluster,
) -> None:
    master = cluster.servers[0].graphs.master
    begun: list[int] = []

    for _ in range(64):
        master.check_room("a client")
        begun.append(master.create(SessionOptions()))
        master.used(begun[-1], "a client")

    with pytest.raises(ResourceExhaustedError, match="over one link"):
        master.check_room("a client")

    master.check_room("another client")
    for session in begun:
        master.end(session)
    master.check_room("a client")


def test_segments_that_come_after_the_end_of_their_session_are_refused() -> None:
    worker = lonely_worker()
    worker.register((LOCAL, 1), NO_SEGMENT)
    worker.end_session((LOCAL, 1))

    with pytest.raises(AbortedError, match="closed"):
        worker.register((LOCAL, 1), NO_SEGMENT)

    assert worker.n_segments == 0
    assert not worker.runtime.session_states


def test_sessions_whose_masters_went_without_a_word_are_bounded_in_number() -> None:
    worker, step = lonely_worker(), step_of(1, session=0)
    token = worker.register((LOCAL, 0), NO_SEGMENT)

    for number in range(1, 2000):
        worker.register((LOCAL, number), NO_SEGMENT)
        worker.run(token, step, [])

    assert worker.n_segments == len(worker.runtime.session_states) == 512
    assert (LOCAL, 0) in worker.runtime.session_states
