"""What is asked of an elastic training is not lost with a process."""

from __future__ import annotations

import signal

import pytest

from kit.task import Task
from kit.testing.processes import process_cluster
from tests.elastic.scene import LEADER, OTHER, STEPS, kill, losses, train, until
from tests.training.toy import same_bits

pytestmark = pytest.mark.slow
VICTIMS = [LEADER, OTHER]


@pytest.mark.parametrize("victim", VICTIMS)
def test_a_switch_for_a_later_step_is_kept(victim: Task) -> None:
    with process_cluster(ps=1, worker=2) as cluster:
        plain = train(cluster).wait(30)
        run = train(cluster, victim=victim)
        run.switch("ps", at=100)
        kill(cluster, run, victim, 30)
        run.wait(30)
        assert len(run.losses) == 1
        assert same_bits(run.params, plain.params)
        assert losses(run) == losses(plain)
    assert [(row.topology, row.first_step) for row in run.trace.epochs][-1] == (
        "ps",
        100,
    )


@pytest.mark.parametrize("victim", VICTIMS)
def test_a_topology_asked_for_just_before_a_loss(victim: Task) -> None:
    with process_cluster(ps=1, worker=2) as cluster:
        run = train(cluster, victim=victim)
        until(lambda: run.step >= 30)
        run.topology = "ps"
        kill(cluster, run, victim, 30)
        run.wait(30)
        assert len(run.losses) == 1
    assert run.topology == "ps"


@pytest.mark.parametrize("victim", VICTIMS)
def test_a_pause_lasts_over_a_loss(victim: Task) -> None:
    with process_cluster(ps=1, worker=2) as cluster:
        run = train(cluster)
        until(lambda: run.step >= 30)
        run.advance(10)
        until(lambda: run.state == "paused" and not run.halting)
        stands = run.step
        cluster[victim].kill()
        until(lambda: len(run.losses) == 1 and run.state == "paused")
        run.advance(10)
        until(lambda: run.step == stands + 10)
        run.resume()
        run.wait(30)
    assert run.step == STEPS


@pytest.mark.parametrize("victim", VICTIMS)
def test_an_end_asked_for_just_before_a_loss(victim: Task) -> None:
    with process_cluster(ps=1, worker=2) as cluster:
        run = train(cluster)
        until(lambda: run.step >= 30)
        run.pause()
        until(lambda: run.state == "paused")
        cluster[victim].kill()
        run.stop()
        run.wait(30)
    assert 30 <= run.step < STEPS


def test_what_is_asked_for_is_kept_when_a_training_begins_anew() -> None:
    with process_cluster(ps=1, worker=2) as cluster:
        run = train(cluster)
        run.advance(3)
        until(lambda: run.state == "paused" and not run.halting)
        run.switch("ps", at=100)
        # One has a part of the only copy, the other the copy of that.
        for victim in VICTIMS:
            cluster[victim].signal(signal.SIGKILL)
        until(lambda: len(run.losses) == 1 and run.state == "paused")
        assert run.losses[0].lost == ("worker:0", "worker:1")
        run.resume()
        run.wait(30)
    assert (run.step, run.topology) == (STEPS, "ps")
    assert run.trace.epochs[-1].first_step == 100


def test_a_generation_takes_requests_as_soon_as_it_is_known() -> None:
    with process_cluster(ps=1, worker=3) as cluster:
        run = train(cluster, steps=100_000)
        for n_changes in range(1, 11):
            run.resize(worker=1 + n_changes % 3)
            until(lambda n=n_changes: len(run.history()) == n)  # type: ignore[misc]
            run.pause()
            assert run.params
            until(lambda: run.state == "paused")
            run.resume()
        run.stop()
        run.wait(30)
        assert not run.losses
