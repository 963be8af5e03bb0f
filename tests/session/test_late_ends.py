"""Ends that come while a run is just being begun, prepared or finished."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from kit.errors import AbortedError, CancelledError, DeadlineExceededError
from kit.graph.graph import Graph
from kit.graph.node import node_of
from kit.graph.ops.state.function import py_function
from kit.graph.ops.state.source import constant
from kit.graph.variable import initialize_all
from kit.session.client.session import Session
from kit.session.master import step_coordinator
from kit.session.master.cluster_tasks import ClusterTasks
from kit.session.master.master import Master
from kit.session.master.partition import Segment
from kit.session.transport import shared_tensors
from kit.session.transport.message import begin_lending
from kit.testing.cluster import LocalCluster, local_cluster
from kit.testing.task_process import until
from tests.session.scene import (
    PS,
    W0,
    at,
    connection_of,
    failure,
    in_thread,
    never,
    value,
    variable,
)


class Gate:
    """A place where a thread stands until it is let go."""

    def __init__(self) -> None:
        self.reached, self._open = threading.Event(), threading.Event()

    def stand(self) -> None:
        self.reached.set()
        assert self._open.wait(20)

    def open(self) -> None:
        self._open.set()


def test_run_with_a_large_answer_succeeds_though_its_last_question_is_cut(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    large, n = variable(PS, "large", np.zeros(1 << 18)), variable(PS, "n")
    count = n.assign_add(np.float32(1)).op
    n_cut = 0

    def cut(link: Any, arrays: Any, deadline_s: float) -> None:
        nonlocal n_cut
        is_asked = shared_tensors.pays(link, arrays)
        n_cut += is_asked
        begin_lending(link, arrays, 0.0 if is_asked else deadline_s)

    with Session(cluster.servers[1]) as session:
        session.run(initialize_all())
        monkeypatch.setattr(step_coordinator, "begin_lending", cut)
        assert session.run(large.ref).shape == (1 << 18,)
        monkeypatch.undo()
        assert n_cut == 1

        # On a link with an answer still to come they would be taken for done, and lost.
        for _ in range(3):
            session.run(count, deadline_s=5)
        assert session.run(n, deadline_s=5) == 3.0


@pytest.mark.slow
def test_late_update_of_an_isolated_session_changes_no_shared_variable(
    cluster: LocalCluster, target: Any
) -> None:
    gate, shared_graph = Gate(), Graph()
    with shared_graph.as_default():
        shared = variable(W0, "v", 1.0)
        initialize = initialize_all()

    def slow() -> np.float32:
        gate.stand()
        return np.float32(99)

    v = variable(W0, "v", 2.0)
    with at(W0):
        late = v.assign(py_function(slow, [], np.float32, ()))
    with Session(target, shared_graph) as session:
        session.run(initialize)
        alone = Session(target, v.graph, isolate_state=True)
        alone.run(v.initializer)
        run = in_thread(lambda: alone.run(late))
        assert gate.reached.wait(10)
        alone.close()
        gate.open()

        assert isinstance(failure(run), CancelledError)
        assert session.run(shared) == 1.0


def test_nodes_whose_arrival_was_not_heard_of_are_sent_again(
    cluster: LocalCluster, target: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensor = value(PS, 3.0)
    with Session(target) as session:
        extend = connection_of(session).extend

        def unheard(*about: Any) -> int:
            extend(*about)
            raise DeadlineExceededError("no answer came in time.")

        monkeypatch.setattr(connection_of(session), "extend", unheard)
        with pytest.raises(DeadlineExceededError):
            session.run(tensor)
        monkeypatch.undo()

        assert session.run(tensor + value(W0, 1.0)) == 4.0


def test_nodes_of_somebody_else_are_refused(cluster: LocalCluster) -> None:
    way = connection_of(Session(cluster.session_target))
    with Graph().as_default() as mine:
        constant(1.0, name="mine")
    with Graph().as_default() as theirs:
        constant(1.0, name="theirs")
    way.extend(0, [node_of(op) for op in mine.ops], 5.0)
    with pytest.raises(AbortedError, match="extended by somebody else"):
        way.extend(0, [node_of(op) for op in theirs.ops], 5.0)
    way.close()


def test_closing_before_the_first_question_cancels_the_run_and_leaves_no_session(
    cluster: LocalCluster, target: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, waits = Gate(), never(PS)
    session = Session(target)
    extend = connection_of(session).extend

    def later(*about: Any) -> int:
        gate.stand()
        version: int = extend(*about)
        return version

    monkeypatch.setattr(connection_of(session), "extend", later)
    run = in_thread(lambda: session.run(waits))
    assert gate.reached.wait(10)
    session.close()
    gate.open()

    assert isinstance(failure(run), CancelledError)
    assert len(cluster.servers[1].graphs.master) == 0


def test_closing_while_the_session_is_being_made_leaves_none(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, item, create = Gate(), value(PS), Master.create

    def later(self: Master, options: Any) -> int:
        gate.stand()
        return create(self, options)

    monkeypatch.setattr(Master, "create", later)
    session = Session(cluster.session_target)
    run = in_thread(lambda: session.run(item))
    assert gate.reached.wait(10)
    closing = in_thread(session.close)
    until(lambda: bool(connection_of(session)._is_closed))
    gate.open()

    closing.result(10)
    assert isinstance(failure(run), CancelledError)
    assert len(cluster.servers[1].graphs.master) == 0


def test_closing_while_a_plan_is_being_made_leaves_no_segment(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, n_calls, n_plans = Gate(), 0, 0
    to_plain, tell = Segment.to_plain, ClusterTasks.tell

    def second_later(segment: Any) -> Any:
        nonlocal n_plans
        n_plans += 1
        if n_plans == 2:
            gate.stand()
        return to_plain(segment)

    def slowly(self: ClusterTasks, *about: Any) -> None:
        nonlocal n_calls
        n_calls += 1
        if n_calls == 1:  # who is told is being looked through; then one more comes
            gate.open()
            run.exception(10)
        tell(self, *about)

    with local_cluster(2, 1) as cluster:
        both = [value(PS), value("/job:ps/task:1")]
        monkeypatch.setattr(Segment, "to_plain", second_later)
        monkeypatch.setattr(ClusterTasks, "tell", slowly)
        session = Session(cluster.servers[2])
        run = in_thread(lambda: session.run(both))
        assert gate.reached.wait(10)

        session.close()

        error = failure(run)
        assert isinstance(error, CancelledError), error
        assert [server.graphs.worker.n_segments for server in cluster.servers] == [
            0,
            0,
            0,
        ]


def test_client_that_said_nothing_for_long_keeps_its_session(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kit.session.transport.service._IDLE_S", 0.01)
    left: list[object] = []
    monkeypatch.setattr(Master, "left", lambda _, user: left.append(user))
    v = variable(W0, "v", 1.0)
    with Session(cluster.session_target) as session:
        session.run(v.initializer)
        threading.Event().wait(0.2)

        assert not left
        assert session.run(v) == 1.0
