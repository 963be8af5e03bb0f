"""How a training fails: the cause wins, all end, and the next one can begin."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest

from kit.errors import (
    AbortedError,
    ClusterBusy,
    DeadlineExceededError,
    KitError,
    PeerLost,
    StepFailed,
)
from kit.settings import Settings, settings
from kit.testing.cluster import LocalCluster, local_cluster
from kit.training.client.run import Run
from kit.training.core.job import Job, Work
from kit.training.core.member import Member
from kit.training.core.questions import CoordinatorClient
from kit.training.train import train
from tests.faults import model

pytestmark = pytest.mark.slow
SOON_S = 5.0
PARAMS = {"small": np.zeros(5, "float32"), "large": np.zeros((37, 5), "float32")}


def begin(cluster: LocalCluster, step: Any = model.step, **more: Any) -> Run:
    n = sum(task.job == "worker" for task in cluster.tasks)
    chosen = {"steps": 30, "batch": n, "topology": "ring", **more}
    data = model.data(chosen["steps"], n)
    return train(step, PARAMS, data, cluster=cluster, **chosen)


def failure(run: Run) -> KitError:
    begun = time.monotonic()
    with pytest.raises(KitError) as failed:
        run.wait(4 * SOON_S)
    assert time.monotonic() - begun < SOON_S
    return failed.value


def test_member_that_cannot_reach_the_coordinator_ends_the_training_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has no way to say so itself, and the others would wait for its links."""

    def client(*_: object) -> CoordinatorClient:
        raise DeadlineExceededError("worker:0 did not take the connection in time.")

    with local_cluster(ps=0, worker=3) as cluster:
        monkeypatch.setattr(cluster.servers[2].trainings, "client", client)

        error = failure(begin(cluster))

        assert isinstance(error, DeadlineExceededError)
        assert "worker:0 did not take the connection" in error.message
        monkeypatch.undo()
        assert begin(cluster).wait(20).state == "done"


def is_bad(batch: tuple[Any, ...]) -> bool:
    number, worker = batch[0][0]
    return bool(number == 7 and worker == 1)


def raises_at_once(params: Any, batch: Any) -> Any:
    if is_bad(batch):
        raise ValueError("my own bug")
    return model.step(params, batch)


def raises_after_half(params: Any, batch: Any) -> Generator[tuple[str, Any], None, Any]:
    """The exchange of the large parameter is under way when it raises."""
    loss, result = model.step(params, batch)
    yield "large", result["large"]
    if is_bad(batch):
        raise ValueError("my own bug")
    yield "small", result["small"]
    return loss


@pytest.mark.parametrize(
    ("step", "transport"), [(raises_at_once, "auto"), (raises_after_half, "tcp")]
)
def test_the_users_own_error_wins_over_what_follows_from_it(
    step: Any, transport: str
) -> None:
    small = Settings(transport=transport, insecure=True, bucket_bytes=64)
    with local_cluster(ps=0, worker=3, settings=small) as cluster:
        with settings(bucket_bytes=64):
            run = begin(cluster, step)

        error = failure(run)

        assert isinstance(error, StepFailed)
        assert (error.task, error.step) == ("/job:worker/task:1", 7)
        assert "ValueError: my own bug" in str(error)
        for server in cluster.servers:
            member = server.trainings.find(run.job.run)
            assert member.join(SOON_S)
            assert isinstance(member.error, StepFailed)
        again = begin(cluster, optimizer="gradient_descent").wait(20)
        assert again.step == 30


def test_who_fails_during_an_exchange_does_not_wait_for_late_neighbours() -> None:
    may_go_on = threading.Event()

    def step(params: Any, batch: Any) -> Generator[tuple[str, Any], None, Any]:
        number, worker = batch[0][0]
        if number == 7 and worker != 1:
            may_go_on.wait(20)
        return (yield from raises_after_half(params, batch))

    small = Settings(bucket_bytes=64)
    with local_cluster(ps=0, worker=3, settings=small) as cluster:
        with settings(bucket_bytes=64):
            run = begin(cluster, step)
        member = cluster.servers[1].trainings.find(run.job.run)

        try:
            assert member.join(SOON_S)
        finally:
            may_go_on.set()

        assert isinstance(failure(run), StepFailed)


@pytest.mark.parametrize("absent", [0, 1, 2])
def test_a_start_that_is_given_up_ends_everywhere_soon(absent: int) -> None:
    with local_cluster(ps=0, worker=3) as cluster:
        run = begin(cluster)
        run.wait(20)
        job = Job.from_plain({**run.job.to_plain(), "run": "ab" * 16})
        work = Work(model.step, model.data(30, 3), PARAMS)
        others = [s for n, s in enumerate(cluster.servers) if n != absent]
        members = [server.trainings.begin(job, work) for server in others]

        with pytest.raises(ClusterBusy):
            others[0].trainings.begin(job, work)
        for server in others:
            server.trainings.give_up(job.run)

        for member in members:
            assert member.join(SOON_S)
            assert member.state == "failed"
            # The second may hear first that the coordinator has left it.
            assert isinstance(member.error, AbortedError | PeerLost)
        assert begin(cluster).wait(20).step == 30


def test_a_task_that_is_late_for_a_training_hears_that_another_has_begun() -> None:
    with local_cluster(ps=1, worker=1) as cluster:
        early = begin(cluster, topology="ps")
        early.wait(20)
        begin(cluster, topology="ps").wait(20)
        trainings = cluster.servers[1].trainings

        with pytest.raises(AbortedError, match="another has begun"):
            trainings.begun(early.job.run)
        assert not trainings.begun("ab" * 16)["begun"]  # one that is still to come


def test_a_server_that_is_stopped_ends_the_training_of_all() -> None:
    with local_cluster(ps=1, worker=2) as cluster:
        gate = threading.Event()

        def step(params: Any, batch: Any) -> Any:
            if batch[0][0][0] == 5:
                gate.wait(0.2)
            return model.step(params, batch)

        run = begin(cluster, step, topology="ps", steps=100_000)
        while run.step < 3:
            gate.wait(0.01)

        cluster.servers[2].stop()

        error = failure(run)
        assert "/job:worker/task:1" in error.message
        for server in cluster.servers[:2]:
            member = server.trainings.find(run.job.run)
            assert member.join(SOON_S)
            assert member.state == "failed"


def test_who_finds_a_member_can_wait_for_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may be found before it has started."""
    start, ended_early = Member.start, list[bool]()

    def ended_before(member: Member) -> None:
        ended_early.append(member.join(0.01))
        if member.me == 2:
            member.abort(AbortedError("as soon as can be"))
        start(member)

    monkeypatch.setattr(Member, "start", ended_before)
    with local_cluster(ps=0, worker=3) as cluster:
        run = begin(cluster)
        assert "as soon as can be" in failure(run).message
        result = [server.trainings.find(run.job.run) for server in cluster.servers]
        assert all(member.join(SOON_S) for member in result)

    assert ended_early == [False, False, False]
