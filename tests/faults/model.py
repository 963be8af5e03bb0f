"""What the tests of faults train, and what must come out of it."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.exchange import replay

Array = npt.NDArray[Any]
SHAPES = {"w": (37, 5), "b": (5,)}
RATE, DECAY = 0.125, 0.5
PACE_S = 0.004  # a training that waits for a fault need not take all cores meanwhile


def initial() -> dict[str, Array]:
    dice = np.random.default_rng(5)
    return {
        name: dice.standard_normal(shape).astype("float32")
        for name, shape in SHAPES.items()
    }


def gradients(params: dict[str, Array], step: int, worker: int) -> dict[str, Array]:
    """Values of very different sizes, so that another order gives other bits."""
    dice = np.random.default_rng([step, worker])
    return {
        name: (
            dice.standard_normal(value.shape)
            * 10.0 ** dice.integers(-5, 3, value.shape)
        ).astype("float32")
        + np.float32(0.01) * value
        for name, value in params.items()
    }


def step(
    params: dict[str, Array], batch: tuple[Array, ...]
) -> tuple[float, dict[str, Array]]:
    """The one example that a worker gets tells it the step and who it is."""
    time.sleep(PACE_S)
    number, worker = batch[0][0]
    return float(number), gradients(params, int(number), int(worker))


def data(steps: int, n_workers: int) -> list[tuple[Array]]:
    return [
        (np.array([(number, worker) for worker in range(n_workers)]),)
        for number in range(steps)
    ]


def replayed(steps: int, n_workers: int) -> dict[str, Array]:
    """The parameters after so many synchronous steps with momentum, by numpy alone."""

    def update(now: Array, mean: Array, state: dict[str, Array], _: int) -> Array:
        state["a"] = state.get("a", np.zeros_like(now)) * np.float32(DECAY) + mean
        return np.asarray(now - state["a"] * np.float32(RATE))

    return _train(steps, n_workers, update)


def _train(steps: int, n_workers: int, update: Any) -> dict[str, Array]:
    return replay.train(
        initial(),
        steps,
        lambda params, step: [gradients(params, step, w) for w in range(n_workers)],
        update,
    )


def same_bits(got: dict[str, Array], want: dict[str, Array]) -> bool:
    return got.keys() == want.keys() and all(
        got[name].tobytes() == want[name].tobytes() for name in want
    )
