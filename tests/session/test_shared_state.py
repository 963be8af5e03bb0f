"""Variables outlive sessions, and are shared by all that name the same one."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from kit.errors import (
    AbortedError,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
)
from kit.graph.graph import Graph
from kit.graph.variable import Variable, initialize_all
from kit.session.client.session import Session
from kit.session.worker.program import SegmentProgram
from kit.testing.cluster import LocalCluster
from tests.session.scene import PS, W0, W1, at, variable


@pytest.mark.parametrize(
    ("device", "first", "error", "words"),
    [
        (W1, np.zeros(2, "f4"), FailedPreconditionError, "uninitialized"),
        (PS, np.zeros(3, "f4"), InvalidArgumentError, "shape"),
        (PS, np.zeros(2, "i4"), InternalError, "float32"),
    ],
)
def test_another_graph_finds_a_variable_by_name_task_and_kind(
    cluster: LocalCluster, target: Any, device: str, first: Any, error: Any, words: str
) -> None:
    v = variable(PS, "v", [1, 2])
    with Session(target) as session:
        session.run(v.initializer)
    with Graph().as_default(), Session(cluster.target("worker:1")) as session:
        with at(device):
            twin = Variable(first, name="v")

        if words == "shape":  # it is read as it was stored
            assert session.run(twin).tolist() == [1, 2]
        with pytest.raises(error, match=words):
            session.run(twin.initializer if words == "shape" else twin)


@pytest.mark.parametrize(
    ("containers", "is_lost", "is_boxed_lost"),
    [(("",), True, False), (("box",), False, True), (("moon",), False, False)],
)
def test_a_reset_clears_on_all_tasks_and_ends_the_sessions_of_its_master(
    cluster: LocalCluster,
    target: Any,
    containers: tuple[str, ...],
    is_lost: bool,
    is_boxed_lost: bool,
) -> None:
    v = variable(PS, "v", 1)
    with v.graph.in_container("box"):
        boxed = variable(W1, "boxed", 2)
    mine, other = Session(target), Session(cluster.servers[2])
    mine.run(initialize_all())
    other.run(v)

    mine.reset(containers)

    with pytest.raises(AbortedError):
        mine.run(v)
    for item, is_gone in ((v, is_lost), (boxed, is_boxed_lost)):
        if is_gone:
            with pytest.raises(FailedPreconditionError):
                other.run(item)
        else:
            other.run(item)
    for session in (mine, other):
        session.close()
    with Session(target) as session:
        session.run(initialize_all())
        assert session.run([v, boxed]) == [1.0, 2.0]


def test_an_isolated_session_has_its_own_variables(target: Any) -> None:
    v, w = variable(PS, "v", 1), variable(W0, "w", 2)
    with Session(target) as shared, Session(target, isolate_state=True) as alone:
        shared.run(initialize_all())
        with pytest.raises(FailedPreconditionError):
            alone.run(v)
        alone.run(initialize_all())
        alone.run([v.assign_add(np.float32(5)), w.assign_add(np.float32(5))])
        assert alone.run([v, w]) == [6.0, 7.0]
        assert shared.run([v, w]) == [1.0, 2.0]


def test_an_isolated_session_leaves_nothing(cluster: LocalCluster, target: Any) -> None:
    v = variable(PS, "v", 1)
    with Session(target, isolate_state=True) as alone:
        alone.run(v.initializer)
        assert cluster.servers[0].graphs.runtime.session_states

    assert not cluster.servers[0].graphs.runtime.session_states


@pytest.mark.slow
def test_no_increment_is_lost_between_threads_and_sessions(
    cluster: LocalCluster,
) -> None:
    count = variable(PS, "count")
    more = count.assign_add(np.float32(1))
    sessions = [Session(cluster.servers[1]), Session(cluster.target("worker:1"))]
    sessions[0].run(count.initializer)

    def work(session: Session) -> None:
        for _ in range(200):
            session.run(more)

    threads = [
        threading.Thread(target=work, args=(session,))
        for session in sessions
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sessions[0].run(count) == 800.0
    for session in sessions:
        session.close()


def test_a_fetched_array_is_the_callers_own(graph: Graph) -> None:
    v = variable("", "v", [1, 2])
    c = v * np.float32(1)
    with Session() as session:
        session.run(v.initializer)
        for item in (v, v.value(), c, v.initial_value):
            result = session.run(item)
            result += 100
            assert session.run(item).tolist() == [1, 2]


def test_a_fed_array_stays_the_callers_own(graph: Graph) -> None:
    v = variable("", "v", [0, 0])
    inputs = np.array([1, 2], np.float32)
    with Session() as session:
        session.run(v.initializer, {v.initial_value: inputs})
        inputs += 100
        assert session.run(v).tolist() == [1, 2]


def test_a_large_result_that_nobody_shares_is_not_copied(graph: Graph) -> None:
    kept: list[int] = []
    v = variable("", "v", np.zeros(1000))
    doubled = v + v
    with Session() as session:
        session.run(v.initializer)
        session.run(doubled)
        run = SegmentProgram.run

        def noting(self: Any, step: Any, feeds: Any) -> list[Any]:
            results: list[Any] = run(self, step, feeds)
            kept.extend(id(item) for item in results)
            return results

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SegmentProgram, "run", noting)
            result = session.run(doubled)
            stored = session.run(v)

    assert id(result) == kept[0]
    assert id(stored) != kept[1]
