"""Where a worker's part of every mini-batch comes from.

Each worker has its own source and reads its own rows, disjoint from the others': no
example crosses a link. Arrays in memory and iterables are here, dask arrays in
`kit.training.data.dask_source`. Nothing is read ahead, and no source starts a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from kit.arrays import to_numpy
from kit.errors import InvalidArgumentError, OutOfRangeError
from kit.training.data.agreement import DataReport, batch_digest
from kit.training.data.dask_source import Batch, BlockSource, is_dask
from kit.training.data.splits import check_seed, check_step, shuffled, split_bounds


@runtime_checkable
class Source(Protocol):
    """One worker's examples, step by step.

    What it gives depends on the step alone: a training that resumes begins with a later
    one, and one that repeats steps after a loss asks for them again. A third method,
    `total(step)`, says how many examples all workers have in a step, where that is not
    `batch` of `kit.train`; a worker's gradient counts by its part of them.
    """

    def batch(self, step: int) -> Batch:
        """Return this worker's rows of the mini-batch of `step`, one array per part.

        Steps come in their order, from whichever the training begins with; without
        `sync` they are the worker's own mini-batches, and with `local_steps` those of
        the training, H for each exchange.
        """
        ...

    def examples(self, step: int) -> int:
        """Return how many rows that is; called after `batch`."""
        ...


@runtime_checkable
class Reported(Protocol):
    """A source that all workers have alike, and which says by what that is seen."""

    def report(self, step: int) -> DataReport | None:
        """Return what all must have read alike at `step`, which was read just now.

        None where there is nothing to compare.
        """
        ...


@runtime_checkable
class Divided(Protocol):
    """Data that decide what each worker's part of a mini-batch is."""

    def source(self, batch: int, seed: int, worker: int, n_workers: int) -> Source:
        """Return one worker's source; called in the worker's task.

        Parameters
        ----------
        batch, seed : int
            As given to `kit.train`; the mini-batch is that of all workers.
        worker, n_workers : int
            Which worker it is for, counted from 0, and of how many.
        """
        ...


