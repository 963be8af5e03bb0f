"""An elastic training on more, fewer and other tasks: the same bits, no step again."""

from __future__ import annotations

import gc
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import kit
from kit.errors import FailedPreconditionError, InvalidArgumentError
from kit.server.trainings import Trainings
from kit.settings import settings
from kit.task import Task
from kit.testing.cluster import local_cluster
from kit.testing.processes import ProcessCluster, process_cluster
from kit.testing.task_process import until
from kit.training.client.run import Run
from kit.training.core.job import Job, Work
from tests.elastic.scene import (
    ENDLESS,
    LEADER,
    OTHER,
    assert_undisturbed,
    end,
    idly,
    kill,
    losses,
    train,
)
from tests.training.toy import fit

pytestmark = [pytest.mark.slow, pytest.mark.lasting("process", "descriptor")]
PROCESSES = {"ps": 1, "worker": 3}
ALL = {"worker:0", "worker:1", "worker:2"}


def hosts_of(run: Run) -> set[str]:
    return {
        position for position in run.newest_job.generation.places if position != "ps:0"
    }


@pytest.mark.parametrize(
    ("topology", "asked_for", "is_paused"),
    [("ring", "ps", True), ("ps", "ring", False)],
)
def test_a_training_that_is_spread_anew_again_and_again_repeats_no_step(
    cluster: ProcessCluster, topology: str, asked_for: str, is_paused: bool
) -> None:
    def await_change(number: int, hosts: set[str]) -> None:
        until(lambda: len(run.history()) == number)
        assert hosts_of(run) == hosts
        seen = run.step
        until(lambda: run.step > seen or run.state == "paused")

    six = kit.Elastic(logical_workers=6, shares={"worker:1": 3})
    run = train(cluster, elastic=six, topology=topology, steps=ENDLESS)
    assert run.newest_job.generation.places.count("worker:1") == 4
    until(lambda: run.step >= 20)
    n_open = psutil.Process().num_fds() + 1  # the link for requests

    run.rebalance({"worker:2": 3})
    await_change(1, ALL)
    assert run.newest_job.generation.places.count("worker:2") == 4
    run.resize(worker=1)
    await_change(2, {"worker:0"})
    run.resize(worker=3)
    await_change(3, ALL)
    # What was asked for before lasts.
    run.advance(10)
    until(lambda: run.state == "paused" and not run.halting)
    # Links to generations that have ended are closed.
    until(lambda: psutil.Process().num_fds() <= n_open)
    stands = run.step
    run.switch(asked_for, at=stands + 100)
    if not is_paused:
        run.resume()
    run.resize(worker=2)
    await_change(4, {"worker:0", "worker:1"})
    if is_paused:
        until(lambda: run.state == "paused")
        assert run.step == stands
        run.resume()
    until(lambda: run.topology == asked_for)
    run.leave(Task("worker", 0))
    await_change(5, {"worker:1", "worker:2"})
    end(run)

    assert_undisturbed(run, 6)
    assert run.losses == ()
    changes = [(change.left, change.repeated) for change in run.history()]
    assert changes == [*4 * [((), 0)], (("worker:0",), 0)]
    epochs = [(row.topology, row.first_step) for row in run.trace.epochs]
    assert (asked_for, stands + 100) in epochs
    assert len(run.moved_once) == 7  # with the epoch that was asked for
    assert all(measured == formula for _, measured, formula in run.moved_once)


def test_rebalance_measures_who_is_faster(
    cluster: ProcessCluster, tmp_path: Path
) -> None:
    def uneven(params: Any, batch: Any) -> Any:
        import os

        if os.getpid() == slow:
            while not begins.exists():
                time.sleep(0.001)
            time.sleep(0.01)
        return fit(params, batch)

    slow, begins = cluster[OTHER].pid, tmp_path / "begins"
    six = kit.Elastic(logical_workers=6)
    run = train(cluster, uneven, elastic=six, steps=ENDLESS)
    with pytest.raises(FailedPreconditionError, match="wait for 3"):
        run.rebalance()
    begins.touch()
    until(lambda: len(run.metrics) >= 30)
    run.rebalance()
    until(lambda: len(run.history()) == 1)
    places = run.newest_job.generation.places
    assert places.count("worker:1") == 1
    end(run)


def test_a_spare_takes_over_at_once(cluster: ProcessCluster) -> None:
    run = train(cluster, victim=OTHER, elastic=kit.Elastic(spare=1))
    assert run.newest_job.generation.standby == ("worker:2",)
    assert len(run.job.workers) == 2
    kill(cluster, run, OTHER, 30)
    run.wait(30)
    assert [loss.lost for loss in run.losses] == [("worker:1",)]
    assert hosts_of(run) == {"worker:0", "worker:2"}
    assert_undisturbed(run, 2)


def test_a_spare_goes_on_alone_when_all_others_are_killed() -> None:
    with process_cluster(ps=0, worker=2) as cluster:
        run = train(cluster, idly, elastic=kit.Elastic(spare=1), steps=ENDLESS)
        until(lambda: run.copied > 0)
        cluster[LEADER].signal(signal.SIGKILL)
        until(lambda: len(run.losses) == 1)
        assert run.losses[0].lost == ("worker:0",)
        assert hosts_of(run) == {"worker:1"}
        until(lambda: run.step > run.losses[0].step)
        end(run)
        assert_undisturbed(run, 1)


