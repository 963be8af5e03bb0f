"""A training on engines, and what it must give."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt

import kit
import kit.hooks
from kit.training.client.run import Run
from tests.exchange import replay

Array = npt.NDArray[Any]
DICE = np.random.default_rng(3)
IMAGES = DICE.standard_normal((240, 12)).astype(np.float32)
TARGETS = (IMAGES @ DICE.standard_normal((12, 2)) + 1).astype(np.float32)
ENDLESS = 100_000  # steps, or more: it is to be stopped
PARAMS = {"w": np.zeros((12, 2), np.float32), "b": np.zeros(2, np.float32)}


def step(params: dict[str, Array], batch: Any) -> tuple[float, dict[str, Array]]:
    images, targets = batch
    error = images @ params["w"] + params["b"] - targets
    scale = np.float32(2 / error.size)
    return float((error**2).mean()), {
        "w": scale * images.T @ error,
        "b": scale * error.sum(0),
    }


def patient_step(
    params: dict[str, Array], batch: Any
) -> tuple[float, dict[str, Array]]:
    """Leave the cores to others, in a training that waits for something."""
    time.sleep(0.005)
    return step(params, batch)


def begin(cluster: Any, function: Any = step, **changes: Any) -> Run:
    options: dict[str, Any] = {"steps": 60, "batch": 24, "topology": "ring"}
    options |= {"optimizer": kit.Momentum(0.05), "cluster": cluster, **changes}
    if function is step and options["steps"] >= ENDLESS:
        function = patient_step
    return kit.train(function, PARAMS, (IMAGES, TARGETS), **options)


def replayed(steps: int, n_workers: int = 2, batch: int = 24) -> dict[str, Array]:
    """Return what one process of plain numpy makes of the same mini-batches."""
    from kit.training.data.sources import ArraySource

    data = (IMAGES, TARGETS)
    sources = [ArraySource(data, batch, 0, w, n_workers) for w in range(n_workers)]

    def gradients(params: dict[str, Array], number: int) -> list[dict[str, Array]]:
        return [step(params, source.batch(number))[1] for source in sources]

    def update(now: Array, mean: Array, state: dict[str, Array], _: int) -> Array:
        kind = now.dtype.type
        state["a"] = state.get("a", np.zeros_like(now)) * kind(0.9) + mean
        return np.asarray(now - state["a"] * kind(0.05))

    return replay.train(PARAMS, steps, gradients, update)


def assert_replayed(run: Run) -> None:
    """A training has, bit for bit, the parameters that numpy makes of its steps."""
    for name, value in replayed(run.step, len(run.job.workers)).items():
        np.testing.assert_array_equal(run.params[name], value, strict=True)
