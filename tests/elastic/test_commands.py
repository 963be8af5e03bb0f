"""What is asked of an elastic training is not lost with a process."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from kit.errors import KitError, UnavailableError
from kit.settings import settings
from kit.task import Task
from kit.testing.cluster import local_cluster
from kit.testing.processes import ProcessCluster, process_cluster
from kit.testing.task_process import until
from kit.training.core.coordinator import log_of
from kit.training.core.log import DecisionLog, Decisions
from kit.training.core.member import Member
from kit.training.core.snapshot import CopyPoint
from tests.elastic.scene import (
    ENDLESS,
    LEADER,
    OTHER,
    STEPS,
    assert_undisturbed,
    end,
    kill,
    train,
)
from tests.elastic.world import World

pytestmark = [pytest.mark.slow, pytest.mark.lasting("process", "descriptor")]
PROCESSES = {"ps": 1, "worker": 2}
VICTIMS = [LEADER, OTHER]


@pytest.mark.parametrize("victim", VICTIMS)
def test_a_pause_and_a_switch_for_a_later_step_last_over_a_loss(
    victim: Task, cluster: ProcessCluster
) -> None:
    run = train(cluster, steps=ENDLESS)
    until(lambda: run.step >= 30)
    run.advance(10)
    until(lambda: run.state == "paused" and not run.halting)
    stands = run.step
    run.switch("ps", at=stands + 60)
    cluster[victim].kill()
    until(lambda: len(run.losses) == 1 and run.state == "paused")
    run.advance(10)
    until(lambda: run.step == stands + 10)
    run.resume()
    until(lambda: run.step >= stands + 70)
    end(run)
    assert_undisturbed(run, 2)
    epochs = [(row.topology, row.first_step) for row in run.trace.epochs]
    assert ("ps", stands + 60) in epochs


@pytest.mark.parametrize("victim", VICTIMS)
def test_a_topology_asked_for_just_before_a_loss(
    victim: Task, cluster: ProcessCluster
) -> None:
    run = train(cluster, steps=ENDLESS)
    until(lambda: run.step >= 30)
    run.topology = "ps"
    kill(cluster, run, victim, 30)
    until(lambda: len(run.losses) == 1 and run.topology == "ps")
    end(run)


@pytest.mark.parametrize("victim", VICTIMS)
def test_an_end_asked_for_just_before_a_loss(
    victim: Task, cluster: ProcessCluster
) -> None:
    run = train(cluster, steps=ENDLESS)
    until(lambda: run.step >= 30)
    run.pause()
    until(lambda: run.state == "paused")
    cluster[victim].kill()
    end(run)
    assert 30 <= run.step < ENDLESS


def test_what_is_asked_for_is_kept_when_a_training_begins_anew(
    cluster: ProcessCluster,
) -> None:
    # It stops so early that there is one copy.
    with settings(crash="worker:1@3:step.begun:SIGSTOP"):
        run = train(cluster)
    run.pause()
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
        run = train(cluster, steps=ENDLESS)
        for n_changes in range(1, 7):
            run.resize(worker=1 + n_changes % 3)
            until(lambda n=n_changes: len(run.history()) == n)  # type: ignore[misc]
            run.pause()
            assert run.params
            until(lambda: run.state == "paused")
            run.resume()
        end(run)
        assert not run.losses


def test_a_generation_that_was_told_to_end_takes_no_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with local_cluster(ps=0, worker=2) as cluster:
        run = train(cluster, steps=ENDLESS)
        until(lambda: run.copied >= 0)
        trainings = cluster.servers[0].trainings
        coordinator = trainings.find(run.job.run).coordinator
        assert coordinator is not None
        with monkeypatch.context() as patch:
            patch.setattr(Member, "abort", ends_later)
            reply = trainings.elastic(run.job.run).claim(1, after=0)
            assert reply["granted"]
            assert reply["noted"]["is_stopped"] is False

        with pytest.raises(UnavailableError, match="is over"):
            coordinator.command("stop")

        until(lambda: len(run.history()) == 1)
        end(run)


def test_a_request_that_too_few_know_is_asked_again_and_counts_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The others have let the next generation have the log, and this one goes on.
    with local_cluster(ps=0, worker=3) as cluster, ThreadPoolExecutor(1) as threads:
        run = train(cluster, steps=ENDLESS)
        run.pause()
        until(lambda: run.state == "paused" and not run.halting and run.copied >= 0)
        stands = run.step
        elastic = [server.trainings.elastic(run.job.run) for server in cluster.servers]
        with monkeypatch.context() as patch:
            patch.setattr(Member, "abort", lambda *_: None)
            for item in elastic[1:]:
                assert item.claim(1, after=0)["granted"]

        asked = threads.submit(run.advance, 5)
        until(lambda: run.step == stands + 5)
        assert not asked.done()
        elastic[0].lose(0, "a line was cut")
        asked.result(20)

        until(lambda: len(run.history()) == 1 and run.state == "paused")
        until(lambda: not run.halting)
        assert run.step == stands + 5
        run.resume()
        end(run)


def test_what_a_generation_begins_with_is_known_though_its_coordinator_is_lost() -> (
    None
):
    # There may be no copy yet that has it.
    world = World(2)
    training = world.machines[OTHER.short].training
    before = world.job.generation
    assert before is not None
    job = replace(world.job, run="1" * 32, generation=replace(before, number=1))
    log = log_of(job, None)
    log.append(1, Decisions.command, what="pause", values={})
    training.claim(1, after=0)

    training.begin(job, CopyPoint(0), {}, log.to_plain())

    reply = training.claim(2, after=1)
    assert DecisionLog.from_plain(reply["noted"]).now == log.now


def test_no_end_comes_before_a_step_that_was_seen() -> None:
    # Those that had done it may all be lost, and what they told is known.
    with local_cluster(ps=0, worker=2) as cluster:
        run = train(cluster, steps=ENDLESS)
        run.pause()
        until(lambda: run.state == "paused" and not run.halting)
        coordinator = cluster.servers[0].trainings.find(run.job.run).coordinator
        assert coordinator is not None
        seen = run.step + 20

        coordinator.seen(seen)

        assert coordinator.plain_log()["reached"] == seen  # for the next generation
        end(run)
        assert run.step == seen


def ends_later(self: Member, error: KitError) -> None:
    """Note why a member is to end, which computes and hears of it later."""
    self.error = self.error or error  # its step may be interrupted meanwhile
