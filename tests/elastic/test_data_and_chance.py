"""What the steps of an elastic training read and draw is the same when done again."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kit
from kit.graph.graph import Graph
from kit.graph.ops.math import random
from kit.graph.ops.state.source import placeholder
from kit.graph.variable import Variable
from kit.task import Task
from kit.testing.cluster import local_cluster
from kit.testing.processes import ProcessCluster
from kit.testing.task_process import until
from kit.training.optimizers.rule import Slot
from tests.elastic.scene import LEADER, OTHER, awaits_its_end, kill, losses, train
from tests.training import compressed
from tests.training.toy import BATCH, X, Y, fit, replayed, same_bits

pytestmark = [pytest.mark.slow, pytest.mark.lasting("process", "descriptor")]
PROCESSES = {"ps": 1, "worker": 3}
STEPS = 80
PACE_S = 0.012  # of a step: there is a copy long before a victim stops
FIVE = kit.Elastic(logical_workers=5)


def begin(cluster: Any, step: Any, **changes: Any) -> kit.Run:
    return train(cluster, step, steps=STEPS, **changes)


def slow_fit(params: Any, batch: Any) -> Any:
    time.sleep(PACE_S)
    return fit(params, batch)


def drawing(params: Any, batch: Any, rng: np.random.Generator) -> Any:
    time.sleep(PACE_S)
    x, y = batch
    return fit(params, (x + rng.normal(size=x.shape).astype(x.dtype), y))


def carrying(params: Any, batch: Any, state: dict[str, Any]) -> Any:
    """Do a step that depends on all mini-batches before, and on their number."""
    time.sleep(PACE_S)
    x, y = batch
    state["n"] = state.get("n", 0) + 1
    state["mean"] = 0.9 * state.get("mean", np.zeros(3, x.dtype)) + x.mean(0)
    return fit(params, (x + state["mean"] / state["n"], y))


def carrying_little(params: Any, batch: Any, state: dict[str, Any]) -> Any:
    time.sleep(PACE_S)
    state["n"] = state.get("n", 0) + 1
    loss, gradients = compressed.fit(params, batch)
    return loss, gradients | {"b": gradients["b"] / state["n"]}


class Batches:
    """Mini-batches that can be read from the beginning any number of times."""

    def __iter__(self) -> Iterator[Any]:
        for step in range(STEPS):
            time.sleep(0.001)
            dice = np.random.default_rng(step)
            yield dice.normal(size=(BATCH, 3)), dice.normal(size=BATCH)


def slow_batches() -> Iterator[Any]:
    yield from Batches()


def blocks() -> Any:
    array = pytest.importorskip("dask.array")
    return array.from_array(X, chunks=20), array.from_array(Y, chunks=20)


def of_a_graph(cluster: Any) -> kit.Run:
    with Graph().as_default():
        x, y = placeholder("float32", (None, 3)), placeholder("float32", (None,))
        w = Variable(np.zeros((3, 1), np.float32), name="w")
        noise = random.uniform((3, 1), dtype="float32")
        loss = (((x @ (w * noise)).sum(axis=1) - y) ** 2).mean()
    how: dict[str, Any] = {"steps": STEPS, "batch": BATCH, "elastic": True}
    how |= {"topology": "ring", "link": "1gbit,3ms"}
    return kit.train(loss, {x: X, y: Y}, cluster=cluster, **how)


def lose(cluster: ProcessCluster, run: kit.Run, victim: Task) -> None:
    """Lose a task when there is a copy of a later state than the first one."""
    until(lambda: run.copied > 0)
    kill(cluster, run, victim, 0)
    run.wait(30)


def fitness(params: Any) -> float:
    time.sleep(PACE_S / 2)  # two of them a step
    return float((params["w"] ** 2).sum())


def evolution(cluster: Any) -> kit.Run:
    how: dict[str, Any] = {"steps": STEPS, "population": 6, "topology": "ring"}
    return kit.evolve(fitness, {"w": np.ones(3)}, elastic=True, cluster=cluster, **how)


def after_local_steps(cluster: Any, topology: str) -> kit.Run:
    how: dict[str, Any] = {"optimizer": kit.Adam(0.01), "local_steps": 2}
    four = kit.Elastic(logical_workers=4)
    return begin(cluster, carrying, topology=topology, elastic=four, **how)


def not_sent_yet(cluster: Any) -> kit.Run:
    model: dict[str, Any] = {"params": compressed.initial(), "data": compressed.DATA}
    return begin(cluster, carrying_little, compress=kit.TopK(0.05), **model)


CASES: dict[str, tuple[Task, Callable[[Any], kit.Run]]] = {
    "draws of a step": (OTHER, lambda on: begin(on, drawing)),
    "draws of a graph": (LEADER, of_a_graph),
    "mini-batches of an object": (
        OTHER,
        lambda on: begin(on, slow_fit, data=Batches()),
    ),
    "those of a generator": (LEADER, lambda on: begin(on, slow_fit, data=slow_batches)),
    "those of dask": (OTHER, lambda on: begin(on, slow_fit, data=blocks())),
    "evolution": (LEADER, evolution),
    "state of a step": (OTHER, lambda on: begin(on, carrying)),
    "several states in a task": (LEADER, lambda on: begin(on, carrying, elastic=FIVE)),
    "what was not sent yet": (LEADER, not_sent_yet),
    "slots of local steps": (LEADER, lambda on: after_local_steps(on, "ring")),
    # And, where workers do not agree, the parameters of each.
    "slots in gossip": (OTHER, lambda on: after_local_steps(on, "gossip")),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_done_again_is_the_same(cluster: ProcessCluster, name: str) -> None:
    victim, make = CASES[name]
    with local_cluster(ps=1, worker=3) as undisturbed:
        plain = make(undisturbed).wait(30)
    with awaits_its_end(victim, STEPS):
        run = make(cluster)
    lose(cluster, run, victim)

    assert [loss.lost for loss in run.losses] == [(victim.short,)]
    assert losses(run) == losses(plain)
    assert same_bits(run.params, plain.params)


class Signs:
    """An optimizer of one's own: steps of one length, uphill never."""

    slots = (Slot("mean", 0.0),)

    def apply(
        self, parameter: Any, gradient: Any, slots: Any, out: Any, step: int
    ) -> None:
        slots[0][...] = (slots[0] + gradient) / 2
        np.subtract(parameter, np.sign(slots[0]) / 128, out=out)


