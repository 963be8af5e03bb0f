"""The model of the network tests; each task's process finds it here.

It uses no matrix product: its bits may depend on the number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

SIZE = 70_000


@dataclass(frozen=True)
class Scales:
    """Learn for each column the factor between x and y. A gradient has 280 kB."""

    seed: int = 5

    @property
    def params(self) -> dict[str, Array]:
        return {"w": np.zeros(SIZE, np.float32), "b": np.zeros(3, np.float64)}

    @property
    def data(self) -> tuple[Array, Array]:
        dice = np.random.default_rng(self.seed)
        x = dice.standard_normal((24, SIZE), np.float32)
        return x, x * dice.standard_normal(SIZE, np.float32)

    def step(self, params: dict[str, Array], batch: Any) -> tuple[float, Any]:
        x, y = batch
        off = x * params["w"] - y
        gradient = (2 * x * off).mean(axis=0, dtype=np.float32)
        b = np.full(3, off[:, 0].sum(dtype=np.float64))
        return float((off * off).mean(dtype=np.float64)), {"w": gradient, "b": b}


MODEL = Scales()
