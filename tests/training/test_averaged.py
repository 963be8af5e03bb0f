"""An optimizer that keeps a running mean of the parameters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kit
from kit.testing.cluster import LocalCluster
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


def test_a_validation_of_the_mean_sees_what_checkpoints_have(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    seen: list[Params] = []

    def look(params: Params, data: Any) -> float:
        seen.append(params)
        return 1.0

    class Looks(kit.hooks.ValidationHook):
        """Hands on what it measures; a hook of a local cluster is in this process."""

        def measured(self, step: int, measures: Any, run_context: Any) -> None:
            for name, value in seen[-1].items():
                np.save(tmp_path / f"{step}-{name}.npy", value)

    hook = Looks(look, None, every=4, decay=0.75)
    saved = trained(cluster, tmp_path / "saved", 8, topology="ring", hooks=[hook])

    measured = {name: np.load(tmp_path / f"7-{name}.npy") for name in initial()}
    assert same_bits(in_order(measured), in_order(saved.slots["average"]))
    assert not same_bits(in_order(measured), in_order(saved))


def test_the_best_of_early_stopping_may_be_a_mean(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    stops = kit.hooks.EarlyStoppingHook(
        *(lambda params, data: 1.0, None),
        every=8,
        decay=0.75,
        save_best=tmp_path / "best",
    )

    saved = trained(cluster, tmp_path / "saved", 8, topology="ring", hooks=[stops])

    best = kit.load_checkpoint(tmp_path / "best")
    assert same_bits(in_order(best), in_order(saved.slots["average"]))


def test_parameters_that_stay_are_their_own_mean(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    frozen = kit.Groups(ADAM, {"w": {"learning_rate": 0.0}})

    saved = trained(cluster, tmp_path, 5, optimizer=kit.Averaged(frozen, 0.9))

    assert np.array_equal(saved.slots["average"]["w"], initial()["w"])
    assert not np.array_equal(saved.slots["average"]["b"], saved["b"])
