"""Runs that end early: by a deadline, a cancel, a close, a task that is not there."""

from __future__ import annotations

from typing import Any

import pytest

from kit.errors import (
    AbortedError,
    CancelledError,
    DeadlineExceededError,
    KitError,
)
from kit.graph.graph import Graph
from kit.session.client.cancelling import Cancellation
from kit.session.client.session import Session
from kit.session.worker.worker import Worker
from kit.testing.cluster import LocalCluster, local_cluster
from kit.testing.task_process import until
from tests.session.scene import (
    PS,
    W0,
    connection_of,
    failure,
    in_thread,
    never,
    sent_of,
    value,
    works,
)


def n_runs(worker: Worker) -> int:
    """Return how many runs a task has a part in."""
    return len(worker.steps)


@pytest.mark.slow
@pytest.mark.parametrize("device", [PS, W0])
def test_a_run_that_waits_in_vain_ends_at_its_deadline(
    target: Any, device: str
) -> None:
    waits = never(device)
    with Session(target) as session:
        with pytest.raises(DeadlineExceededError, match=r"0\.(5|4\d?) s"):
            session.run(waits, deadline_s=0.5)
        assert works(session, W0, PS)


@pytest.mark.parametrize("device", [PS, W0])
def test_closing_cancels_a_run_that_another_thread_waits_for(
    cluster: LocalCluster, target: Any, device: str
) -> None:
    waits = never(device)
    session = Session(target)
    run = in_thread(lambda: session.run(waits))
    task = cluster.servers[0 if device == PS else 1].graphs.worker
    until(lambda: n_runs(task) > 0)

    session.close()

    error = failure(run)
    assert isinstance(error, CancelledError)
    assert "Session::Close()" in str(error)
    until(lambda: n_runs(task) == 0)


def test_closing_cancels_a_run_that_its_master_has_not_heard_of(
    cluster: LocalCluster, target: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(target)
    way: Any = connection_of(session)
    prepare = way.prepare

    def closed_then(*about: Any) -> int:
        plan: int = prepare(*about)
        # What `close` does, as far as it has come by now.
        sent_of(session).is_closed = True
        cluster.servers[1].graphs.master.end(way._number)
        return plan

    monkeypatch.setattr(way, "prepare", closed_then)
    with pytest.raises(CancelledError, match=r"Session::Close\(\)"):
        session.run(value(PS))
    monkeypatch.undo()
    way.close()


def test_the_run_of_a_client_that_goes_away_is_cancelled(
    cluster: LocalCluster,
) -> None:
    waits = never(PS)
    session = Session(cluster.session_target)
    run = in_thread(lambda: session.run(waits))
    task = cluster.servers[0].graphs.worker
    until(lambda: n_runs(task) > 0)

    for link in list(cluster.servers[1].graphs.links):
        link.close()  # as a kill of the client would

    assert isinstance(failure(run), KitError)
    until(lambda: n_runs(task) == 0)
    session.close()


def test_a_stopped_server_cancels_the_runs_of_its_part(cluster: LocalCluster) -> None:
    waits = never(PS)
    with Session(cluster.servers[1]) as session:
        run = in_thread(lambda: session.run(waits))
        until(lambda: n_runs(cluster.servers[0].graphs.worker) > 0)

        cluster.servers[0].stop()

        assert "/job:ps/" in str(failure(run))


def test_a_run_of_a_session_that_the_master_forgot_is_aborted(
    cluster: LocalCluster, target: Any
) -> None:
    tensor = value(PS)
    with Session(target) as session:
        session.run(tensor)
        cluster.servers[0].graphs.worker._programs.clear()  # as a restart would
        for _ in range(2):
            with pytest.raises(AbortedError, match="restarted"):
                session.run(tensor)
    with Session(target) as session:
        assert session.run(tensor) == 1.0


def test_a_task_that_is_missing_is_named_at_the_deadline(graph: Graph) -> None:
    tensor = value("/job:worker/task:0")
    with local_cluster(1, 1) as cluster:
        mine = cluster.servers[1]
        cluster.servers[0].stop()
        with (
            Session(mine) as session,
            pytest.raises(DeadlineExceededError, match="/job:ps/task:0"),
        ):
            session.run(tensor, deadline_s=0.2)
        with Session(mine, device_filters=["/job:worker"]) as session:
            assert session.run(tensor) == 1.0


def test_closing_ends_the_wait_for_a_task_that_is_missing(graph: Graph) -> None:
    tensor = value("/job:worker/task:0")
    with local_cluster(1, 1) as cluster:
        cluster.servers[0].stop()
        session = Session(cluster.servers[1])
        run = in_thread(lambda: session.run(tensor))
        until(lambda: len(cluster.servers[1].graphs.master) > 0)
        session.close()
        assert isinstance(failure(run), CancelledError)


@pytest.mark.parametrize("device", [W0, PS])
def test_cancelled_run_ends_and_the_session_works_on(target: Any, device: str) -> None:
    cancellation = Cancellation()
    taken = never(device)
    with Session(target) as session:
        session.run(value(W0))  # all is connected
        begun = in_thread(lambda: _run(session, taken, cancellation))
        until(lambda: bool(cancellation.calls))

        cancellation.cancel()

        error = failure(begun)
        assert isinstance(error, CancelledError)
        assert "the run was cancelled" in str(error)
        assert works(session, W0, PS)


def test_run_that_begins_after_the_end_of_all_runs_is_cancelled_too() -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    with Session() as session:
        taken = never("")

        with pytest.raises(CancelledError, match="the run was cancelled"):
            _run(session, taken, cancellation)

        assert session.run(value("")) == 1.0


def test_runs_of_other_threads_are_not_ended() -> None:
    cancellation = Cancellation()
    with Session() as session:
        cancellation.cancel()

        assert session.run(value("")) == 1.0


def _run(session: Session, fetch: Any, cancellation: Cancellation) -> Any:
    with cancellation.of_this_thread():
        return session.run(fetch, deadline_s=20)
