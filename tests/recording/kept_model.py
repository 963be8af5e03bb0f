"""The model of the recordings in `tests/recording/kept`: it must never change.

Each of them holds the digest of a function here, so a change would make it refuse the
function. All sums are written out, one number after the other, and nothing calls BLAS:
a machine with other vector instructions computes the same bits.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

N, BATCH = 24, 6


def data() -> tuple[Any, Any]:
    """Return the examples: three small numbers each, and what they are to give."""
    x = ((np.arange(3 * N).reshape(N, 3) * 7) % 11 - 5).astype(np.float32)
    return x, x[:, 0] - 2 * x[:, 1] + 3 * x[:, 2]


def initial() -> dict[str, Any]:
    """Return parameters of both dtypes."""
    return {"w": np.array([0.1, 0.2, -0.3], np.float32), "b": np.array([0.25, -0.125])}


def fit(params: Mapping[str, Any], batch: Sequence[Any]) -> tuple[float, Any]:
    """Return the mean squared error of x @ w + b[0] + b[1], and its gradients."""
    w, b = params["w"], params["b"]
    loss, slope_w, slope_b = 0.0, np.zeros(3, np.float32), 0.0
    for x, y in zip(*batch, strict=True):
        error = float(x[0] * w[0] + x[1] * w[1] + x[2] * w[2] - y) + b[0] + b[1]
        loss += error * error
        slope_w += np.float32(2 * error) * x
        slope_b += 2 * error
    n = len(batch[0])
    return loss / n, {"w": slope_w / np.float32(n), "b": np.full(2, slope_b / n)}


def slowly(params: Mapping[str, Any], batch: Sequence[Any]) -> tuple[float, Any]:
    """Do what `fit` does, in a time in which a process can be killed."""
    time.sleep(0.005)
    return fit(params, batch)


def keeping(
    params: Mapping[str, Any], batch: Sequence[Any], state: dict[str, Any]
) -> tuple[float, Any]:
    """Do what `fit` does, with a gradient that tells how often this worker computed.

    A worker is late now and then.
    """
    state["n"] = state.get("n", 0) + 1
    if state["n"] % 5 == 0:
        time.sleep(0.01)
    loss, found = fit(params, batch)
    found["w"] = found["w"] * np.float32(1 + state["n"] / 1024)
    return loss, found
