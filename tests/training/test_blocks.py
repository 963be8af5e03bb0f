"""Each worker loads its own blocks of dask arrays, by itself and once in a pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import chain
from typing import Any

import dask
import dask.array as da
import numpy as np
import numpy.typing as npt
import pytest

from kit.errors import InvalidArgumentError
from kit.training.data.dask_source import BlockSource
from tests.cases import for_each

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
