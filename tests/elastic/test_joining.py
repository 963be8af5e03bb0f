"""A task of an elastic training that was lost takes part again."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from kit.settings import Settings, settings
from kit.task import Task
from kit.testing.processes import ProcessCluster, process_cluster
from kit.testing.task_process import until
from kit.training.client.run import Run
from kit.training.train import train
from tests.training.toy import BATCH, DATA, fit, initial

STEPS = 2000

pytestmark = [
    pytest.mark.slow,
    pytest.mark.lasting("process", "descriptor"),
]


@pytest.fixture(scope="module", params=["unix", "tcp"])
def cluster(request: pytest.FixtureRequest) -> Iterator[ProcessCluster]:
    chosen = Settings(transport=request.param)
    with process_cluster(ps=1, worker=2, settings=chosen) as result:
        yield result


def slowly(params: Any, batch: Any) -> Any:
    """Do a step of the toy that takes a little, so that something may happen in it."""
    time.sleep(0.001)
    return fit(params, batch)


def begin(cluster: ProcessCluster, step: Any = slowly, **given: Any) -> Run:
    chosen: Any = {"steps": STEPS, "batch": BATCH, "optimizer": "adam"} | given
    run: Run = train(step, initial(), DATA, cluster=cluster, **chosen)
    return run


def assert_like_the_undisturbed(cluster: ProcessCluster, run: Run) -> None:
    quiet = begin(cluster, fit, steps=run.step).wait(60)
    for name, value in run.params.items():
        np.testing.assert_array_equal(value, quiet.params[name], strict=True)
    for reply, expected in zip(run.trace.losses(), quiet.trace.losses(), strict=True):
        np.testing.assert_array_equal(reply, expected)


def end_soon(run: Run) -> None:
    """Let it do some more steps, all of them together, and end."""
    before = run.step
    until(lambda: run.step > before + 20, 20)
    run.stop()
    run.wait(30)


@pytest.mark.parametrize("task", ["ps:0", "worker:0", "worker:1"])
def test_a_task_that_is_restarted_takes_its_member_back(
    cluster: ProcessCluster, task: str
) -> None:
    cluster.restart_dead()
    run = begin(cluster, elastic=True)
    until(lambda: run.copied > 0, 20)
    cluster[Task.parse(task)].signal(signal.SIGKILL)
    until(lambda: len(run.history()) == 1, 20)

    cluster.restart_dead()
    cluster.join(run, Task.parse(task))
    until(lambda: len(run.history()) == 2, 20)

    assert run.history()[1].joined == (task,)
    assert run.newest_job.generation.places == ("ps:0", "worker:0", "worker:1")
    end_soon(run)
    assert_like_the_undisturbed(cluster, run)


@pytest.mark.parametrize("task", ["worker:0", "worker:1"])
def test_a_stopped_task_is_passed_over_and_takes_part_again_when_it_wakes_up(
    cluster: ProcessCluster, task: str
) -> None:
    cluster.restart_dead()
    with settings(heartbeat_s=0.1, suspect_after_s=0.5, dead_after_s=2.0):
        run = begin(cluster, elastic=True)
    until(lambda: run.copied > 0, 20)
    cluster[Task.parse(task)].signal(signal.SIGSTOP)
    until(lambda: len(run.history()) == 1, 20)
    assert run.history()[0].lost == (task,)
    assert run.history()[0].seconds > 2.0  # the silence counts too
    seen = run.step
    until(lambda: run.step > seen + 20, 20)  # it goes on without

    cluster[Task.parse(task)].signal(signal.SIGCONT)
    until(lambda: len(run.history()) == 2, 20)

    assert run.history()[1].joined == (task,)
    end_soon(run)
    assert_like_the_undisturbed(cluster, run)


def test_a_training_all_of_whose_tasks_were_stopped_is_watched_again(
    cluster: ProcessCluster,
) -> None:
    # It went on, and its run failed when it had waited for another generation in vain.
    cluster.restart_dead()
    quick = {"suspect_after_s": 0.5, "dead_after_s": 2.0, "start_deadline_s": 30.0}
    with settings(heartbeat_s=0.1, **quick):
        run = begin(cluster, elastic=True)
    until(lambda: run.copied > 0, 20)
    for task in cluster.tasks:
        cluster[task].signal(signal.SIGSTOP)
    until(lambda: len(run.lost) == len(cluster.tasks), 20)

    for task in cluster.tasks:
        cluster[task].signal(signal.SIGCONT)
    seen = run.step
    until(lambda: run.step > seen + 20, 20)

    until(lambda: not run.lost)
    end_soon(run)
    assert_like_the_undisturbed(cluster, run)
