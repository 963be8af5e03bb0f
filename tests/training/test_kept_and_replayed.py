"""What is special about a training is kept by its checkpoints and its recordings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kit
from tests.cases import for_each
from tests.training.saved import resumed_at
from tests.training.toy import (
    BATCH,
    DATA,
    Params,
    X,
    begin,
    fit,
    quick_cluster,
    same_bits,
)

pytestmark = pytest.mark.slow


def noisy(params: Params, batch: Any, rng: np.random.Generator) -> Any:
    x, y = batch
    return fit(params, (x * (rng.random(x.shape) < 0.8), y))


def averaging(params: Params, batch: Any, state: dict[str, Any]) -> Any:
    """Do a step on examples less their running mean."""
    x, y = batch
    state["n"] = state.get("n", 0) + 1
    state["mean"] = 0.9 * state.get("mean", np.zeros(3, x.dtype)) + x.mean(0)
    return fit(params, (x - state["mean"] / state["n"], y))


def scaled(params: Params, batch: Any, scale: float) -> Any:
    loss, gradients = fit(params, batch)
    with np.errstate(over="ignore"):
        return loss, {k: v * v.dtype.type(scale) for k, v in gradients.items()}


def batches() -> Iterator[tuple[Any, ...]]:
    dice = np.random.default_rng(3)
    for _ in range(20):
        rows = dice.integers(0, len(X), BATCH)
        yield tuple(part[rows] for part in DATA)


GROUPS = kit.Groups(kit.AdamW(0.05), {"^b$": {"learning_rate": 0.01}})
COMPENSATED = kit.DelayCompensated(kit.Momentum(0.005), 0.3)
SCALE = kit.LossScale(2.0**18, growth_interval=4)
WAYS: dict[str, dict[str, Any]] = {
    "chance in a step": {"step": noisy, "optimizer": kit.Adam(0.02)},
    "what a step keeps": {"step": averaging},
    "an iterable": {"data": batches},
    "a mean of the parameters": {"optimizer": kit.Averaged(kit.Adam(0.01), 0.75)},
    "groups": {"optimizer": GROUPS},
    "a schedule": {"optimizer": kit.AdamW(kit.WarmUp(0.05, 6))},
    "local steps": {
        "local_steps": 3,
        "optimizer": kit.Momentum(0.01),
        "step": averaging,
    },
    "top-k": {"compress": kit.TopK(0.05), "optimizer": kit.Momentum(0.02)},
    "power-sgd": {"compress": kit.PowerSGD(2), "optimizer": kit.Momentum(0.02)},
    "a loss scale": {"compress": SCALE, "step": scaled},
}
ALONE: dict[str, dict[str, Any]] = {
    "asynchronous": {"optimizer": kit.Adam(0.02)},
    "asynchronous, what a step keeps": {"step": averaging},
    "asynchronous, compensated": {"optimizer": COMPENSATED},
}


@for_each(("name", "n_workers"), [*((n, 3) for n in WAYS), *((n, 1) for n in ALONE)])
def test_a_training_goes_on_and_is_replayed_as_if_it_had_never_stopped(
    name: str, n_workers: int, tmp_path: Path
) -> None:
    how, folder = {"seed": 5} | (WAYS | ALONE)[name], tmp_path / name
    folder.mkdir()
    how |= {} if n_workers > 1 else {"sync": False}
    first, then = ("mesh", "ring") if n_workers > 1 else ("ps", "ps")
    step, data = how.pop("step", fit), how.pop("data", DATA)

    def train(steps: int, topology: str, saved: str, **more: Any) -> kit.Run:
        options = {"checkpoint": folder / saved, "data": data, **how, **more}
        return begin(cluster, step, steps=steps, topology=topology, **options).wait(20)

    with quick_cluster(2, n_workers) as cluster:
        whole = train(9, then, "whole", record=folder / "record")
        train(4, first, "parts")
        parts = train(9, then, "parts")

        assert resumed_at(parts) == 4
        assert same_bits(parts.params, whole.params)
    saved = [kit.load_checkpoint(folder / item) for item in ("whole", "parts")]
    for kept, again in zip(*((item.slots, item.states) for item in saved), strict=True):
        assert [*kept] == [*again]
        for item in kept:
            values = [
                {k: np.asarray(v) for k, v in s[item].items()} for s in (kept, again)
            ]
            assert same_bits(*values)
    replayed = kit.replay(folder / "record", step=step, data=data)
    assert same_bits(dict(replayed.params), whole.params)
