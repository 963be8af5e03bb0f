"""However a training is done, it has the bits of numpy and the bytes of the formulas.

Each topology is tried in each way; of optimizers, forms and links the next in turn. Any
other scenario may be drawn.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
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
from tests.training.scenario import COMPRESSORS, FORMS, LINKS, Scenario
from tests.training.toy import (
    BATCH,
    DATA,
    Hasty,
    Params,
    begin,
    fit,
    quick_cluster,
    replayed,
    same_bits,
)

TOPOLOGIES = ("ps", "ring", "ring-whole", "mesh", "hierarchical")
TOPOLOGY = st.sampled_from(TOPOLOGIES)
OPTIMIZERS: tuple[Optimizer, ...] = (
    kit.GradientDescent(0.002),
    kit.Momentum(0.002, use_nesterov=True),
    kit.Adagrad(0.05),
    kit.RMSProp(0.001, momentum=0.5, centered=True),
    kit.Adam(0.01),
    Hasty(),
)
WAYS: tuple[dict[str, Any], ...] = (
    {"bucket_bytes": 1},
    {"bucket_bytes": 8, "pieces": 2},
    {"bucket_bytes": 24, "hosts": "abbabab", "n_workers": 4},
    {"local_steps": 3},
    {"elastic": 6},
    *({"compress": name} for name in COMPRESSORS),
)
AT_SERVERS: tuple[dict[str, Any], ...] = (
    {"aggregate": 2, "n_ps": 1, "steps": 20},
    {"aggregate": 3, "n_workers": 5},
    {"aggregate": 4, "n_ps": 3, "n_workers": 4, "link": "plain"},
    {"synchronous": False, "n_ps": 1, "steps": 20, "form": "last first"},
    {"synchronous": False, "n_ps": 2, "form": "written"},
    {"synchronous": False, "elastic": 5, "link": "plain"},
)


def pinned() -> Iterator[Scenario]:
    for row, topology in enumerate(TOPOLOGIES):
        for column, way in enumerate(WAYS):
            turn = row + column
            inputs: dict[str, Any] = {
                "n_ps": turn % 3 + 1 if topology == "ps" else 2 * (turn % 2),
                "n_workers": (3, 2, 4, 3, 5, 1)[turn % 6],
                "optimizer": OPTIMIZERS[turn % len(OPTIMIZERS)],
                "form": FORMS[turn % len(FORMS)],
                "link": [*LINKS][column % len(LINKS)],
                "keeps_trace": turn % 4 > 0,
            }
            yield Scenario(topology, **(inputs | way))
    for way in AT_SERVERS:
        yield Scenario("ps", **({"optimizer": kit.Adam(0.02)} | way))


def name_of(scenario: Scenario) -> str:
    """Return its topology, and the way that makes it another one."""
    plain, chosen = asdict(Scenario()), asdict(scenario)
    names = [name for way in (*WAYS, *AT_SERVERS) for name in way]
    more = [f"{n}={chosen[n]}" for n in dict.fromkeys(names) if chosen[n] != plain[n]]
    return ",".join([scenario.topology, *more])


@pytest.mark.slow
@pytest.mark.parametrize("scenario", [*pinned()], ids=name_of)
def test_a_training_has_the_bits_of_numpy_and_the_bytes_of_the_formulas(
    scenario: Scenario,
) -> None:
    scenario.check()


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """Draw a scenario with any switches and sizes."""
    topology, steps = draw(st.sampled_from(TOPOLOGIES)), 9
    switches: dict[int, str] = {}
    for step in sorted(draw(st.sets(st.integers(1, steps - 1), max_size=4))):
        others = {*TOPOLOGIES} - {[topology, *switches.values()][-1]}
        switches[step] = draw(st.sampled_from(sorted(others)))
    n_workers = draw(st.integers(1, 5))
    way = draw(st.sampled_from(("hosts", "uneven", "compress", "local", "elastic")))
    result = Scenario(
        topology,
        n_ps=draw(st.integers(1, 3)),
        n_workers=n_workers,
        steps=steps,
        optimizer=draw(st.sampled_from(OPTIMIZERS)),
        form=draw(st.sampled_from(FORMS)),
        switches=switches,
        link=draw(st.sampled_from([*LINKS])),
        keeps_trace=draw(st.booleans()),
    )
    if way == "compress":
        return replace(result, compress=draw(st.sampled_from([*COMPRESSORS])))
    pieces = draw(st.integers(1, BATCH // n_workers))
    if way == "local":
        return replace(result, local_steps=draw(st.integers(1, 4)), pieces=pieces)
    bucket_bytes = draw(st.sampled_from([0, 1, 8, 24]))
    if way == "elastic":
        return replace(result, elastic=n_workers + 1, bucket_bytes=bucket_bytes)
    if way == "uneven":
        return replace(result, bucket_bytes=bucket_bytes, batch=2 * n_workers + 1)
    hosts = draw(st.text("ab", min_size=8, max_size=8))[: result.n_ps + n_workers]
    return replace(result, bucket_bytes=bucket_bytes, pieces=pieces, hosts=hosts)


@pytest.mark.slow
@given(scenarios())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_any_other_scenario_has_them_too(scenario: Scenario) -> None:
    scenario.check()


# -- requests on the way ---------------------------------------------------------------


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
    start=TOPOLOGY,
    requests=st.dictionaries(st.integers(0, 30), TOPOLOGY, max_size=8),
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


def test_the_seed_decides_which_examples_are_read(cluster: LocalCluster) -> None:
    first, same, other = (begin(cluster, seed=n).wait(10).params for n in (3, 3, 1))

    assert same_bits(first, same)
    assert not same_bits(first, other)


@pytest.mark.slow
@for_each("shape", [(), (0,), (0, 3), (2, 0)])
def test_model_of_odd_shapes_alone_is_trained(
    cluster: LocalCluster, shape: Sequence[int]
) -> None:
    value = np.ones(shape, np.float32)
    what = lambda *_: (0.0, {"v": np.ones(shape, np.float32)}), {"v": value}, DATA
    how: dict[str, Any] = {"optimizer": kit.GradientDescent(0.25), "batch": BATCH}

    run = kit.train(*what, steps=2, cluster=cluster, **how).wait(10)

    assert same_bits(run.params, {"v": np.asarray(value - np.float32(0.5))})
