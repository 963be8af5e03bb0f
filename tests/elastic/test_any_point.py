"""A process killed at any point costs an elastic training no step and no bit.

The oracle is numpy alone, which replays the training.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator

import numpy as np
import pytest

from kit.faults.points import POINTS
from kit.settings import settings
from kit.task import Task
from kit.testing.processes import ProcessCluster, process_cluster
from kit.testing.task_process import until
from kit.training.client.run import Run
from kit.training.optimizers.rules import Momentum
from kit.training.train import train
from tests.elastic.scene import ONCE, TOPOLOGIES
from tests.faults import model

STEPS, AT = 24, 8

pytestmark = [
    pytest.mark.slow,
    # A test begins with a new process in the place of the one that was killed.
    pytest.mark.lasting("process", "descriptor"),
]
PROCESSES = {"ps": 1, "worker": 2}


def begin(cluster: ProcessCluster, topology: str, **more: str | float) -> Run:
    n = sum(task.job == "worker" for task in cluster.tasks)
    with settings(**more):
        return train(
            model.step,
            model.initial(),
            model.data(STEPS, n),
            optimizer=Momentum(model.RATE, model.DECAY),
            topology=topology,
            steps=STEPS,
            batch=n,
            elastic=True,
            cluster=cluster,
        )


def assert_undisturbed(run: Run, n_workers: int) -> None:
    """The run has the parameters of a replay, and each step's loss once."""
    expected = model.replayed(STEPS, n_workers)
    for name, value in run.params.items():
        np.testing.assert_array_equal(value, expected[name], strict=True)
    steps, losses = run.trace.losses()
    assert steps.tolist() == list(range(STEPS))
    assert losses.tolist() == list(range(STEPS))  # the model's loss is the step


def await_losses(run: Run, number: int) -> None:
    until(lambda: len(run.losses) == number, 20)


def cases() -> Iterator[tuple[str, str, str]]:
    for point in POINTS:
        for task in ("ps:0", "worker:0", "worker:1"):
            is_reached = point != "compute.done" or task != "ps:0"
            if not point.startswith("ckpt.") and is_reached:
                number = len(point) + len(task)  # another topology for each
                yield task, point, TOPOLOGIES[number % len(TOPOLOGIES)]


@pytest.mark.parametrize(("task", "point", "topology"), [*cases()])
def test_a_process_killed_at_any_point_costs_no_step_and_no_bit(
    cluster: ProcessCluster, task: str, point: str, topology: str
) -> None:
    lost = Task.parse(task)
    # Only with the parameter server does that one take part in the steps.
    topology = "ps" if task == "ps:0" else topology
    at = 0 if point in ONCE else AT

    run = begin(cluster, topology, crash=f"{task}@{at}:{point}:SIGKILL")

    assert cluster[lost].wait_for_death(10) == -signal.SIGKILL
    run.wait(30)
    assert [change.lost for change in run.losses] == [(task,)]
    assert run.losses[0].repeated <= STEPS
    assert_undisturbed(run, 2)


def test_bytes_are_those_of_the_formulas_in_every_generation(
    cluster: ProcessCluster,
) -> None:
    run = begin(cluster, "ring", crash=f"worker:1@{AT}:step.begun:SIGKILL")
    run.wait(30)

    first, last = {entry.epoch for entry in run.traffic}
    for entry in run.traffic:
        # The step under way when the task was lost is measured in part.
        assert entry.steps == STEPS if entry.epoch == last else entry.steps <= AT + 1
        assert entry.agrees or entry.epoch == first
    assert [moved[0] for moved in run.moved_once] == [first, last]
    for _, measured, by_formula in run.moved_once[1:]:
        assert measured == by_formula > 0


@pytest.mark.parametrize("topology", ["ps", "ring"])
@pytest.mark.parametrize("task", ["worker:0", "worker:1"])
def test_a_loss_is_survived_long_before_the_next_sign_of_life(
    task: str, topology: str, cluster: ProcessCluster
) -> None:
    run = begin(
        cluster,
        topology,
        heartbeat_s=30.0,
        suspect_after_s=100.0,
        dead_after_s=600.0,
        crash=f"{task}@{AT}:step.begun:SIGKILL",
    )
    run.wait(15)

    assert [change.lost for change in run.losses] == [(task,)]
    assert_undisturbed(run, 2)


def test_all_processes_but_one_may_be_killed_one_after_the_other() -> None:
    with process_cluster(ps=1, worker=2) as cluster:
        run = begin(cluster, "ps")
        run.pause()
        for lost in ("worker:0",), ("worker:0", "ps:0"):
            run.advance(4)
            until(lambda: run.copied >= 0, 20)
            cluster[Task.parse(lost[-1])].signal(signal.SIGKILL)
            await_losses(run, len(lost))
        run.resume()
        run.wait(30)

        assert [change.lost for change in run.losses] == [("worker:0",), ("ps:0",)]
        assert set(run.newest_job.generation.places) == {"worker:1"}
        assert_undisturbed(run, 2)
