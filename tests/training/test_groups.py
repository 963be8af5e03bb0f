"""Groups of parameters: other settings for names that match a pattern."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import kit
from kit.testing.cluster import LocalCluster
from tests.exchange import replay
from tests.training import toy
from tests.training.toy import Array, Params, begin, fit, initial, same_bits

pytestmark = pytest.mark.slow
DECAYED = kit.AdamW(0.05, weight_decay=0.3)
PLAIN = kit.AdamW(0.01, weight_decay=0.0)
GROUPS = kit.Groups(
    DECAYED, {"^b$": {"learning_rate": 0.01, "weight_decay": 0.0}, "scale": PLAIN}
)


def trained(cluster: LocalCluster, optimizer: Any, **options: Any) -> kit.Run:
    return begin(cluster, optimizer=optimizer, steps=12, **options).wait(30)


def alone(steps: int, n_workers: int, rule_of: dict[str, Any]) -> Params:
    """Train in one process, each parameter by a rule of its own."""
    params = initial()
    states: dict[str, dict[str, Array]] = {name: {} for name in params}
    for step in range(steps):
        total = replay.total(toy.gradients(params, step, n_workers))
        for name, value in params.items():
            mean = total[name] * value.dtype.type(1 / n_workers)
            params[name] = toy.update(rule_of[name], value, mean, states[name], step)
    return params


RULES = {"w": DECAYED, "none": DECAYED, "b": PLAIN, "scale": PLAIN}


@pytest.mark.parametrize("topology", ["ps", "ring", "mesh"])
def test_each_parameter_is_updated_by_the_settings_of_its_group(
    cluster: LocalCluster, topology: str
) -> None:
    run = trained(cluster, GROUPS, topology=topology)

    assert same_bits(run.params, alone(12, 2, RULES))


def test_groups_of_gradient_descent_stay_after_a_switch(cluster: LocalCluster) -> None:
    def slowly(params: Params, batch: Any) -> Any:
        time.sleep(0.005)
        return fit(params, batch)

    slow, fast = kit.GradientDescent(0.001), kit.GradientDescent(0.02)
    groups = kit.Groups(fast, {"w|none": {"learning_rate": 0.001}})
    run = begin(cluster, slowly, optimizer=groups, steps=12)
    run.switch("ring", at=6)

    rule_of = {"w": slow, "none": slow, "b": fast, "scale": fast}
    assert same_bits(run.wait(30).params, alone(12, 2, rule_of))
    assert [row.topology for row in run.trace.epochs] == ["ps", "ring"]


@pytest.mark.parametrize(
    "options",
    [
        {"aggregate": 2},
        {"local_steps": 3},
        {"sync": False},
        {"compress": "float16", "topology": "ring"},
        {"elastic": True},
    ],
)
def test_a_group_whose_rate_is_0_stays_as_it_is_in_every_kind_of_training(
    cluster: LocalCluster, options: dict[str, Any]
) -> None:
    frozen = kit.Groups(kit.Momentum(0.01), {"b|w": {"learning_rate": 0.0}})

    run = trained(cluster, frozen, **options)

    start = initial()
    kept = [name for name in start if np.array_equal(run.params[name], start[name])]
    assert kept == ["w", "none", "b"]


def test_the_first_pattern_that_matches_counts() -> None:
    groups = kit.Groups(
        kit.GradientDescent(1.0),
        {"bias": {"learning_rate": 0.1}, "layer1": {"learning_rate": 0.2}},
    )

    names = ("layer1.bias", "layer1.weight", "layer2.weight")
    rates = [groups.rule_of(name).learning_rate for name in names]

    assert rates == [0.1, 0.2, 1.0]
