"""The data of a loss: what stands at its placeholders, in all forms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dask.array as da
import numpy as np
import pytest

from kit.testing.cluster import LocalCluster
from tests.training.graph_models import STEPS, Array, Model, X, Y, rows, train, trained
from tests.training.toy import same_bits


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.mark.slow
def test_data_may_be_dask_arrays(cluster: LocalCluster, model: Model) -> None:
    blocks: Any = da.from_array  # dask publishes no type of it
    data = {model.x: blocks(X, chunks=(4, 3)), model.y: blocks(Y, chunks=(4, 2))}

    assert train(cluster, model, data, steps=3).step == 3


@pytest.mark.slow
def test_data_may_be_mini_batches_for_all_placeholders(
    cluster: LocalCluster, model: Model
) -> None:
    def batches() -> Iterator[tuple[Array, Array]]:
        for step in range(STEPS):
            yield Y[rows(step)], X[rows(step)]

    run = train(cluster, model, {(model.y, model.x): batches})

    assert same_bits(run.params, trained())


@pytest.mark.slow
def test_data_of_another_dtype_are_cast(cluster: LocalCluster, model: Model) -> None:
    data = {model.x: X.astype(np.int8), model.y: Y.astype(np.float32)}

    assert same_bits(train(cluster, model, data).params, trained())
