"""What the steps of an elastic training read and draw is the same when done again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
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
from kit.testing.processes import ProcessCluster, process_cluster
from kit.training.optimizers.rule import Slot
from tests.elastic.scene import (
    LEADER,
    OTHER,
    awaits_its_end,
    kill,
    losses,
    train,
)
from tests.training import compressed
from tests.training.toy import BATCH, DATA, X, Y, fit, initial, same_bits

pytestmark = pytest.mark.slow
VICTIMS = [LEADER, OTHER]
STEPS, AT = 60, 20


def survives(
    cluster: ProcessCluster, begin: Any, victims: Sequence[Task] = VICTIMS
) -> None:
    """Compare trainings that have a loss, one for each victim, with one without."""
    plain = begin().wait(30)
    for victim in victims:
        cluster.restart_dead()
        with awaits_its_end(victim, STEPS):
            run = begin()
        kill(cluster, run, victim, AT)
        run.wait(30)

        assert [loss.lost for loss in run.losses] == [(victim.short,)]
        assert losses(run) == losses(plain), victim
        assert same_bits(run.params, plain.params), victim


def drawing(params: Any, batch: Any, rng: np.random.Generator) -> Any:
    time.sleep(0.002)
    x, y = batch
    return fit(params, (x + rng.normal(size=x.shape).astype(x.dtype), y))


def test_a_step_that_draws() -> None:
    with process_cluster(ps=0, worker=3) as cluster:

        def begin() -> kit.Run:
            options: dict[str, Any] = {
                "steps": STEPS,
                "batch": BATCH,
                "topology": "ring",
            }
            return kit.train(
                drawing, initial(), DATA, elastic=True, cluster=cluster, **options
            )

        survives(cluster, begin)


def test_a_graph_that_draws() -> None:
    with Graph().as_default():
        x, y = placeholder("float32", (None, 3)), placeholder("float32", (None,))
        w = Variable(np.zeros((3, 1), np.float32), name="w")
        noise = random.uniform((3, 1), dtype="float32")
        loss = (((x @ (w * noise)).sum(axis=1) - y) ** 2).mean()

    with process_cluster(ps=1, worker=2) as cluster:

        def begin() -> kit.Run:
            options: dict[str, Any] = {
                "steps": STEPS,
                "batch": BATCH,
                "link": "1gbit,2ms",
            }
            return kit.train(
                loss, {x: X, y: Y}, elastic=True, cluster=cluster, **options
            )

        survives(cluster, begin)


class Batches:
    """Mini-batches that can be read from the beginning any number of times."""

    def __iter__(self) -> Iterator[Any]:
        for step in range(STEPS):
            time.sleep(0.001)
            dice = np.random.default_rng(step)
            yield dice.normal(size=(BATCH, 3)), dice.normal(size=BATCH)


def slow_batches() -> Iterator[Any]:
    yield from Batches()


@pytest.mark.parametrize("data", [Batches(), slow_batches, "dask"])
def test_data_that_are_read_on_the_way(data: Any) -> None:
    if data == "dask":
        array = pytest.importorskip("dask.array")
        data = array.from_array(X, chunks=20), array.from_array(Y, chunks=20)

    with process_cluster(ps=0, worker=3) as cluster:

        def begin() -> kit.Run:
            options: dict[str, Any] = {
                "steps": STEPS,
                "batch": BATCH,
                "topology": "ring",
            }
            return kit.train(
                slow_fit, initial(), data, elastic=True, cluster=cluster, **options
            )

        survives(cluster, begin)


def slow_fit(params: Any, batch: Any) -> Any:
    time.sleep(0.002)
    return fit(params, batch)


def fitness(params: Any) -> float:
    time.sleep(0.0005)
    return float((params["w"] ** 2).sum())


def test_evolution() -> None:
    with process_cluster(ps=0, worker=3) as cluster:

        def begin() -> kit.Run:
            options: dict[str, Any] = {
                "steps": STEPS,
                "population": 6,
                "topology": "ring",
            }
            return kit.evolve(
                fitness, {"w": np.ones(3)}, elastic=True, cluster=cluster, **options
            )

        survives(cluster, begin)


def carrying(params: Any, batch: Any, state: dict[str, Any]) -> Any:
    """Do a step that depends on all mini-batches before, and on their number."""
    time.sleep(0.002)
    x, y = batch
    state["n"] = state.get("n", 0) + 1
    state["mean"] = 0.9 * state.get("mean", np.zeros(3, x.dtype)) + x.mean(0)
    return fit(params, (x + state["mean"] / state["n"], y))


@pytest.mark.parametrize("logical", [None, 5])
def test_a_step_that_carries_a_state(logical: int | None) -> None:
    with process_cluster(ps=1, worker=3) as cluster:

        def begin() -> kit.Run:
            arguments: dict[str, Any] = {
                "steps": STEPS,
                "batch": BATCH,
                "topology": "ring",
            }
            options = kit.Elastic(logical_workers=logical)
            return kit.train(
                carrying, initial(), DATA, elastic=options, cluster=cluster, **arguments
            )

        survives(cluster, begin)


def test_gradients_that_were_not_sent_yet() -> None:
    with process_cluster(ps=1, worker=3) as cluster:

        def begin() -> kit.Run:
            options: dict[str, Any] = {
                "steps": STEPS,
                "batch": BATCH,
                "topology": "ring",
            }
            options |= {"compress": kit.TopK(0.05), "elastic": True, "cluster": cluster}
            model = carrying_little, compressed.initial(), compressed.DATA
            return kit.train(*model, **options)

        survives(cluster, begin, [LEADER])


def carrying_little(params: Any, batch: Any, state: dict[str, Any]) -> Any:
    time.sleep(0.002)
    state["n"] = state.get("n", 0) + 1
    loss, gradients = compressed.fit(params, batch)
    return loss, gradients | {"b": gradients["b"] / state["n"]}


@pytest.mark.parametrize("topology", ["ring", "gossip"])
def test_the_slots_of_local_steps(topology: str) -> None:
    """And, where workers do not agree, the parameters of each."""
    with process_cluster(ps=1, worker=3) as cluster:

        def begin() -> kit.Run:
            arguments: dict[str, Any] = {"steps": STEPS, "batch": BATCH}
            arguments |= {"optimizer": kit.Adam(0.01), "local_steps": 2}
            arguments["topology"] = topology
            options = kit.Elastic(logical_workers=4)
            return kit.train(
                carrying, initial(), DATA, elastic=options, cluster=cluster, **arguments
            )

        survives(cluster, begin, [LEADER])


class Signs:
    """An optimizer of one's own: steps of one length, uphill never."""

    slots = (Slot("mean", 0.0),)

    def apply(
        self, parameter: Any, gradient: Any, slots: Any, out: Any, step: int
    ) -> None:
        slots[0][...] = (slots[0] + gradient) / 2
        np.subtract(parameter, np.sign(slots[0]) / 128, out=out)


