"""A flat parameter and its gradients, for the tests of update rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kit.training.optimizers.rule import Optimizer

Array = npt.NDArray[Any]
DTYPES = [np.float32, np.float64]


def new_slots(optimizer: Optimizer, like: Array) -> list[Array]:
    return [np.full(like.shape, s.initial, like.dtype) for s in optimizer.slots]


def trained(optimizer: Optimizer, start: Array, gradients: Sequence[Array]) -> Array:
    value, slots = start.copy(), new_slots(optimizer, start)
    for step, gradient in enumerate(gradients):
        optimizer.apply(value, gradient, slots, value, step)
    return value


def problem(dtype: Any, n: int = 1000, steps: int = 12) -> tuple[Array, list[Array]]:
    rng = np.random.default_rng(7)
    start = rng.uniform(-0.02, 0.02, n).astype(dtype)
    return start, [rng.normal(0, 0.01, n).astype(dtype) for _ in range(steps)]
