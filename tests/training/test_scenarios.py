"""However a training is done, it has the bits of numpy and the bytes of the formulas.

Each topology is tried in each way; of optimizers, forms and links the next in turn. Any
other scenario may be drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kit
from kit.training.optimizers.rule import Optimizer
from tests.training.scenario import COMPRESSORS, FORMS, LINKS, Scenario
from tests.training.toy import BATCH, Hasty

pytestmark = pytest.mark.slow

TOPOLOGIES = ("ps", "ring", "ring-whole", "mesh", "hierarchical")
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


@given(scenarios())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_any_other_scenario_has_them_too(scenario: Scenario) -> None:
    scenario.check()
