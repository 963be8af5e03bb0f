"""An optimizer that keeps a running mean of the parameters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kit
from kit.errors import InvalidArgumentError
from kit.testing import check_optimizer
from kit.testing.cluster import LocalCluster
from kit.training.optimizers import rules
from tests.cases import for_each
from tests.training.toy import (
    BATCH,
    DATA,
    Array,
    Params,
    fit,
    initial,
    replayed,
    same_bits,
)

pytestmark = pytest.mark.slow
ADAM = kit.Adam(0.01)


def trained(cluster: LocalCluster, folder: Path, steps: int, **options: Any) -> Any:
    chosen: dict[str, Any] = {"optimizer": kit.Averaged(ADAM, 0.75), "batch": BATCH}
    chosen |= options
    what = fit, initial(), DATA
    kit.train(*what, cluster=cluster, steps=steps, checkpoint=folder, **chosen).wait(30)
    return kit.load_checkpoint(folder)


def in_order(values: Mapping[str, Array]) -> Params:
    return {name: values[name] for name in initial()}


@pytest.mark.parametrize("topology", ["ps", "ring"])
def test_the_mean_follows_the_parameters_of_each_step(
    cluster: LocalCluster, tmp_path: Path, topology: str
) -> None:
    saved = trained(cluster, tmp_path, 8, topology=topology)

    expected = replayed(1, 2, ADAM)  # after the first step it is equal to them
    for n in range(2, 9):
        for name, value in replayed(n, 2, ADAM).items():
            mean = expected[name]
            way = (value - mean) * mean.dtype.type(0.25)
            expected[name] = np.asarray(mean + way)
    assert same_bits(in_order(saved.slots["average"]), expected)
    assert same_bits(in_order(saved), replayed(8, 2, ADAM))


def test_the_mean_goes_on_from_a_checkpoint(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    trained(cluster, tmp_path / "parts", 3)
    parts = trained(cluster, tmp_path / "parts", 7, topology="ring")

    whole = trained(cluster, tmp_path / "whole", 7)

    means = [in_order(saved.slots["average"]) for saved in (parts, whole)]
    assert same_bits(*means)


def test_parameters_that_stay_are_their_own_mean(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    frozen = kit.Groups(ADAM, {"w": {"learning_rate": 0.0}})

    saved = trained(cluster, tmp_path, 5, optimizer=kit.Averaged(frozen, 0.9))

    assert np.array_equal(saved.slots["average"]["w"], initial()["w"])
    assert not np.array_equal(saved.slots["average"]["b"], saved["b"])


def test_it_keeps_the_contract_of_optimizers_and_travels() -> None:
    optimizer = kit.Averaged(ADAM, 0.9)

    check_optimizer(optimizer)

    assert rules.from_plain(rules.to_plain(optimizer)) == optimizer


@for_each(
    ("rule", "decay", "said"),
    [
        ("adam", 0.9, "rule is 'adam'"),
        (kit.Adam, 0.9, "give an optimizer such as"),
        (ADAM, 1.0, "decay is 1.0"),
        (ADAM, "0.9", "decay is '0.9'"),
    ],
)
def test_what_cannot_be_averaged_is_refused(rule: Any, decay: Any, said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        kit.Averaged(rule, decay)
