"""A program that is not a task looks at servers that others have started."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import kit
from kit.errors import (
    AuthenticationFailed,
    CancelledError,
    FailedPreconditionError,
    InvalidArgumentError,
    UnavailableError,
    UnimplementedError,
)
from kit.testing.task_process import until
from kit.wire.handshake.credentials import Credentials
from tests.server.attached import clusters, look
from tests.server.ports import free_ports
from tests.training.toy import begin

SOON_S, LONG = 20.0, 100_000


@pytest.mark.parametrize("transport", ["tcp", "unix"])
def test_any_server_tells_where_all_tasks_are_and_no_secret(
    transport: str,
) -> None:
    with clusters(1, 2, transport) as cluster:
        for number in range(3):
            attached = look(cluster, number)

            assert attached.tasks == cluster.tasks
            assert (
                attached.directory.addresses == cluster.servers[0].directory.addresses
            )
            assert [str(item) for item in attached.status] == [
                "ps:0 ready",
                "worker:0 ready",
                "worker:1 ready",
            ]
            assert attached.run is None
            assert repr(attached.directory.credentials.key) not in repr(attached)
            assert "Credentials" not in repr(attached)


def test_a_task_that_does_not_answer_is_named_with_the_reason() -> None:
    with clusters(1, 1) as cluster:
        attached = look(cluster)
        cluster.servers[1].stop()

        ps, worker = attached.status

    assert ps.is_there
    assert not worker.is_there
    assert str(worker).startswith("worker:0 does not answer (nothing answers at")


@pytest.mark.slow
def test_a_training_of_others_is_watched_and_steered_to_its_end() -> None:
    with clusters(1, 2) as cluster:
        begun = begin(cluster, steps=LONG)

        watched = look(cluster, 2).run

        assert watched is not None
        assert watched.job == begun.job
        watched.topology = "ring"
        while begun.topology != "ring":
            assert watched.state == "running"
        watched.stop()
        watched.wait(SOON_S)
        begun.wait(SOON_S)
        assert watched.step == begun.step
        np.testing.assert_array_equal(watched.params["w"], begun.params["w"])
        last = look(cluster).run
        assert last is not None
        assert last.wait(SOON_S).step == begun.step
        assert {item.state for item in look(cluster).status} == {"done"}


def watchers() -> list[str]:
    return [text.name for text in threading.enumerate() if "kit-watch" in text.name]


@pytest.mark.slow
def test_a_training_has_one_run_however_often_it_is_asked_for() -> None:
    with clusters(1, 2) as cluster:
        begun = begin(cluster, steps=LONG)
        attached = look(cluster, 2)
        n_before = len(watchers())

        with ThreadPoolExecutor(4) as pool:
            runs = {id(run) for run in pool.map(lambda _: attached.run, range(8))}

        assert len(runs) == 1
        assert len(watchers()) == n_before + 1
        begun.stop()
        begun.wait(SOON_S)
        assert attached.run is not None
        assert id(attached.run.wait(SOON_S)) in runs
        again = begin(cluster, steps=5)
        again.wait(SOON_S)
        assert attached.run is not None
        assert attached.run.job.run == again.job.run


@pytest.mark.parametrize("transport", ["tcp", "unix"])
def test_a_run_of_others_knows_its_step_and_loss_at_once(transport: str) -> None:
    with clusters(1, 2, transport) as cluster:
        begun = begin(cluster, steps=LONG)
        begun.switch("ring", at=40)
        begun.advance(60)
        until(lambda: begun.state == "paused" and not begun.halting, SOON_S)
        until(lambda: np.count_nonzero(begun.trace.steps["step"] == 59) == 2, SOON_S)

        run = look(cluster).run

        assert run is not None
        assert (run.step, run.loss, run.state) == (begun.step, begun.loss, "paused")
        begun.stop()
        begun.wait(SOON_S)
        last = look(cluster).run
        assert last is not None
        assert (last.step, last.loss) == (begun.step, begun.loss)


@pytest.mark.slow
def test_a_closed_run_of_others_ends_its_watch_and_not_the_training() -> None:
    with clusters(1, 2) as cluster:
        begun = begin(cluster, steps=LONG)
        attached = look(cluster)
        n_before = len(watchers())
        run = attached.run
        assert run is not None
        assert len(watchers()) > n_before

        run.close()
        run.close()

        until(lambda: len(watchers()) == n_before, SOON_S)
        assert run.done
        assert run.state == "running"
        for refused in (run.wait, run.pause, run.stop, lambda: asyncio.run(wait(run))):
            with pytest.raises(CancelledError, match=r"run\.close\(\).*it goes on"):
                refused()
        with pytest.raises(FailedPreconditionError):
            _ = run.traffic
        at = begun.step
        while begun.step <= at:
            assert begun.state == "running"
        another = attached.run
        assert another is not None
        assert another is not run
        another.stop()
        assert begun.wait(SOON_S).error is None
        assert another.wait(SOON_S).step == begun.step


async def wait(run: kit.Run) -> None:
    await run


def test_a_session_runs_its_graph_there() -> None:
    with clusters(1, 1) as cluster, kit.Graph().as_default():
        with kit.device("/job:ps/task:0"):
            doubled = kit.constant(np.float32(21)) * 2
        with kit.Session(look(cluster).session_target) as session:
            assert session.run(doubled) == 42


def test_a_training_cannot_begin_from_there() -> None:
    with clusters(0, 1) as cluster:
        attached = look(cluster)

        with pytest.raises(UnimplementedError, match="program of every worker"):
            begin(attached, topology="ring")


def test_other_credentials_are_not_let_in() -> None:
    with clusters(0, 1, "unix") as cluster:
        server = cluster.servers[0]

        with pytest.raises(AuthenticationFailed):
            kit.attach(
                server.target,
                credentials=Credentials.new(certificate=False),
                settings=server.settings,
            )


def test_an_address_without_a_server_is_told(tmp_path: Path) -> None:
    settings = kit.Settings(runtime_dir=str(tmp_path))
    secrets = Credentials.new(certificate=False)
    (port,) = free_ports(1)

    with pytest.raises(UnavailableError, match="nothing answers"):
        kit.attach(f"127.0.0.1:{port}", credentials=secrets, settings=settings)
    with pytest.raises(InvalidArgumentError, match="host:port"):
        kit.attach("nodea", credentials=secrets, settings=settings)
