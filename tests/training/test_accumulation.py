"""A worker's split in pieces, whose gradients are added up, and what each draws."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kit
from kit.errors import InvalidArgumentError, NotFinite
from kit.exchange.layout import Spec, lay_out
from kit.exchange.ports.memory import Memory
from kit.exchange.ports.port import Stamp
from kit.graph.graph import Graph
from kit.graph.ops.math import random
from kit.graph.ops.state.source import placeholder
from kit.graph.variable import Variable
from kit.testing.cluster import LocalCluster
from kit.training.worker.accumulation import Accumulation
from kit.training.worker.gradient_buffer import StepArrays
from kit.training.worker.worker import Compute, generator
from tests.cases import for_each
from tests.training.toy import (
    BATCH,
    Params,
    X,
    Y,
    begin,
    fit,
    gradients,
    quick_cluster,
    replayed,
    same_bits,
    trained,
)

pytestmark = pytest.mark.lasting("descriptor")
STEPS = 5
RATE = kit.Adagrad(0.05)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with quick_cluster(2, 3) as result:
        yield result


def train(cluster: LocalCluster, step: Any = fit, **changes: Any) -> kit.Run:
    options = {"optimizer": RATE, "steps": STEPS, "topology": "ring"} | changes
    return begin(cluster, step, **options).wait(20)


def replay_of_noise(n_pieces: int) -> Params:
    def of_workers(params: Params, number: int) -> list[Params]:
        turns = product(range(3), range(n_pieces))

        def step(params: Params, batch: Any) -> Any:
            return noisy(params, batch, drawn(number, *next(turns)))

        return gradients(params, number, 3, function=step, n_pieces=n_pieces)

    return replayed(STEPS, 3, RATE, of_workers=of_workers)


def drawn(number: int, worker: int, piece: int) -> np.random.Generator:
    """Return what the documentation of `kit.train` says that a piece gets."""
    bits = np.random.Philox(key=[0, number], counter=[0, piece, 2, worker])
    return np.random.Generator(bits)


def noisy(params: Params, batch: Any, rng: np.random.Generator) -> Any:
    x, y = batch
    return fit(params, (x * (rng.random(x.shape) < 0.8), y))


@for_each("n_pieces", [1, 2])
def test_each_piece_draws_as_it_is_documented(
    n_pieces: int, cluster: LocalCluster
) -> None:
    run = train(cluster, noisy, accumulate=n_pieces)

    assert same_bits(run.params, replay_of_noise(n_pieces))
    assert not same_bits(run.params, replayed(STEPS, 3, RATE))


def test_a_worker_at_its_own_pace_draws_by_its_own_mini_batches() -> None:
    seen: dict[int, list[float]] = defaultdict(list)

    def step(params: Params, batch: Any, *, rng: np.random.Generator) -> Any:
        worker = int(rng.bit_generator.state["state"]["counter"][3])
        seen[worker].append(rng.random())
        return fit(params, batch)

    trained(1, 2, step, topology="ps", sync=False, steps=12)

    assert sum(map(len, seen.values())) >= 12
    for worker, numbers in seen.items():
        expected = [drawn(own, worker, 0).random() for own in range(len(numbers))]
        assert numbers == expected


@pytest.mark.slow
def test_the_pieces_of_a_graph_draw_differently_and_the_same_everywhere(
    cluster: LocalCluster,
) -> None:
    with Graph().as_default():
        x, y = placeholder("float32", (None, 3)), placeholder("float32", (None,))
        w = Variable(np.zeros((3, 1), np.float32), name="w")
        noise = random.uniform((3, 1), dtype="float32")
        loss = (((x @ (w * noise)).sum(axis=1) - y) ** 2).mean()

    def fitted(topology: str, pieces: int) -> Params:
        options: dict[str, Any] = {"topology": topology, "accumulate": pieces}
        options |= {"steps": 4, "batch": BATCH, "cluster": cluster}
        return kit.train(loss, {x: X, y: Y}, **options).wait(20).params

    assert same_bits(fitted("ps", 3), fitted("mesh", 3))
    assert not np.allclose(fitted("ps", 3)["w"], fitted("ps", 1)["w"])


def test_a_step_sees_one_piece_at_a_time_and_tells_the_mean(
    cluster: LocalCluster,
) -> None:
    seen: list[int] = []

    def step(params: Params, batch: Any, state: dict[str, Any]) -> Any:
        seen.append(len(batch[0]))
        state["calls"] = state.get("calls", 0) + 1
        _, result = fit(params, batch)
        return state["calls"], result, {"calls": state["calls"], "rows": len(batch[0])}

    run = train(cluster, step, accumulate=2, steps=2)

    assert sorted(seen) == [1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2]
    _, calls = run.trace.measured("calls")
    _, sizes = run.trace.measured("rows")
    assert np.allclose(calls, [1.4, 3.4])  # of pieces of 2, 2, 2, 1, 2 and 1 examples
    assert np.allclose(sizes, 1.8)
    assert np.allclose([row["loss"] for row in run.metrics], calls)


def test_workers_at_their_own_pace_compute_in_pieces_as_well() -> None:
    how: dict[str, Any] = {"topology": "ps", "sync": False, "optimizer": RATE}
    first, other = (trained(1, 1, accumulate=n, **how).params for n in (1, 5))

    assert all(np.allclose(first[name], other[name], rtol=1e-4) for name in first)


def test_a_split_that_has_no_example_for_each_piece_is_refused(
    cluster: LocalCluster,
) -> None:
    with pytest.raises(InvalidArgumentError, match="3 examples and cannot be computed"):
        train(cluster, accumulate=4)


def test_a_piece_that_is_not_finite_ends_the_training_by_name(
    cluster: LocalCluster,
) -> None:
    def step(params: Params, batch: Any, state: dict[str, Any]) -> Any:
        state["calls"] = state.get("calls", 0) + 1
        loss, result = fit(params, batch)
        factor = np.nan if state["calls"] == 2 else 1
        return loss, result | {"w": result["w"] * factor}

    with pytest.raises(NotFinite, match="the gradient of 'w' holds 3 NaN"):
        train(cluster, step, accumulate=2)


@given(st.integers(1, 40), st.integers(1, 12))
def test_the_weights_of_pieces_make_the_mean_of_all_examples(
    total: int, pieces: int
) -> None:
    """Of examples whose gradient is a number: what is added up is their mean."""
    numbers = np.random.default_rng(total).normal(size=total)

    if total < pieces:
        with pytest.raises(InvalidArgumentError, match="cannot be computed"):
            added_up(numbers, pieces)
    else:
        assert np.isclose(added_up(numbers, pieces), numbers.mean())


def added_up(numbers: Any, pieces: int) -> float:
    memory = Memory(lay_out([Spec("w", (), "float64")], n_workers=1))
    arrays = StepArrays(memory, Stamp(), "worker:0")

    def step(params: Any, batch: Any) -> Any:
        return 0.0, {"w": np.asarray(batch[0].mean())}

    compute = Compute(
        *(step, arrays.params, arrays.gradients, "worker:0"),
        lambda number, piece: generator(0, number, 0, piece),
        {},
    )
    Accumulation(compute, pieces, arrays)(
        0, (numbers,), 1.0, lambda bucket: None, number=0
    )
    return float(memory.gradients()["w"])
