"""A task of an elastic training that was lost takes part again."""

from __future__ import annotations

import signal

import pytest

from kit.settings import settings
from kit.task import Task
from kit.testing.processes import ProcessCluster
from kit.testing.task_process import until
from kit.training.client.run import Run
from tests.elastic.scene import ENDLESS, assert_undisturbed, idly, train

pytestmark = [pytest.mark.slow, pytest.mark.lasting("process", "descriptor")]
PROCESSES = {"ps": 1, "worker": 2}


def begin(cluster: ProcessCluster) -> Run:
    return train(cluster, idly, topology="ps", steps=ENDLESS)


def end_soon(run: Run) -> None:
    """Let it do some more steps, all of them together, and end undisturbed."""
    before = run.step
    until(lambda: run.step > before + 5, 20)
    run.stop()
    run.wait(30)
    assert_undisturbed(run, 2)


@pytest.mark.parametrize(
    ("processes", "task"),
    [("unix", "ps:0"), ("unix", "worker:1"), ("tcp", "worker:0")],
    indirect=["processes"],
)
def test_a_task_that_is_restarted_takes_its_member_back(
    cluster: ProcessCluster, task: str
) -> None:
    run = begin(cluster)
    until(lambda: run.copied > 0, 20)
    cluster[Task.parse(task)].signal(signal.SIGKILL)
    until(lambda: len(run.history()) == 1, 20)

    cluster.restart_dead()
    cluster.join(run, Task.parse(task))
    until(lambda: len(run.history()) == 2, 20)

    assert run.history()[1].joined == (task,)
    assert run.newest_job.generation.places == ("ps:0", "worker:0", "worker:1")
    end_soon(run)


@pytest.mark.parametrize(
    ("processes", "task"),
    [("unix", "worker:0"), ("tcp", "worker:1")],
    indirect=["processes"],
)
def test_a_stopped_task_is_passed_over_and_takes_part_again_when_it_wakes_up(
    cluster: ProcessCluster, task: str
) -> None:
    with settings(heartbeat_s=0.1, suspect_after_s=0.5, dead_after_s=2.0):
        run = begin(cluster)
    until(lambda: run.copied > 0, 20)
    cluster[Task.parse(task)].signal(signal.SIGSTOP)
    until(lambda: len(run.history()) == 1, 20)
    assert run.history()[0].lost == (task,)
    assert run.history()[0].seconds > 2.0  # the silence counts too
    seen = run.step
    until(lambda: run.step > seen + 5, 20)  # it goes on without

    cluster[Task.parse(task)].signal(signal.SIGCONT)
    until(lambda: len(run.history()) == 2, 20)

    assert run.history()[1].joined == (task,)
    end_soon(run)


@pytest.mark.parametrize("processes", ["tcp"], indirect=True)
def test_a_training_all_of_whose_tasks_were_stopped_is_watched_again(
    cluster: ProcessCluster,
) -> None:
    # It went on, and its run failed when it had waited for another generation in vain.
    quick = {"suspect_after_s": 0.5, "dead_after_s": 2.0, "start_deadline_s": 30.0}
    with settings(heartbeat_s=0.1, **quick):
        run = begin(cluster)
    until(lambda: run.copied > 0, 20)
    for task in cluster.tasks:
        cluster[task].signal(signal.SIGSTOP)
    until(lambda: len(run.lost) == len(cluster.tasks), 20)

    for task in cluster.tasks:
        cluster[task].signal(signal.SIGCONT)
    seen = run.step
    until(lambda: run.step > seen + 5, 20)

    until(lambda: not run.lost)
    end_soon(run)
