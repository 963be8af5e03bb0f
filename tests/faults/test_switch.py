"""Switching the topology while training: all members or none, and no bit differs."""

from __future__ import annotations

import random
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kit.errors import InvalidArgumentError, PeerLost
from kit.settings import settings
from kit.task import Task
from kit.testing.cluster import local_cluster
from kit.testing.processes import ProcessCluster
from kit.testing.task_process import until
from kit.training.optimizers.rules import Momentum
from kit.training.train import train
from tests.faults import model, scene

pytestmark = pytest.mark.slow
SWITCHES, STEPS = 200, 700
TOPOLOGIES = ("ps", "ring", "ring-whole", "mesh", "hierarchical")


@pytest.mark.lasting("process", "descriptor")
@pytest.mark.parametrize("point", ["epoch.prepared", "epoch.committed"])
@pytest.mark.parametrize("task", ["ps:0", "worker:0", "worker:1"])
def test_a_task_killed_while_switching_leaves_all_in_one_list_of_epochs(
    with_ps: ProcessCluster, tmp_path: Path, task: str, point: str
) -> None:
    with_ps.restart_dead()
    lost = Task.parse(task)
    run = scene.begin(with_ps, tmp_path, 20_000, crash=f"{task}@1+:{point}:SIGKILL")

    until(lambda: run.step > 0, 20)
    run.topology = "ring"

    assert with_ps[lost].wait_for_death(20) == -signal.SIGKILL
    error = scene.failure(run)
    assert isinstance(error, PeerLost)
    assert error.task == str(lost)
    survivors = [item for item in with_ps.tasks if item != lost]
    scene.assert_over_naming(with_ps, run, lost, survivors)
    events = scene.assert_history_holds(tmp_path)
    begun = scene.epochs_by_task(events)
    assert begun[task][0] == (1, "ps")
    if point == "epoch.prepared":
        # It had not said that it was ready: nobody may have begun without it.
        assert all(epochs == [(1, "ps")] for epochs in begun.values())
    else:
        assert begun[task] == [(1, "ps"), (2, "ring")]
    assert model.same_bits(run.params, model.replayed(run.step, 2))


def test_two_hundred_switches_change_no_bit_and_every_byte_is_accounted_for(
    tmp_path: Path,
) -> None:
    dice = random.Random(2)
    places = sorted(dice.sample(range(1, STEPS), SWITCHES))
    names, now = [], "ps"
    for _ in places:
        now = dice.choice([name for name in TOPOLOGIES if name != now])
        names.append(now)
    may_begin = threading.Event()

    def step(params: dict[str, Any], batch: tuple[Any, ...]) -> Any:
        assert may_begin.wait(20)
        return model.step(params, batch)

    with (
        settings(history=str(tmp_path)),
        local_cluster(ps=2, worker=3) as cluster,
    ):
        run = train(
            step,
            model.initial(),
            model.data(STEPS, 3),
            optimizer=Momentum(model.RATE, model.DECAY),
            steps=STEPS,
            batch=3,
            cluster=cluster,
        )
        for position, name in zip(places, names, strict=True):
            run.switch(name, at=position)
        may_begin.set()
        run.wait(50)

        got = [(row.first_step, row.topology) for row in run.trace.epochs]
        assert got == [(0, "ps"), *zip(places, names, strict=True)]
        assert model.same_bits(run.params, model.replayed(STEPS, 3))
        assert all(entry.agrees for entry in run.traffic)
        assert len(run.traffic) == 5 * (SWITCHES + 1)
        assert all(measured == formula for _, measured, formula in run.moved_once)

    scene.assert_history_holds(tmp_path)


def test_a_refused_switch_leaves_the_training_as_it_was(tmp_path: Path) -> None:
    with settings(history=str(tmp_path)), local_cluster(ps=0, worker=2) as cluster:
        run = train(
            model.step,
            model.initial(),
            model.data(300, 2),
            optimizer=Momentum(model.RATE, model.DECAY),
            topology="ring",
            steps=300,
            batch=2,
            cluster=cluster,
        )

        with pytest.raises(
            InvalidArgumentError, match="needs a parameter server"
        ) as refused:
            run.topology = "ps"
        run.wait(30)

        assert "ps=1" in str(refused.value)
        assert model.same_bits(run.params, model.replayed(300, 2))
        assert np.unique(run.trace.steps["epoch"]).tolist() == [1]
