"""Gossip: workers take the mean of their own and their neighbours' parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import kit
from kit.errors import InvalidArgumentError
from kit.exchange.plan import Group
from kit.exchange.topologies.topology import by_name, steps_to_all
from kit.rehearsal.recommend import USUAL
from kit.testing.cluster import LocalCluster
from kit.training.optimizers.rule import Optimizer
from tests.cases import for_each
from tests.training import toy
from tests.training.alone import Alone, Move, by, descend
from tests.training.paced import Held, standing
from tests.training.saved import resumed_at
from tests.training.toy import (
    Params,
    fit,
    initial,
    quick_cluster,
    replayed,
    same_bits,
)

pytestmark = pytest.mark.lasting("descriptor")
ADAM, PLAIN = kit.Adam(0.01), kit.GradientDescent(0.01)
MEAN = kit.GradientDescent(1.0)
NESTEROV = kit.Momentum(0.7, 0.9, use_nesterov=True)
N = 4


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with quick_cluster(1, N) as result:
        yield result


def begin(cluster: LocalCluster, step: Any = fit, **changes: Any) -> kit.Run:
    chosen: dict[str, Any] = {"optimizer": PLAIN, "local_steps": 1}
    return toy.begin(cluster, step, **chosen | {"topology": "gossip"} | changes)


def mixed(own: Sequence[Params], rank: int) -> Params:
    """Return the mean around a worker, added in the order of the workers."""
    n = len(own)
    first, *rest = (own[item] for item in sorted({(rank + d) % n for d in (-1, 0, 1)}))
    result = {}
    for name, value in first.items():
        for other in rest:
            value = value + other[name]
        result[name] = value / value.dtype.type(1 + len(rest))
    return result


def expected(
    topologies: Sequence[str],
    move: Move = descend,
    n: int = N,
    n_local: int = 1,
    outer: Optimizer = MEAN,
) -> Params:
    """Return the parameters after steps in these topologies, of which the last agrees.

    In those with gossip everybody mixes; in all others the moves are added up.
    """
    alone, steps = Alone(n, n_local, move), iter(enumerate(topologies))
    own_of_each: list[Params] | None = None

    def of_workers(params: Params, _: int) -> list[Params]:
        nonlocal own_of_each
        for step, name in steps:
            own = [params] * n if own_of_each is None else own_of_each
            if name != "gossip":
                own_of_each = None
                return [alone.offer(params, step, r, own[r]) for r in range(n)]
            there = [alone.walk(own[rank], step, rank) for rank in range(n)]
            own_of_each = [mixed(there, rank) for rank in range(n)]
        raise AssertionError("the last one does not agree")

    n_agreed = sum(name != "gossip" for name in topologies)
    return replayed(n_agreed, n, outer, of_workers=of_workers)


def gossip(steps: int) -> list[str]:
    return ["gossip"] * (steps - 1) + ["ring"]


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_few_workers_have_the_bits_of_the_numpy_replay(n: int) -> None:
    with quick_cluster(0, n) as cluster:
        run = begin(cluster).wait(20)

    assert same_bits(run.params, expected(gossip(6), n=n))


@pytest.mark.slow
@for_each("transport", ["unix", "tcp"])
def test_adam_and_several_local_steps_have_the_bits_of_the_replay(
    transport: str,
) -> None:
    with quick_cluster(0, 5, transport=transport) as cluster:
        cluster.hosts = list("aabba") if transport == "tcp" else ()
        run = begin(cluster, optimizer=ADAM, local_steps=3).wait(20)

    assert same_bits(run.params, expected(gossip(6), by(ADAM), 5, 3))


def test_the_last_step_agrees_and_a_step_costs_the_bytes_of_the_formula(
    cluster: LocalCluster,
) -> None:
    run = begin(cluster).wait(20)

    assert same_bits(run.params, expected(gossip(6)))
    epochs = [(row.topology, row.first_step) for row in run.trace.epochs]
    assert epochs == [("gossip", 0), ("ring", 5)]
    size = sum(value.nbytes for value in initial().values())
    for entry in run.traffic:
        assert entry.agrees
        if entry.topology == "gossip":
            to_neighbours = 0 if entry.task == "ps:0" else 2 * size
            assert (entry.steps, entry.sent) == (5, 5 * to_neighbours)


@pytest.mark.slow
@for_each("outer", [MEAN, NESTEROV])
def test_switches_on_the_way_happen_at_their_step_and_keep_the_bits(
    outer: Optimizer, cluster: LocalCluster
) -> None:
    step = Held()
    run = begin(cluster, step, topology="ps", steps=14, outer=outer)
    for topology, at in (("gossip", 2), ("mesh", 7), ("gossip", 8), ("ps", 12)):
        run.switch(topology, at=at)
    step.go.set()
    run.wait(20)

    first, other = ["gossip"] * 5, ["gossip"] * 4
    topologies = ["ps", "ps", *first, "mesh", *other, "ps", "ps"]
    result = [(row.topology, row.first_step) for row in run.trace.epochs]
    assert result == [("ps", 0), ("gossip", 2), ("mesh", 7), ("gossip", 8), ("ps", 12)]
    assert same_bits(run.params, expected(topologies, outer=outer))


@pytest.mark.slow
def test_a_training_that_pauses_does_as_many_steps_as_it_is_told() -> None:
    """However far a worker is from the one that leads."""
    with quick_cluster(0, 7) as many:
        run = begin(many, steps=1000, link="1gbit,1ms")
        run.pause()
        first = standing(run)
        for steps in (1, 2, 5):
            run.advance(steps)
            first += steps
            assert standing(run, first - 1) == first
        run.stop()
        run.wait(20)

    assert run.step == first + 1  # one more, to agree
    assert same_bits(run.params, expected(gossip(run.step), n=7))


@pytest.mark.slow
def test_a_checkpoint_in_the_middle_goes_on_as_if_nothing_had_been(
    tmp_path: Path, cluster: LocalCluster
) -> None:
    saves = kit.Checkpoints(str(tmp_path), every_steps=3, keep=9)
    how: dict[str, Any] = {"optimizer": ADAM, "steps": 9, "checkpoint": saves}
    begin(cluster, **how).wait(20)
    run = begin(cluster, restore="step-3", **how).wait(20)

    assert resumed_at(run) == 3
    assert same_bits(run.params, expected(gossip(9), by(ADAM)))
    kept = kit.load_checkpoint(tmp_path / "step-6").states["worker:0"]
    assert {"parameters/w", "optimizer/m/w"} <= {*kept}


@pytest.mark.slow
def test_a_checkpoint_of_workers_that_agree_is_for_any_training(
    tmp_path: Path, cluster: LocalCluster
) -> None:
    saves = kit.Checkpoints(str(tmp_path), every_steps=2, keep=9)
    begin(cluster, steps=3, checkpoint=saves).wait(20)
    plain: dict[str, Any] = {"topology": "ring", "local_steps": None, "steps": 4}
    run = begin(cluster, checkpoint=saves, **plain).wait(20)

    assert resumed_at(run) == 3
    with pytest.raises(InvalidArgumentError, match="parameters of its own where"):
        begin(cluster, checkpoint=saves, restore="step-2", **plain)


def test_it_is_rehearsed_and_never_recommended() -> None:
    size, n = 4_000_000, 8
    where: dict[str, Any] = {"worker": n, "hosts": n, "link": "1gbit,5ms"}

    result = kit.rehearse(size, "gossip", rates=USUAL, **where)
    chosen = kit.recommend(size, rates=USUAL, **where)

    assert result.n_bytes == 2 * size * n
    assert result.n_in_row == 1
    assert "do not agree" in chosen.left_out["gossip"]


def test_training_that_is_to_choose_does_not_choose_it(cluster: LocalCluster) -> None:
    run = begin(cluster, topology="auto", link="10mbit,5ms", steps=1).wait(20)

    assert run.recommendation is not None
    assert "gossip" not in run.recommendation.rehearsals


@for_each("n", range(1, 10))
def test_all_hear_of_a_halt_as_fast_as_messages_go_round(n: int) -> None:
    group = Group((), tuple(range(n)), ())

    assert steps_to_all(by_name("gossip"), group) == max(1, n // 2)
    assert steps_to_all(by_name("ring"), group) == 1
