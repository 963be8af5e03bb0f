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
from tests.cases import for_each
from tests.training.paced import settled, wait_for_step
from tests.training.toy import (
    BATCH,
    DATA,
    Params,
    begin,
    fit,
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
TOPOLOGIES = ["ps", "ring", "ring-whole", "mesh", "hierarchical"]


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
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_any_schedule_of_switches_has_the_bits_of_the_replay(
    start: str, requests: dict[int, str], optimizer: Optimizer
) -> None:
    script = Script({call: switch_to(name) for call, name in requests.items()})
    with quick_cluster(2, 3) as cluster:
        run = begin(cluster, script, optimizer=optimizer, topology=start, steps=11)
        script.run = run
        script.ready.set()
        run.wait(20)

    assert same_bits(run.params, replayed(11, 3, optimizer))
    assert all(entry.agrees for entry in run.traffic)
    assert all(measured == formula for _, measured, formula in run.moved_once)


@pytest.mark.slow
@pytest.mark.parametrize("topology", ["ps", "ring-whole"])
def test_pause_advance_and_resume_lose_no_step(topology: str) -> None:
    script = Script({0: kit.Run.pause})
    optimizer = kit.Momentum(0.05)
    with quick_cluster(1, 2) as cluster:
        run = begin(cluster, script, optimizer=optimizer, topology=topology, steps=30)
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


def test_several_workers_come_near_one_with_the_whole_batch() -> None:
    alone, several = (replayed(7, n, kit.GradientDescent()) for n in (1, 3))

    for name, value in several.items():
        np.testing.assert_allclose(value, alone[name], rtol=1e-5, atol=1e-6)


def test_the_seed_decides_which_examples_are_read(cluster: LocalCluster) -> None:
    first, same, other = (begin(cluster, seed=n).wait(10).params for n in (3, 3, 1))

    assert same_bits(first, same)
    assert not same_bits(first, other)


@for_each("shape", [(), (0,), (0, 3), (2, 0)])
def test_model_of_odd_shapes_alone_is_trained(
    cluster: LocalCluster, shape: Sequence[int]
) -> None:
    value = np.ones(shape, np.float32)
    what = lambda *_: (0.0, {"v": np.ones(shape, np.float32)}), {"v": value}, DATA
    how: dict[str, Any] = {"optimizer": kit.GradientDescent(0.25), "batch": BATCH}

    run = kit.train(*what, steps=2, cluster=cluster, **how).wait(10)

    assert same_bits(run.params, {"v": np.asarray(value - np.float32(0.5))})
