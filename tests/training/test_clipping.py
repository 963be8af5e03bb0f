"""The mean gradient of all workers is clipped to a length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kit
from tests.training.toy import BATCH, DATA, begin, fit, initial, quick_cluster


@pytest.mark.parametrize(("topology", "n_ps"), [("ring", 0), ("ps", 1)])
@pytest.mark.parametrize("norm", [0.5, 1e6])
def test_the_mean_over_all_workers_is_clipped(
    topology: str, n_ps: int, norm: float
) -> None:
    def alone(params: Any, step: int) -> Any:
        _, result = fit(params, tuple(part[:BATCH] for part in DATA))
        return result

    with quick_cluster(n_ps, 2) as cluster:
        whole = tuple(part[:BATCH] for part in DATA)
        run = begin(
            cluster,
            fit,
            data=lambda: iter([whole]),
            compress=kit.ClipByNorm(norm),
            optimizer=kit.GradientDescent(0.1),
            topology=topology,
            steps=3,
        ).wait(20)

    params = initial()
    for step in range(3):
        mean = alone(params, step)
        length = np.sqrt(
            sum(float((value.astype(float) ** 2).sum()) for value in mean.values())
        )
        factor = min(1.0, norm / length)
        params = {name: params[name] - 0.1 * factor * mean[name] for name in params}
    assert norm > 1 or factor < 1
    for name, wanted in params.items():
        np.testing.assert_allclose(run.params[name], wanted, rtol=2e-6, atol=1e-6)