class ArraySource:
    """Mini-batches out of arrays in memory, or mapped into it, in random order.

    Every pass visits the examples in a new order, drawn from `seed`. Mini-batch `step`
    holds the same examples in the same order whatever the number of workers; an
    incomplete one at the end of a pass is dropped. Any step can be read at any time.
    The first step of a pass costs a sort of all example numbers, 8 bytes each.
    """

    def __init__(
        self,
        arrays: object,
        batch: int,
        seed: int,
        worker: int,
        n_workers: int,
        *,
        shuffle: bool = True,
    ) -> None:
        """Check the arrays; nothing is copied.

        Raises `InvalidArgumentError` when their first axes differ, when a mini-batch
        would be larger than all examples, or smaller than the number of workers.
        """
        parts = arrays if isinstance(arrays, (tuple, list)) else (arrays,)
        self._arrays = tuple(to_numpy(part) for part in parts)
        self._n = _common_length(self._arrays)
        if batch > self._n:
            raise InvalidArgumentError(
                f"a mini-batch of {batch} is larger than all {self._n} examples; give "
                f"a smaller batch."
            )
        check_seed(seed)
        self._lo, self._hi = split_bounds(batch, n_workers, worker)
        self._batch, self._seed, self._shuffle = batch, seed, shuffle
        self._order: tuple[int, npt.NDArray[np.intp]] | None = None
        self._has_reported = False

    def batch(self, step: int) -> Batch:
        """Return this worker's rows of mini-batch `step`, copied."""
        check_step(step)
        pass_index, index = divmod(step, self._n // self._batch)
        start = index * self._batch
        rows = self._rows(pass_index, start + self._lo, start + self._hi)
        return tuple(array.take(rows, axis=0) for array in self._arrays)

    def examples(self, step: int) -> int:
        """Return how many rows this worker has in a mini-batch: always as many."""
        check_step(step)
        return self._hi - self._lo

    def report(self, step: int) -> DataReport | None:
        """See `Reported`: once, since arrays do not change."""
        if self._has_reported:
            return None
        self._has_reported = True
        per_pass = self._n // self._batch
        pass_index, index = divmod(step, per_pass)
        rows = self._rows(pass_index, index * self._batch, (index + 1) * self._batch)
        whole = batch_digest([array.take(rows, axis=0) for array in self._arrays])
        return DataReport(step, pass_index, step - index, self._n, whole)

    def _rows(self, pass_index: int, lo: int, hi: int) -> npt.NDArray[np.intp]:
        if not self._shuffle:
            return np.arange(lo, hi)
        if self._order is None or self._order[0] != pass_index:
            self._order = (pass_index, shuffled(self._n, self._seed, pass_index))
        return self._order[1][lo:hi]


class IterableSource:
    """This worker's rows of mini-batches that an iterable hands out.

    Every worker has its own iterable, and all yield the same mini-batches (arrays of
    any library, alone or in tuples); each keeps its own rows. What can be iterated
    again, or is a function that returns an iterator, starts anew when it is exhausted.
    Steps are read forwards; the current one may be read again. The arrays are copies of
    what was yielded: a step may write into its own.
    """

    def __init__(
        self,
        data: Iterable[Any] | Callable[[], Iterable[Any]],
        worker: int,
        n_workers: int,
    ) -> None:
        """Keep the iterable; nothing is read yet.

        Raises `InvalidArgumentError` when there is no such worker.
        """
        split_bounds(n_workers, n_workers, worker)
        self._data, self._worker, self._n_workers = data, worker, n_workers
        self._iterator: Iterator[Any] | None = None
        self._step = -1
        self._parts: tuple[Any, ...] = ()
        self._pass, self._begin, self._has_reported = -1, 0, False
        self._length = -1
        with suppress(TypeError):  # a DataLoader has `__len__`, which may not know it
            self._length = len(data)  # type: ignore[arg-type]  # see above

    def batch(self, step: int) -> Batch:
        """Return this worker's rows of mini-batch `step`; those before it are skipped.

        Raises `InvalidArgumentError` for a step that has gone by and for a mini-batch
        that cannot be split, `OutOfRangeError` when there is no such mini-batch.
        """
        lo, hi = self._bounds_at(step)
        # Cut first: of an array on a device only these rows come to the host.
        return tuple(np.array(to_numpy(part[lo:hi])) for part in self._parts)

    def examples(self, step: int) -> int:
        """Return how many rows `batch(step)` has; reads that mini-batch."""
        lo, hi = self._bounds_at(step)
        return hi - lo

    def total(self, step: int) -> int:
        """Return how many examples mini-batch `step` has, of all workers."""
        self._bounds_at(step)
        return _common_length(self._parts)

    def report(self, step: int) -> DataReport | None:
        """See `Reported`: in the first mini-batch of each pass, and the first read."""
        if self._has_reported and step != self._begin:
            return None
        self._has_reported = True
        whole = batch_digest([to_numpy(part) for part in self._parts])
        return DataReport(step, self._pass, self._begin, self._length, whole)

    def _bounds_at(self, step: int) -> tuple[int, int]:
        check_step(step)
        if step < self._step:
            raise InvalidArgumentError(
                f"step {step} was asked for after step {self._step}, but an iterable "
                f"is read forwards only; use arrays, or start a new source."
            )
        while self._step < step:
            item = self._next()
            self._parts = tuple(item) if isinstance(item, (tuple, list)) else (item,)
            self._step += 1
        return split_bounds(_common_length(self._parts), self._n_workers, self._worker)

    def _next(self) -> Any:
        for fresh in (False, True):  # when it is exhausted, once more from the start
            if self._iterator is None or fresh:
                self._iterator = self._start(again=fresh)
                self._pass, self._begin = self._pass + 1, self._step + 1
            try:
                return next(self._iterator)
            except StopIteration:
                continue
        raise OutOfRangeError(
            f"there is no mini-batch for step {self._step + 1}: the iterable is empty "
            f"when it starts anew; check what it reads from.",
            step=self._step + 1,
        )

    def _start(self, *, again: bool) -> Iterator[Any]:
        started = iter(self._data() if callable(self._data) else self._data)
        if again and started is self._data:
            raise OutOfRangeError(
                f"the iterable ended after {self._step + 1} mini-batches and cannot "
                f"start anew for step {self._step + 1}; give a function that returns a "
                f"new iterator, or fewer steps.",
                step=self._step + 1,
            )
        return started


def make_source(
    data: object, batch: int, seed: int, worker: int, n_workers: int
) -> Source:
    """Make the source that fits the type of `data`.

    A `Source` is taken as it is, `Divided` data are asked for one. An array, or a tuple
    or list of arrays, becomes an `ArraySource`; dask arrays become a `BlockSource`; a
    function or another iterable of mini-batches becomes an `IterableSource`, for which
    `batch` and `seed` mean nothing.
    Raises `InvalidArgumentError` for anything else and for what the source refuses.

    >>> make_source(np.arange(6), batch=6, seed=0, worker=1, n_workers=2).examples(0)
    3
    """
    if isinstance(data, Source):
        return data
    if isinstance(data, Divided):
        return data.source(batch, seed, worker, n_workers)
    parts: Sequence[object] = data if isinstance(data, (tuple, list)) else (data,)
    _check_meant(data)
    if any(is_dask(part) or hasattr(part, "__dask_graph__") for part in parts):
        return BlockSource(parts, batch, seed, worker, n_workers)
    if parts and all(len(getattr(part, "shape", ())) > 0 for part in parts):
        return ArraySource(parts, batch, seed, worker, n_workers)
    has_no_axis = getattr(data, "shape", None) == ()
    if isinstance(data, (str, bytes, dict)) or not (
        callable(data) or (isinstance(data, Iterable) and not has_no_axis)
    ):
        raise InvalidArgumentError(
            f"a {type(data).__module__}.{type(data).__qualname__} is not data to train "
            f"on; give arrays such as (x, y), dask arrays, an iterable of mini-batches "
            f"or a function that returns one{_instead(data)}."
        )
    return IterableSource(data, worker, n_workers)


def _check_meant(data: object) -> None:
    """Refuse a list that may be mini-batches or arrays, and rows that are no arrays."""
    if not isinstance(data, (tuple, list)) or not data:
        return
    name = type(data).__name__
    if all(isinstance(part, (list, int, float)) for part in data):
        raise InvalidArgumentError(
            f"the data are a {name} of {len(data)} Python {type(data[0]).__name__}s; "
            f"for examples write np.array(data), for several arrays "
            f"(np.array(x), np.array(y))."
        )
    shapes = [tuple(getattr(part, "shape", ())) for part in data]
    if name != "list" or len(data) < 2 or () in shapes:
        return
    # As columns of the same examples, (x, y), they differ in shape or dtype.
    kinds = {
        (shape[1:], str(getattr(part, "dtype", "")))
        for shape, part in zip(shapes, data, strict=True)
    }
    if len(kinds) == 1:
        raise InvalidArgumentError(
            f"the data are a list of {len(data)} arrays of shapes {shapes[:3]}: for "
            f"arrays of the same examples write a tuple, (x, y), for mini-batches a "
            f"function, lambda: batches."
        )


def _instead(data: object) -> str:
    if isinstance(data, dict):
        names = ", ".join(f"data[{name!r}]" for name in [*data][:3])
        return f"; for a dict write ({names},)" if names else ""
    is_text = isinstance(data, (str, bytes))
    return f"; load a file first: np.load({data!r})" if is_text else ""


def _common_length(parts: Sequence[Any]) -> int:
    """Return the length of the first axis, which all arrays must share."""
    shapes = [tuple(getattr(part, "shape", ())) for part in parts]
    if not shapes or () in shapes or len({shape[0] for shape in shapes}) > 1:
        raise InvalidArgumentError(
            f"the arrays of the data have the shapes {shapes}; give at least one "
            f"array, and all with one row per example, equally many."
        )
    return int(shapes[0][0])
