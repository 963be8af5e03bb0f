"""Training data in dask arrays: each worker loads its own blocks.

The only module that knows dask, and it loads dask only when there is dask data. Blocks
are dealt to the workers in turn, and a worker computes its own ones in its own process
when it needs them; nobody gathers the data, and no dask cluster is asked for anything.

    blocks of the data     0   1   2   3   4   5   6
    read by worker         0   1   2   0   1   2   0
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kit.arrays import to_numpy
from kit.errors import InvalidArgumentError
from kit.training.data.splits import check_seed, check_step, shuffled, split_bounds

Batch = tuple[npt.NDArray[Any], ...]
Indexes = npt.NDArray[np.intp]


def is_dask(x: object) -> bool:
    """Whether `x` is a dask array, without loading dask.

    >>> is_dask([1, 2])
    False
    """
    loaded = sys.modules.get("dask.array")
    return loaded is not None and isinstance(x, loaded.Array)


class BlockSource:
    """One worker's rows out of its own blocks of dask arrays.

    In every pass a worker goes through its blocks in a new order, and through the rows
    of each block in a new order, both drawn from `seed`; rows of different blocks are
    not mixed. All workers make equally many steps in a pass, as many as the one with
    the fewest rows can; rows left over are dropped for that pass. Unlike in
    `ArraySource`, the examples of a step depend on the number of workers. Any step can
    be read; going forwards loads each block once per pass. One block is kept in memory.
    """

    def __init__(
        self,
        arrays: Sequence[object],
        batch: int,
        seed: int,
        worker: int,
        n_workers: int,
        *,
        shuffle: bool = True,
    ) -> None:
        """Check the arrays and deal the blocks; no block is loaded.

        Raises `InvalidArgumentError` when the arrays are not all dask arrays cut alike
        along their first axis, or when a worker would not fill one step of a pass.
        """
        check_seed(seed)
        self._arrays = _checked(arrays)
        self._sizes = np.array(self._arrays[0].chunks[0], dtype=np.intp)
        lo, hi = split_bounds(batch, n_workers, worker)
        self._share, self._seed, self._shuffle = hi - lo, seed, shuffle
        self._worker, self._n_workers = worker, n_workers
        self._per_pass = _steps_per_pass(self._sizes, batch, n_workers)
        # The one block in memory, the block order of one pass with the place where each
        # block ends, and the row order of one block in one pass.
        self._loaded: tuple[int, Batch] | None = None
        self._pass: tuple[int, Indexes, Indexes] | None = None
        self._shuffled: tuple[int, int, Indexes] | None = None

    def batch(self, step: int) -> Batch:
        """Return this worker's rows of `step`, copied; loads blocks when it must.

        Computes in the calling thread, for as long as the graph of the block takes.
        What that graph raises comes through unchanged; `InvalidArgumentError` reports
        a block that does not have the rows that its array announced.
        """
        check_step(step)
        pass_index, index = divmod(step, self._per_pass)
        lo = index * self._share
        pieces = [
            tuple(part.take(rows, axis=0) for part in self._load(block))
            for block, rows in self._rows(pass_index, lo, lo + self._share)
        ]
        if len(pieces) == 1:
            return pieces[0]
        return tuple(np.concatenate(parts) for parts in zip(*pieces, strict=True))

    def examples(self, step: int) -> int:
        """Return how many rows this worker has in a step: always as many."""
        check_step(step)
        return self._share

    def _rows(self, pass_index: int, lo: int, hi: int) -> Iterator[tuple[int, Indexes]]:
        """Yield the blocks, and the rows in each, at the places lo..hi-1 of a pass."""
        blocks, ends = self._block_order(pass_index)
        at = int(np.searchsorted(ends, lo, side="right"))
        while lo < hi:
            block, end = int(blocks[at]), int(ends[at])
            start = end - int(self._sizes[block])
            order = self._row_order(pass_index, block)
            yield block, order[lo - start : min(hi, end) - start]
            lo, at = end, at + 1

    def _block_order(self, pass_index: int) -> tuple[Indexes, Indexes]:
        if self._pass is None or self._pass[0] != pass_index:
            order = np.arange(len(self._sizes))
            if self._shuffle:
                order = shuffled(len(order), self._seed, pass_index)
            mine = order[order % self._n_workers == self._worker]
            self._pass = (pass_index, mine, np.cumsum(self._sizes[mine]))
        return self._pass[1:]

    def _row_order(self, pass_index: int, block: int) -> Indexes:
        n = int(self._sizes[block])
        if not self._shuffle:
            return np.arange(n)
        if self._shuffled is None or self._shuffled[:2] != (pass_index, block):
            # Stream 0 is the order of the blocks.
            order = shuffled(n, self._seed, pass_index, stream=block + 1)
            self._shuffled = (pass_index, block, order)
        return self._shuffled[2]

    def _load(self, block: int) -> Batch:
        if self._loaded is None or self._loaded[0] != block:
            self._loaded = None  # never two blocks in memory
            self._loaded = (block, _compute(self._arrays, block))
        parts = self._loaded[1]
        if any(len(part) != self._sizes[block] for part in parts):
            raise InvalidArgumentError(
                f"block {block} has {[len(part) for part in parts]} rows, but its "
                f"arrays announced {self._sizes[block]}; give the true chunks when the "
                f"arrays are made."
            )
        return parts


def _compute(arrays: Sequence[Any], block: int) -> Batch:
    from dask.base import compute

    # One call for all arrays, so that what they share is computed once; synchronous,
    # so that no cluster that happens to be the default gets the work.
    wanted = [array.blocks[block] for array in arrays]
    parts = compute(*wanted, scheduler="synchronous")  # type: ignore[no-untyped-call]  # dask's own gap
    return tuple(to_numpy(part) for part in parts)


def _checked(arrays: Sequence[object]) -> tuple[Any, ...]:
    if not arrays or not all(is_dask(array) for array in arrays):
        kinds = ", ".join(type(array).__name__ for array in arrays) or "nothing"
        raise InvalidArgumentError(
            f"the data are {kinds}, but all must be dask arrays; convert data frames "
            f"with .to_dask_array(lengths=True), arrays with dask.array.from_array."
        )
    checked: tuple[Any, ...] = tuple(arrays)
    cuts = [array.chunks[0] if array.ndim else () for array in checked]
    if () in cuts or len(set(cuts)) > 1 or any(map(math.isnan, cuts[0])):
        raise InvalidArgumentError(
            f"the dask arrays are cut along their first axis into {cuts}; all must "
            f"have the same known blocks: use .rechunk, .compute_chunk_sizes() for nan."
        )
    return checked


def _steps_per_pass(sizes: Indexes, batch: int, n_workers: int) -> int:
    """Return how many steps every worker can make with its blocks."""
    steps = []
    for worker in range(n_workers):
        lo, hi = split_bounds(batch, n_workers, worker)
        rows = int(sizes[worker::n_workers].sum())
        steps.append(rows // (hi - lo))
        if not steps[-1]:
            raise InvalidArgumentError(
                f"worker {worker} of {n_workers} would have {rows} rows in its blocks "
                f"and needs {hi - lo} for a step; there are {len(sizes)} blocks of "
                f"{int(sizes.sum())} rows: cut smaller blocks with .rechunk, or give a "
                f"smaller batch."
            )
    return min(steps)
