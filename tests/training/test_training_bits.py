"""A training has the bits of its replay in one process, whatever carries it out."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kit
from kit.testing.cluster import LocalCluster
from kit.training.optimizers.rule import Optimizer
from tests.training.paced import settled, wait_for_step
from tests.training.toy import (
    BATCH,
    DATA,
    Hasty,
    Params,
    fit,
    initial,
    quick_cluster,
    replayed,
    same_bits,
)

pytestmark = pytest.mark.slow

OPTIMIZERS: list[Optimizer] = [
    kit.GradientDescent(0.1),
    kit.Momentum(0.05, use_nesterov=True),
    kit.Adagrad(0.2),
    kit.RMSProp(0.01, momentum=0.5, centered=True),
    kit.Adam(0.02),
]
WAYS = [
    *((1, "ps"), (2, "ps"), (3, "ps")),
    *((0, "ring"), (0, "ring-whole"), (1, "ring"), (1, "mesh")),
]
TOPOLOGIES = ["ps", "ring", "ring-whole", "mesh", "hierarchical"]


def begin(cluster: LocalCluster, **changes: Any) -> kit.Run:
    options: dict[str, Any] = {"steps": 7, "batch": BATCH, "cluster": cluster} | changes
    return kit.train(fit, initial(), DATA, **options)


@pytest.mark.slow
@pytest.mark.parametrize(("n_ps", "topology"), WAYS)
def test_a_rule_that_writes_before_it_reads_gets_its_gradient_whole(
    n_ps: int, topology: str
) -> None:
    with quick_cluster(n_ps, 3) as cluster:
        run = begin(cluster, optimizer=Hasty(), topology=topology).wait(20)

    assert same_bits(run.params, replayed(7, 3, Hasty()))
    assert not same_bits(run.params, initial())


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda item: type(item).__name__)
@pytest.mark.parametrize(("n_ps", "topology"), WAYS)
def test_every_optimizer_over_every_topology_has_the_bits_of_the_replay(
    optimizer: Optimizer, n_ps: int, topology: str
) -> None:
    with quick_cluster(n_ps, 3) as cluster:  # ten examples: 4, 3 and 3
        run = begin(cluster, optimizer=optimizer, topology=topology).wait(20)

    assert same_bits(run.params, replayed(7, 3, optimizer))
    assert not same_bits(run.params, initial())


@pytest.mark.parametrize("n_workers", [1, 2, 4])
def test_uneven_splits_are_weighted_by_their_examples(n_workers: int) -> None:
    batch = 2 * n_workers + 1
    with quick_cluster(0, n_workers) as cluster:
        run = begin(cluster, batch=batch, topology="ring", steps=4).wait(20)

    assert same_bits(
        run.params, replayed(4, n_workers, kit.GradientDescent(), batch=batch)
    )


def test_result_is_near_that_of_one_worker_with_the_whole_batch() -> None:
    with quick_cluster(0, 3) as cluster:
        run = begin(cluster, topology="ring").wait(20)

    alone = replayed(7, 1, kit.GradientDescent())
    for name, value in run.params.items():
        np.testing.assert_allclose(value, alone[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("bucket_bytes", [1, 8, 24])
def test_small_buckets_change_only_the_order_of_addition(
    topology: str, bucket_bytes: int
) -> None:
    with quick_cluster(2, 3, bucket_bytes=bucket_bytes) as cluster:
        run = begin(cluster, topology=topology, steps=4).wait(20)

    wanted = replayed(4, 3, kit.GradientDescent(), bucket=bucket_bytes)
    assert same_bits(run.params, wanted)


class Script:
    """A step that makes requests at given calls of the first worker's thread."""

    def __init__(self, requests: dict[int, Any]) -> None:
        self._requests, self._calls = requests, 0
        self._guard = threading.Lock()
        self.run: kit.Run | None = None
        self.ready = threading.Event()

    def __call__(self, params: Params, batch: Any) -> Any:
        assert self.ready.wait(10)
        with self._guard:
            number, self._calls = self._calls, self._calls + 1
        if number in self._requests and self.run is not None:
            self._requests[number](self.run)
        return fit(params, batch)


def switch_to(name: str) -> Any:
    def request(run: kit.Run) -> None:
        run.topology = name

    return request


@pytest.mark.slow
@given(
    start=st.sampled_from(TOPOLOGIES),
    requests=st.dictionaries(
        st.integers(0, 30), st.sampled_from(TOPOLOGIES), max_size=8
    ),
    optimizer=st.sampled_from(OPTIMIZERS),
)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_schedule_of_switches_has_the_bits_of_the_replay(
    start: str, requests: dict[int, str], optimizer: Optimizer
) -> None:
    script = Script({call: switch_to(name) for call, name in requests.items()})
    with quick_cluster(2, 3) as cluster:
        run = kit.train(
            script,
            initial(),
            DATA,
            optimizer=optimizer,
            topology=start,
            steps=11,
            batch=BATCH,
            cluster=cluster,
        )
        script.run = run
        script.ready.set()
        run.wait(20)

    assert same_bits(run.params, replayed(11, 3, optimizer))
    assert all(entry.agrees for entry in run.traffic)
    assert all(measured == formula for _, measured, formula in run.moved_once)


@pytest.mark.slow
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_pause_advance_and_resume_lose_no_step(topology: str) -> None:
    script = Script({0: kit.Run.pause})
    optimizer = kit.Momentum(0.05)
    with quick_cluster(1, 2) as cluster:
        run = kit.train(
            script,
            initial(),
            DATA,
            optimizer=optimizer,
            topology=topology,
            steps=30,
            batch=BATCH,
            cluster=cluster,
        )
        script.run = run
        script.ready.set()
        paused_at = settled(run)
        assert run.state == "paused"
        assert same_bits(run.params, replayed(paused_at, 2, optimizer))

        run.advance(3)
        wait_for_step(run, paused_at + 3)
        assert same_bits(run.params, replayed(paused_at + 3, 2, optimizer))
        run.topology = "ring"
        run.advance()
        wait_for_step(run, paused_at + 4)
        assert same_bits(run.params, replayed(paused_at + 4, 2, optimizer))
        run.resume()
        run.wait(20)

    assert run.step == 30
    assert same_bits(run.params, replayed(30, 2, optimizer))


def test_same_call_twice_has_the_same_bits(cluster: LocalCluster) -> None:
    both = [begin(cluster, steps=5, seed=3).wait(10).params for _ in range(2)]

    assert same_bits(*both)


def test_seed_changes_the_examples(cluster: LocalCluster) -> None:
    both = [begin(cluster, steps=5, seed=seed).wait(10).params for seed in (1, 2)]

    assert not same_bits(*both)


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (2, 0)])
def test_model_of_odd_shapes_alone_is_trained(
    cluster: LocalCluster, shape: Sequence[int]
) -> None:
    value = np.ones(shape, np.float32)

    run = kit.train(
        lambda params, batch: (0.0, {"v": np.ones(shape, np.float32)}),
        {"v": value},
        DATA,
        optimizer=kit.GradientDescent(0.25),
        steps=2,
        batch=BATCH,
        cluster=cluster,
    ).wait(10)

    assert same_bits(run.params, {"v": np.asarray(value - np.float32(0.5))})