def test_a_spare_that_has_yet_to_begin_keeps_the_first_copy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def begin(self: Trainings, job: Job, work: Work) -> None:
        if self.task == OTHER:
            coordinator = cluster.servers[0].trainings.find(job.run).coordinator
            assert coordinator is not None
            until(lambda: coordinator.status()["copied"] >= 0)
        as_ever(self, job, work)

    as_ever = Trainings.begin_elastic
    monkeypatch.setattr(Trainings, "begin_elastic", begin)
    with local_cluster(ps=0, worker=2) as cluster:
        run = train(cluster, elastic=kit.Elastic(spare=1), steps=ENDLESS)
        end(run)
        assert run.history() == ()


@pytest.fixture
def no_collection() -> Iterator[None]:
    """What is not needed any more goes at once, or not at all."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("topology", ["ps", "ring"])
@pytest.mark.usefixtures("no_collection")
def test_no_file_of_a_generation_is_open_after_the_next_has_begun(
    topology: str,
) -> None:
    def resize(run: Run, n_worker: int) -> None:
        n_changes = len(run.history())
        run.resize(worker=n_worker)
        until(lambda: len(run.history()) > n_changes)
        reached = run.step + 5
        until(lambda: run.step > reached)

    def turn(run: Run) -> int:
        resize(run, 2)
        resize(run, 3)
        return psutil.Process().num_fds()

    with local_cluster(ps=1, worker=3) as cluster:
        run = train(cluster, steps=ENDLESS, topology=topology)
        # More are open while a copy is on its way, and fewer before its link is there.
        open_first = max(turn(run) for _ in range(2))
        until(lambda: turn(run) <= open_first, 40)
        until(lambda: turn(run) <= open_first, 40)
        end(run)
        assert len(run.history()) >= 8


QUICK = {"heartbeat_s": 0.1, "suspect_after_s": 0.5, "dead_after_s": 2.0}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_each_lost_spare_is_noticed_and_stands_by_again_when_it_wakes_up(
    number: int,
) -> None:
    spares = [Task("worker", 2), Task("worker", 1)]
    with process_cluster(ps=0, worker=3) as cluster, settings(**QUICK):
        run = train(cluster, idly, elastic=kit.Elastic(spare=2), steps=ENDLESS)
        lost: set[str] = set()
        for spare in spares:
            until(lambda: run.copied > 0)
            cluster[spare].signal(number)
            lost.add(spare.short)
            # A busy machine may lose the other one with it.
            until(lambda: lost <= {name for loss in run.losses for name in loss.lost})
        if number == signal.SIGSTOP:
            for spare in spares:
                cluster[spare].signal(signal.SIGCONT)
            until(lambda: set(run.newest_job.generation.standby) == lost)
            joined = [change.joined for change in run.history()]
            assert {name for names in joined for name in names} >= lost
        end(run)
        assert len(losses(run)) == run.step


def test_a_stop_of_the_one_process_with_all_members_is_noticed_on_both_sides() -> None:
    with process_cluster(ps=0, worker=3) as cluster, settings(**QUICK):
        run = train(cluster, idly, steps=ENDLESS)
        run.resize(worker=1)
        until(lambda: len(run.history()) == 1 and run.copied > 0)
        assert hosts_of(run) == {"worker:0"}
        cluster[LEADER].signal(signal.SIGSTOP)
        until(lambda: len(run.losses) == 1)
        assert hosts_of(run) == {"worker:1"}
        cluster[LEADER].signal(signal.SIGCONT)
        until(lambda: len(run.history()) == 3)
        assert run.history()[-1].joined == ("worker:0",)
        end(run)


REFUSED: list[tuple[Callable[[Run], object], str]] = [
    (lambda run: run.resize(worker=4), "at most 3 tasks can take part"),
    (lambda run: run.resize(worker=0), "worker is 0"),
    (lambda run: run.resize(worker="two"), "workers is 'two'"),  # type: ignore[arg-type]
    (lambda run: run.rebalance({"worker:7": 2}), "takes no part"),
    (lambda run: run.rebalance({"worker:1": 0}), "shares"),
    (lambda run: run.rebalance(["worker:1"]), "shares"),  # type: ignore[arg-type]
    (lambda run: run.leave(Task("worker", 7)), "takes no part"),
    (lambda run: run.leave("moon"), "moon"),
]


def test_what_cannot_be_is_refused_and_the_training_goes_on(
    cluster: ProcessCluster,
) -> None:
    run = train(cluster, steps=ENDLESS)
    for ask, words in REFUSED:
        with pytest.raises(InvalidArgumentError, match=words):
            ask(run)
    run.resize(worker=3)  # as it is
    end(run)
    assert run.history() == ()

    plain = train(cluster, elastic=False, steps=ENDLESS)
    with pytest.raises(FailedPreconditionError, match="elastic=True"):
        plain.resize(worker=2)
    end(plain)


def test_steps_that_were_not_yet_done_again_are_not_repeated_by_the_next_change() -> (
    None
):
    with process_cluster(ps=0, worker=3) as cluster:
        run = train(cluster, steps=ENDLESS)
        until(lambda: run.copied > 0)
        cluster[Task("worker", 1)].signal(signal.SIGKILL)
        until(lambda: len(run.history()) == 1)
        run.resize(worker=1)
        until(lambda: len(run.history()) == 2)
        end(run)
        lost, resized = run.history()
        assert (resized.repeated, resized.lost) == (0, ())
        assert resized.step >= lost.step


def test_elastic_is_a_flag_or_options(cluster: ProcessCluster) -> None:
    with pytest.raises(InvalidArgumentError, match=r"elastic is 'yes'; give True"):
        train(cluster, elastic="yes")
