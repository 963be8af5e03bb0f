"""A training whose last bits depend on the number of BLAS threads.

With the kernels of OpenBLAS for x86, at least, a product of 64 x 784 and 784 x 100 has
other bits with two threads than with one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

import kit
from kit.training.data.sources import ArraySource

Params = dict[str, np.ndarray]
STEPS, BATCH, WORKERS, RATE = 8, 128, 2, 0.05

_chance = np.random.default_rng(3)
DATA = (
    _chance.standard_normal((256, 784)).astype(np.float32),
    _chance.standard_normal((256, 10)).astype(np.float32),
)
PARAMS: Params = {
    "hidden": _chance.standard_normal((784, 100)).astype(np.float32) / 28,
    "out": _chance.standard_normal((100, 10)).astype(np.float32) / 10,
}


def step(params: Params, batch: tuple[np.ndarray, ...]) -> tuple[float, Params]:
    """Return loss and gradients of two layers without a bias."""
    x, y = batch
    hidden = x @ params["hidden"]
    error = (hidden @ params["out"] - y) / np.float32(len(y))
    back = x.T @ (error @ params["out"].T)
    return float((error**2).sum()), {"hidden": back, "out": hidden.T @ error}


def begin(cluster: Any, function: Any = step, **options: Any) -> kit.Run:
    """Begin to train it; `options` are those of `kit.train`."""
    chosen = {"steps": STEPS, "batch": BATCH, "optimizer": kit.GradientDescent(RATE)}
    return kit.train(function, PARAMS, DATA, cluster=cluster, **{**chosen, **options})


def alone(threads: int, steps: int = STEPS, workers: int = WORKERS) -> Params:
    """Return what plain numpy makes of it with a number of BLAS threads."""
    sources = [ArraySource(DATA, BATCH, 0, n, workers) for n in range(workers)]
    params = {name: value.copy() for name, value in PARAMS.items()}
    with threadpool_limits(threads):
        for number in range(steps):
            result = [step(params, source.batch(number))[1] for source in sources]
            for name, value in params.items():
                total = result[0][name]
                for other in result[1:]:
                    total = total + other[name]
                value -= np.float32(RATE) * (total / np.float32(workers))
    return params


def digest(params: Mapping[str, np.ndarray]) -> str:
    """Return a digest of all bits."""
    result = hashlib.sha256()
    for name in sorted(params):
        result.update(params[name].tobytes())
    return result.hexdigest()


def n_threads() -> int:
    """Return how many threads numpy's BLAS has now."""
    expected = [row for row in threadpool_info() if row["user_api"] == "blas"]
    return max(int(row["num_threads"]) for row in expected)


def environment(runtime_dir: Path) -> dict[str, str]:
    """Return that of a program of its own, which finds this one's packages."""
    root = str(Path(__file__).parents[2])
    return {**os.environ, "PYTHONPATH": root, "KIT_RUNTIME_DIR": str(runtime_dir)}
