"""What a training reads: arrays, iterables, functions, dask blocks, other libraries."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import dask.array as da
import numpy as np
import pytest

import kit
from kit.errors import MemberMismatch, OutOfRangeError
from kit.testing.cluster import LocalCluster
from tests.training import toy
from tests.training.toy import (
    BATCH,
    DATA,
    X,
    Y,
    fit,
    replayed,
    rows,
    same_bits,
)

STEPS = 5


def begin(cluster: LocalCluster, data: Any, step: Any = fit, **changes: Any) -> kit.Run:
    return toy.begin(cluster, step, data=data, **{"steps": STEPS, **changes})


def batches() -> Iterator[Any]:
    for step in range(STEPS):
        yield X[rows(step)], Y[rows(step)]


def test_function_that_yields_batches_is_called_by_each_worker(
    cluster: LocalCluster,
) -> None:
    callers = set()

    def fresh() -> Iterator[Any]:
        callers.add(threading.current_thread().name)
        return batches()

    run = begin(cluster, fresh).wait(10)

    assert callers == {"kit-run-worker:0", "kit-run-worker:1"}
    assert same_bits(run.params, replayed(STEPS, 2, kit.GradientDescent()))


@pytest.mark.slow
def test_iterator_that_ends_early_ends_the_training_with_its_reason(
    cluster: LocalCluster,
) -> None:
    run = begin(cluster, lambda: iter(()))

    with pytest.raises(OutOfRangeError, match=r"/job:worker/task:\d.*empty"):
        run.wait(10)


def test_each_worker_loads_its_own_dask_blocks_only(cluster: LocalCluster) -> None:
    loaded: dict[str, set[int]] = {}

    def load(block: Any, block_info: Any = None) -> Any:
        name = threading.current_thread().name
        if block_info and name.startswith("kit-run"):  # not the guess at the dtype
            loaded.setdefault(name, set()).add(block_info[0]["chunk-location"][0])
        return block

    from_array: Any = da.from_array
    x = from_array(X, chunks=(10, 3)).map_blocks(load, dtype=X.dtype)
    y = from_array(Y, chunks=10)

    run = begin(cluster, (x, y), steps=6).wait(10)

    assert run.step == 6
    assert {"kit-run-worker:0", "kit-run-worker:1"} == loaded.keys()
    assert loaded["kit-run-worker:0"].isdisjoint(loaded["kit-run-worker:1"])
    assert set.union(*loaded.values()) == set(range(6))


class Tensor:
    """What a tensor of another library looks like: it converts itself to numpy."""

    def __init__(self, values: Any) -> None:
        self._values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self._values


def test_gradients_of_another_library_are_taken(cluster: LocalCluster) -> None:
    def foreign(params: Any, batch: Any) -> Any:
        loss, gradients = fit(params, batch)
        return Tensor(np.float64(loss)).__array__(), {
            name: Tensor(value) for name, value in gradients.items()
        }

    run = begin(cluster, DATA, foreign).wait(10)

    assert same_bits(run.params, replayed(STEPS, 2, kit.GradientDescent()))


def test_batch_is_a_tuple_of_this_workers_rows(cluster: LocalCluster) -> None:
    seen = []

    def look(params: Any, batch: Any) -> Any:
        seen.append((type(batch), [part.shape for part in batch]))
        return fit(params, batch)

    begin(cluster, DATA, look, steps=1, batch=9).wait(10)

    shapes = sorted(shapes for kind, shapes in seen if kind is tuple)
    assert shapes == [[(4, 3), (4,)], [(5, 3), (5,)]]


class Shuffled:
    """What a DataLoader(shuffle=True) is: each worker draws an order of its own."""

    def __init__(self, n_batches: int = 3, seeded: bool = False) -> None:
        self._n, self._seeded, self._passes = n_batches, seeded, dict[str, int]()

    def __iter__(self) -> Iterator[Any]:
        me = threading.current_thread().name
        self._passes[me] = number = self._passes.get(me, 0) + 1
        dice = np.random.default_rng(number if self._seeded else [number, *me.encode()])
        order = dice.permutation(len(X))
        for part in order[: self._n * BATCH].reshape(self._n, BATCH):
            yield X[part], Y[part]


def test_workers_that_shuffle_by_themselves_are_refused_by_name(
    cluster: LocalCluster,
) -> None:
    run = begin(cluster, Shuffled())

    with pytest.raises(MemberMismatch, match=r"task:\d.*step 0.*kit\.data\.torch"):
        run.wait(10)


def test_data_that_differ_from_a_later_pass_on_are_refused(
    cluster: LocalCluster,
) -> None:
    class Later(Shuffled):
        def __iter__(self) -> Iterator[Any]:
            is_first = threading.current_thread().name not in self._passes
            self._seeded = is_first
            return super().__iter__()

    run = begin(cluster, Later())

    with pytest.raises(MemberMismatch, match="step 3 holds other examples"):
        run.wait(10)


def test_passes_of_different_lengths_are_refused(cluster: LocalCluster) -> None:
    def uneven() -> Iterator[Any]:
        is_longer = threading.current_thread().name.endswith("1")
        yield from [(X[:BATCH], Y[:BATCH])] * (3 + is_longer)

    run = begin(cluster, uneven)

    with pytest.raises(MemberMismatch, match="pass 1 over the data at the steps"):
        run.wait(10)


def test_workers_that_shuffle_alike_train(cluster: LocalCluster) -> None:
    assert begin(cluster, Shuffled(seeded=True)).wait(10).step == STEPS


@pytest.mark.parametrize("local_steps", [None, 2])
def test_the_mean_is_over_the_mini_batch_that_an_iterable_yields(
    cluster: LocalCluster, local_steps: int | None
) -> None:
    batch = X[:BATCH], Y[:BATCH]

    def trained(size: int) -> Any:
        run = begin(cluster, lambda: iter([batch]), batch=size, local_steps=local_steps)
        return run.wait(10).params

    assert same_bits(trained(BATCH), trained(10 * BATCH))
