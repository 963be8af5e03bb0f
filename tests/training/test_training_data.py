"""What a training reads: arrays, iterables, functions, dask blocks, other libraries."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import dask
import dask.array as da
import numpy as np
import numpy.typing as npt
import pytest

import kit
from kit.errors import InvalidArgumentError, MemberMismatch, OutOfRangeError
from kit.testing.cluster import LocalCluster
from kit.training.data.dask_source import BlockSource
from tests.cases import for_each
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


# -- blocks of dask arrays -------------------------------------------------------------

Array = npt.NDArray[Any]


def joined(sources: list[Any], step: int) -> list[Any]:
    """The first array of the step, over all workers in their order."""
    return [row for source in sources for row in source.batch(step)[0].tolist()]


class Disk:
    """Blocks that count how often each is loaded: block b holds 100 b, 100 b + 1, …"""

    def __init__(self, *sizes: int) -> None:
        self.loads: Counter[int] = Counter()
        self.sizes = sizes

    def _load(self, block: int) -> Array:
        self.loads[block] += 1
        return np.arange(self.sizes[block]) + 100 * block

    def array(self) -> Any:
        parts = [
            da.from_delayed(dask.delayed(self._load, pure=False)(b), (n,), dtype=int)  # type: ignore[attr-defined, no-untyped-call]  # dask's own gaps
            for b, n in enumerate(self.sizes)
        ]
        return da.concatenate(parts)  # type: ignore[no-untyped-call]  # dask's own gap


def test_each_worker_loads_its_own_blocks_once_in_a_pass() -> None:
    for worker, own in enumerate([{0, 2, 4}, {1, 3, 5}]):
        disk = Disk(4, 4, 4, 4, 4, 4)
        source = BlockSource([disk.array()], 6, 1, worker, 2)
        assert not disk.loads

        for step in range(4):  # twelve rows in steps of three
            source.batch(step)

        assert disk.loads == dict.fromkeys(own, 1)


def test_pass_over_blocks_reads_every_row_once_over_all_workers() -> None:
    array = Disk(5, 7, 4, 6, 9, 2, 3).array()
    sources = [BlockSource([array], 4, 3, w, 2) for w in range(2)]
    # Worker 0 has 21 rows and worker 1 has 15: seven steps of two each.

    rows = [joined(list(sources), step) for step in range(14)]

    first, second = list(chain(*rows[:7])), list(chain(*rows[7:]))
    everything = set(array.compute(scheduler="synchronous").tolist())
    for one_pass in (first, second):
        assert len(set(one_pass)) == 28
        assert set(one_pass) <= everything
    assert first != second


def test_step_that_begins_with_a_block_loads_that_block_alone() -> None:
    disk = Disk(3, 3)

    BlockSource([disk.array()], 3, 0, 0, 1, shuffle=False).batch(1)

    assert disk.loads == {1: 1}


def test_rows_of_dask_arrays_belong_together_and_shared_work_is_done_once() -> None:
    disk = Disk(6, 6)
    x = disk.array()
    source = BlockSource([x, x * 2], 4, 0, 0, 1)

    for step in range(3):
        first, two = source.batch(step)
        assert (first * 2).tolist() == two.tolist()
        assert source.examples(step) == len(first) == 4

    assert set(disk.loads.values()) == {1}


def test_unshuffled_blocks_come_in_their_order() -> None:
    source = BlockSource([Disk(3, 9, 4).array()], 4, 0, 0, 2, shuffle=False)

    rows = [source.batch(step)[0].tolist() for step in (0, 1, 2, 3)]

    assert rows == [[0, 1], [2, 200], [201, 202], [0, 1]]


def test_any_step_over_blocks_can_be_read_at_any_time() -> None:
    array = Disk(5, 7, 4, 6).array()
    steps = [9, 0, 4, 4, 1]
    first, other = (BlockSource([array], 4, 3, 1, 2) for _ in range(2))

    wild = {step: first.batch(step)[0].tolist() for step in steps}
    tidy = {step: other.batch(step)[0].tolist() for step in sorted(steps)}

    assert wild == tidy


def test_blocks_are_computed_in_the_calling_thread_whatever_the_default() -> None:
    def refuse(*args: object, **named: object) -> None:
        raise AssertionError("the default scheduler was asked")

    source = BlockSource([Disk(4).array()], 4, 0, 0, 1)

    with dask.config.set(scheduler=refuse):
        assert sorted(source.batch(0)[0].tolist()) == [0, 1, 2, 3]


def test_blocks_cut_along_other_axes_are_whole_rows() -> None:
    x = np.arange(24).reshape(6, 4)
    array = da.from_array(x, chunks=(2, 3))  # type: ignore[no-untyped-call]  # dask's own gap
    source = BlockSource([array], 6, 0, 0, 1, shuffle=False)

    np.testing.assert_array_equal(source.batch(0)[0], x)


def test_block_that_is_not_as_long_as_announced_is_refused() -> None:
    short = dask.delayed(np.ones)(3)  # type: ignore[attr-defined]  # dask's own gap
    array = da.from_delayed(short, (4,), dtype=float)  # type: ignore[no-untyped-call]  # dask's own gap

    with pytest.raises(InvalidArgumentError, match=r"block 0 has \[3\] rows.*4"):
        BlockSource([array], 4, 0, 0, 1).batch(0)


def ones(n: int, chunks: Any) -> Any:
    return da.ones(n, chunks=chunks)


@for_each(
    ("make", "part"),
    [
        (lambda: BlockSource([ones(9, 3), ones(9, 9)], 3, 0, 0, 1), r"\(3, 3, 3\)"),
        (lambda: BlockSource([ones(9, 3), np.ones(9)], 3, 0, 0, 1), "Array, ndarray"),
        (lambda: BlockSource([], 3, 0, 0, 1), "the data are nothing"),
        (lambda: BlockSource([ones(9, 3).sum()], 3, 0, 0, 1), r"\[\(\)\]"),
        (
            lambda: BlockSource([ones(9, 3)[ones(9, 3) > 0]], 3, 0, 0, 1),
            "compute_chunk_sizes",
        ),
        (lambda: BlockSource([ones(9, 9)], 4, 0, 0, 2), "worker 1 of 2 .* 0 rows"),
        (lambda: BlockSource([ones(9, 3)], 8, 0, 0, 2), "3 rows .* needs 4"),
        (lambda: BlockSource([ones(9, 3)], 1, 0, 0, 2), "mini-batch of 1 .* 2 workers"),
        (lambda: BlockSource([ones(9, 3)], 3, -1, 0, 1), "seed is -1"),
        (lambda: BlockSource([ones(9, 3)], 3, 0, 0, 1).batch(-1), "step is -1"),
    ],
)
def test_dask_arrays_that_cannot_be_dealt_are_refused(
    make: Callable[[], object], part: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=part):
        make()