def test_the_next_generations_have_an_optimizer_of_ones_own(
    cluster: ProcessCluster,
) -> None:
    run = begin(cluster, slow_fit, optimizer=Signs())
    run.resize(worker=2)
    run.wait(30)

    assert len(run.history()) == 1
    assert same_bits(run.params, replayed(STEPS, 3, Signs()))


def test_what_is_kept_is_resumed_and_survives_a_loss(
    tmp_path: Path, cluster: ProcessCluster
) -> None:
    def saved(folder: str) -> dict[str, Any]:
        path = str(tmp_path / folder)
        return {"checkpoint": kit.Checkpoints(path, every_steps=10)}

    with local_cluster(ps=1, worker=3) as undisturbed:
        plain = begin(undisturbed, carrying, **saved("once")).wait(30)
        train(undisturbed, carrying, steps=25, **saved("half")).wait(30)
    for victim in LEADER, OTHER:
        cluster.restart_dead()
        shutil.copytree(tmp_path / "half", tmp_path / victim.short)
        run = begin(cluster, carrying, victim=victim, **saved(victim.short))
        lose(cluster, run, victim)

        assert run.resumed_from is not None
        assert (run.resumed_from.step, len(run.losses)) == (25, 1)
        assert run.loss == plain.loss
        assert same_bits(run.params, plain.params)
        states = [
            kit.load_checkpoint(tmp_path / name).states
            for name in ("once", victim.short)
        ]
        for task, state in states[0].items():
            assert state["n"] == states[1][task]["n"] == STEPS
            assert np.array_equal(state["mean"], states[1][task]["mean"])


def test_a_step_that_depends_on_its_process_is_named(cluster: ProcessCluster) -> None:
    def counting(params: Any, batch: Any, count: list[int] = [0]) -> Any:  # noqa: B006
        time.sleep(PACE_S)
        count[0] += 1
        loss, gradients = fit(params, batch)
        return loss + count[0], gradients

    def with_a_loss() -> kit.Run:
        cluster.restart_dead()
        run = begin(cluster, counting, victim=OTHER)
        assert run.unrepeatable == {}
        lose(cluster, run, OTHER)
        # If not, what was lost had been copied just before.
        return run if run.losses[0].repeated else with_a_loss()

    with pytest.warns(UserWarning, match="had another loss when it was done again"):
        run = with_a_loss()
    again = range(run.losses[0].step - run.losses[0].repeated, run.losses[0].step)
    assert set(run.unrepeatable) <= {"worker:0", "worker:1", "worker:2"}
    assert all(step in again for step in run.unrepeatable.values())
