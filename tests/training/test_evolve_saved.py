"""`kit.evolve` is saved, goes on and has hooks, as any other training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kit
from kit.hooks import NanTensorHook, StopAtStepHook
from kit.testing.cluster import LocalCluster
from tests.training.toy import BATCH, DATA, Params, fit, initial, same_bits

pytestmark = pytest.mark.slow


def loss(params: Params, batch: Any) -> float:
    return float(fit(params, batch)[0])


def evolve(cluster: LocalCluster, steps: int, **options: Any) -> kit.Run:
    chosen: dict[str, Any] = {"population": 8, "steps": steps, "batch": BATCH} | options
    return kit.evolve(loss, initial(), DATA, cluster=cluster, **chosen).wait(30)


def test_evolution_that_goes_on_equals_one_that_never_stopped(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    evolve(cluster, 3, checkpoint=tmp_path)

    run = evolve(cluster, 8, checkpoint=tmp_path, topology="ring")

    assert run.resumed_from is not None
    assert (run.resumed_from.step, run.step) == (3, 8)
    assert same_bits(run.params, evolve(cluster, 8).params)


def test_evolution_goes_back_to_a_step(cluster: LocalCluster, tmp_path: Path) -> None:
    for steps in (2, 4):
        evolve(cluster, steps, checkpoint=tmp_path)

    run = evolve(cluster, 4, checkpoint=tmp_path, restore="step-2")

    assert run.resumed_from is not None
    assert run.resumed_from.step == 2
    assert same_bits(run.params, evolve(cluster, 4).params)


def test_hooks_see_the_steps_of_an_evolution(cluster: LocalCluster) -> None:
    hooks = [StopAtStepHook(last_step=5), NanTensorHook("loss")]

    run = evolve(cluster, 100, hooks=hooks)

    assert run.step == 5
    assert same_bits(run.params, evolve(cluster, 5).params)