def test_the_next_generations_have_an_optimizer_of_ones_own() -> None:
    options: dict[str, Any] = {"optimizer": Signs()}
    with process_cluster(ps=1, worker=3) as cluster:
        plain = train(cluster, elastic=False, **options).wait(30)
        run = train(cluster, **options)
        run.resize(worker=2)
        run.wait(30)

    assert len(run.history()) == 1
    assert same_bits(run.params, plain.params)


@pytest.mark.parametrize("victim", VICTIMS)
def test_what_is_kept_is_resumed_and_survives_a_loss(
    tmp_path: Path, victim: Task
) -> None:
    def begin(folder: str, steps: int, victim: Task | None = None) -> kit.Run:
        saved = kit.Checkpoints(str(tmp_path / folder), every_steps=10)
        return train(cluster, carrying, victim, steps=steps, checkpoint=saved)

    with process_cluster(ps=1, worker=3) as cluster:
        plain = begin("once", STEPS).wait(30)
        begin("twice", 25).wait(30)
        run = begin("twice", STEPS, victim)
        kill(cluster, run, victim, 35)
        run.wait(30)

        assert run.resumed_from is not None
        assert (run.resumed_from.step, len(run.losses)) == (25, 1)
        assert run.loss == plain.loss
        assert same_bits(run.params, plain.params)
    first, other = (kit.load_checkpoint(tmp_path / name) for name in ("once", "twice"))
    for task, state in first.states.items():
        assert state["n"] == other.states[task]["n"] == STEPS
        assert np.array_equal(state["mean"], other.states[task]["mean"])


def test_a_step_that_depends_on_its_process_is_named() -> None:
    def counting(params: Any, batch: Any, count: list[int] = [0]) -> Any:  # noqa: B006
        time.sleep(0.002)
        count[0] += 1
        loss, gradients = fit(params, batch)
        return loss + count[0], gradients

    def with_a_loss(cluster: ProcessCluster) -> kit.Run:
        options: dict[str, Any] = {"steps": STEPS, "batch": BATCH, "topology": "ring"}
        with awaits_its_end(OTHER, STEPS):
            run = kit.train(
                counting, initial(), DATA, elastic=True, cluster=cluster, **options
            )
        assert run.unrepeatable == {}
        kill(cluster, run, OTHER, AT)
        run.wait(30)
        if run.losses[0].repeated:
            return run
        cluster.restart_dead()  # what was lost had been copied just before
        return with_a_loss(cluster)

    with process_cluster(ps=0, worker=3) as cluster:
        with pytest.warns(UserWarning, match="had another loss when it was done again"):
            run = with_a_loss(cluster)
        again = range(run.losses[0].step - run.losses[0].repeated, run.losses[0].step)
        assert set(run.unrepeatable) <= {"worker:0", "worker:1", "worker:2"}
        assert all(step in again for step in run.unrepeatable.values())
