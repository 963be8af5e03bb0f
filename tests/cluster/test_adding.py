"""A running cluster gets one more task, or does without one from now on."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kit
from kit.cluster.adding import check_may_change
from kit.cluster.cluster import Cluster
from kit.cluster.launchers import SSH
from kit.cluster.loop import LoopTask
from kit.errors import (
    CancelledError,
    ClusterBusy,
    FailedPreconditionError,
    InvalidArgumentError,
    PlacementError,
)
from kit.task import Task
from kit.testing.task_process import until
from tests.training.toy import BATCH, DATA, fit, initial, same_bits

pytestmark = pytest.mark.slow


def slowly(params: Any, batch: Any) -> Any:
    time.sleep(0.005)
    return fit(params, batch)


def train(cluster: Cluster, step: Any = slowly, **more: Any) -> kit.Run:
    chosen: dict[str, Any] = {"optimizer": "adam", "topology": "ring"} | more
    return kit.train(step, initial(), DATA, cluster=cluster, batch=BATCH, **chosen)


def test_an_added_task_is_as_good_as_the_others_until_it_is_removed(
    gone: Callable[[], None],
) -> None:
    with Cluster(ps=1, worker=1) as cluster:
        with pytest.raises(InvalidArgumentError, match="no job is called 'chief'"):
            cluster.add("chief")
        assert cluster.add() == Task("worker", 1)
        assert cluster.add("worker") == Task("worker", 2)

        server, first, second, third = pids = cluster.call("all", os.getpid)
        assert len({*pids}) == 4
        assert [item.pid for item in cluster.status] == pids
        assert len(cluster.spec.tasks()) == 4
        assert cluster.on("worker:2", "1 + 1")[0].result == "2"
        assert cluster.log_path("worker:2").is_file()
        assert len(train(cluster, fit, steps=3).wait(30).job.workers) == 3

        cell = cluster.begin_cell("worker:1", "import time; time.sleep(60)")
        cluster.remove("worker:1")

        until(lambda: not cell.waiting, 20)
        assert "worker:1 was removed from the cluster" in cell.failures[0].line
        names = [task.short for task in cluster.tasks]
        assert names == ["ps:0", "worker:0", "worker:2"]
        assert cluster.call("all", os.getpid) == [server, first, third]
        until(lambda: not Path(f"/proc/{second}").exists(), 10)
        with pytest.raises(PlacementError, match="no task or job is called 'worker:1'"):
            cluster.call("worker:1", os.getpid)
        assert len(train(cluster, fit, steps=3).wait(30).job.workers) == 2
        with kit.Session(cluster) as session:
            with kit.device("/job:worker/task:2"):
                total = kit.constant(2.0) + 3.0
            assert session.run(total) == 5.0

        assert cluster.add() == Task("worker", 1)  # the first free number
        cluster.restart("worker:1")
        assert cluster.call("worker:1", os.getpid) not in pids

        run = train(cluster, steps=100_000)
        with pytest.raises(ClusterBusy, match="cannot remove ps:0 while a training"):
            cluster.remove("ps:0")
        run.stop()
        run.wait(30)
        cluster.remove("ps:0")
        assert cluster.options.jobs == {"worker": 3}
    gone()


def test_changes_that_begin_before_others_end_do_not_meddle(
    gone: Callable[[], None],
) -> None:
    with Cluster(ps=0, worker=2) as cluster:
        works = [cluster.begin_add(), cluster.begin_add()]
        restarting = cluster.begin_restart("worker:0")
        with pytest.raises(ClusterBusy, match="worker:0 is being restarted already"):
            cluster.begin_remove("worker:0")
        with pytest.raises(ClusterBusy, match="training: worker:0 is being restarted"):
            train(cluster, fit, steps=3)
        added = [work.result(60) for work in works]
        restarting.result(60)

        assert added == [Task("worker", 2), Task("worker", 3)]
        assert cluster.tasks == [Task("worker", index) for index in range(4)]
        assert [output.task for output in cluster.status] == cluster.tasks
        # Each finds each: over a mesh, all of them dial all others.
        assert len(train(cluster, topology="mesh", steps=3).wait(60).job.workers) == 4

        removing = [cluster.begin_remove(f"worker:{index}") for index in (0, 2, 3)]
        for change in cluster.begin_remove, cluster.begin_restart:
            with pytest.raises(ClusterBusy, match="worker:2 is being removed already"):
                change("worker:2")
        with pytest.raises(FailedPreconditionError, match="worker:1 is the only"):
            cluster.begin_remove("worker:1")
        more = cluster.begin_add()
        for work in removing:
            work.result(60)

        assert more.result(60) == Task("worker", 4)
        assert cluster.tasks == [Task("worker", 1), Task("worker", 4)]
        assert len(set(cluster.call("all", os.getpid))) == 2
    gone()


def test_a_stop_ends_the_changes_under_way(gone: Callable[[], None]) -> None:
    cluster = Cluster(ps=0, worker=2).start()
    works: list[LoopTask[Any]] = [
        *(cluster.begin_add(), cluster.begin_add()),
        cluster.begin_remove("worker:1"),
    ]

    cluster.stop()

    gone()
    for work in works:
        with pytest.raises(CancelledError, match="was stopped"):
            work.result(0)


def test_an_elastic_training_takes_in_a_task_that_is_added_and_lets_one_go(
    gone: Callable[[], None],
) -> None:
    with Cluster(ps=1, worker=2) as cluster:
        options = kit.Elastic(logical_workers=3)
        run = train(cluster, elastic=options, steps=100_000)
        until(lambda: run.step > 10, 20)

        added = cluster.add("worker")
        until(lambda: len(run.history()) == 1, 20)
        assert run.history()[0].joined == (added.short,)
        assert run.newest_job.generation.places[-1] == added.short
        until(lambda: (run.trace.steps["epoch"] == 2).any(), 20)
        with pytest.raises(ClusterBusy, match="at most 3 tasks can take part"):
            cluster.add("worker")

        cluster.remove("worker:0")  # it leads
        until(lambda: len(run.history()) == 2, 20)
        assert run.history()[1].left == ("worker:0",)
        seen = run.step
        until(lambda: run.step > seen + 10, 20)
        run.stop()
        run.wait(30)

        assert run.losses == ()
        assert [change.repeated for change in run.history()] == [0, 0]
        steps, _ = run.trace.losses()
        assert steps.tolist() == list(range(run.step))
        cluster.add("worker")
        plain = train(cluster, fit, steps=run.step).wait(60)
        assert same_bits(run.params, plain.params)
    gone()


def test_tasks_of_a_launcher_stay_as_they_are() -> None:
    cluster = Cluster(ps=0, worker=1, launcher=SSH({"nodea": 1}))
    with pytest.raises(FailedPreconditionError, match="were brought by a launcher"):
        check_may_change(cluster.options)
    check_may_change(Cluster().options)
