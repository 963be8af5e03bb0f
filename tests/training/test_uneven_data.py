"""Data of which each worker has a part of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

import kit
import kit.data
from kit.testing.cluster import local_cluster
from tests.cases import for_each

X, Y = np.arange(60), np.repeat([0, 1, 2], 20)


@for_each("uneven", [kit.data.by_label((X, Y)), kit.data.dirichlet((X, Y), 0.5)])
def test_each_example_belongs_to_one_worker(uneven: Any) -> None:
    rows = uneven.rows(4)

    assert sorted(np.concatenate(rows)) == X.tolist()
    assert [value.tolist() for value in uneven.rows(4)] == [r.tolist() for r in rows]


def test_by_label_gives_each_worker_a_label_of_its_own() -> None:
    mixed = np.random.default_rng(0).permutation(60)

    rows = kit.data.by_label((X[mixed], Y[mixed])).rows(3)

    assert [set(Y[mixed][value]) for value in rows] == [{0}, {1}, {2}]


def test_a_large_alpha_is_even_and_a_small_one_is_not() -> None:
    def largest(alpha: float) -> float:
        rows = kit.data.dirichlet((X, Y), alpha, seed=3).rows(2)
        return max(abs(float(np.mean(Y[value] == 0)) - 1 / 3) for value in rows)

    assert largest(1e4) < 0.1 < largest(0.1)


def test_a_worker_reads_its_own_rows_only_and_goes_through_all_of_them() -> None:
    data = kit.data.by_label((X, Y))

    for worker in range(3):
        source = data.source(batch=12, seed=5, worker=worker, n_workers=3)
        read = [row for step in range(5) for row in source.batch(step)[0].tolist()]

        assert sorted(read) == sorted(data.rows(3)[worker].tolist())
        assert source.examples(7) == len(source.batch(7)[0]) == 4


def test_workers_with_other_data_train() -> None:
    def step(params: Any, batch: Any) -> Any:
        (labels,) = set(batch[1].tolist())
        return float(labels), {"w": np.ones(1)}

    with local_cluster(ps=0, worker=3) as cluster:
        run = kit.train(
            *(step, {"w": np.zeros(1)}, kit.data.by_label((X, Y))),
            optimizer=kit.GradientDescent(1.0),
            batch=12,
            topology="ring",
            steps=2,
            cluster=cluster,
        ).wait(10)

    assert run.loss == 1.0
    assert run.params["w"] == [-2.0]
