"""Which tasks a training is said to have lost, no matter who noticed it first."""

from __future__ import annotations

import pytest

import kit
from kit.errors import ClusterBusy, PeerLost
from kit.testing.task_process import until
from kit.training.client.watched import Watched, gone
from tests.training.paced import LONG_S, begin
from tests.training.toy import quick_cluster

MANY = 1_000_000


def running_without_its_last_worker(n_steps: int = 20) -> kit.Run:
    """Return a finished training whose last task was stopped and still answered."""
    with quick_cluster(1, 3) as cluster:
        run = begin(cluster, steps=MANY, aggregate=2)
        until(lambda: run.step > n_steps)
        # All that a stopped task does but for its links: who asks it is answered.
        cluster.servers[-1].trainings.close(LONG_S)
        until(lambda: bool(run.lost))
        seen = run.step
        until(lambda: run.step > seen + n_steps)
        assert run.state == "running"
        run.stop()
        run.wait(LONG_S)
    return run


@pytest.mark.slow
def test_worker_that_gave_up_and_still_answers_is_lost_while_the_steps_go_on() -> None:
    run = running_without_its_last_worker()

    assert run.state == "done"
    assert list(run.lost) == ["worker:2"]
    assert "/job:worker/task:2 was stopped" in run.lost["worker:2"]


@pytest.mark.slow
def test_worker_whose_loss_ends_the_training_is_lost() -> None:
    with quick_cluster(1, 3) as cluster:
        run = begin(cluster, steps=MANY)
        until(lambda: run.step > 20)
        cluster.servers[-1].trainings.close(LONG_S)
        with pytest.raises(PeerLost, match="/job:worker/task:2 is gone"):
            run.wait(LONG_S)

    assert list(run.lost) == ["worker:2"]
    assert run.step > 20


def test_task_that_has_let_go_of_a_training_still_tells_its_last_step() -> None:
    with quick_cluster(1, 1) as cluster:
        run = begin(cluster, steps=7).wait(LONG_S)
        for server in cluster.servers:
            server.trainings.close(LONG_S)
        steps = [item.trainings.find(run.job.run).step for item in cluster.servers]

    assert steps == [7, 7]


def member(state: str, error: str = "") -> Watched:
    return Watched(state=state, error=ClusterBusy(error) if error else None)


def test_who_cannot_be_reached_is_gone_with_what_was_seen_here() -> None:
    cut = Watched()
    cut.lose(PeerLost("the way to worker:1 is cut"))

    assert gone([member("running"), cut], {}) == {1: "the way to worker:1 is cut"}


def test_who_failed_is_gone_if_the_training_goes_on_without_it() -> None:
    failed = member("failed", "worker:1 was stopped")
    reply = {"1": "worker:1 is gone"}

    assert gone([member("running"), failed], reply) == {1: "worker:1 was stopped"}


def test_who_failed_with_all_others_is_not_gone() -> None:
    both = [member("failed", "no such model"), member("failed", "no such model")]

    assert gone(both, {}) == {}


def test_who_has_not_said_anything_is_gone_by_the_word_of_the_coordinator() -> None:
    reply = {"0": "worker:0 is gone: it has been silent for 2.0 s"}

    assert gone([member("running"), member("running")], reply) == {0: reply["0"]}
