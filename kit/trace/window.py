"""Tables of bounded size to which rows are added without end.

A `Window` keeps the newest rows. A `Thinned` table keeps the newest steps whole, and of
the older ones every second, fourth, eighth ... step, so that a curve reaches back to
the first step however long the training is. A `MeasureTable` spares what is measured
seldom. All depend on the rows alone: the same rows in the
same order leave the same ones.

What was handed out never changes: rows are written behind it, and when some have to go,
the others move to new memory. That is so rare that a row is copied some ten times in
all. Memory needed on the way is taken in small parts or from the system: else each
thread's heap might keep some MiB of it.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kit.trace.log import Rows

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
_LEAST = 1024  # rows of the first block
_PART = 2048  # rows that are moved together
_OWN = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_FAR = np.iinfo(np.int64).max


class Window:
    """The newest `limit` rows of a table with a column `step`.

    >>> window = Window(np.dtype([("step", "i8")]), limit=3)
    >>> window.add(np.array([(7,), (8,)], window.dtype))
    >>> window.rows["step"].tolist(), window.since(1)[0]["step"].tolist()
    ([7, 8], [8])
    """

    def __init__(self, dtype: np.dtype[Any], limit: int) -> None:
        """Begin empty, with next to no memory."""
        self.dtype, self.limit = dtype, limit
        self.added = 0  # rows, ever
        self.whole = 0  # no row of this step or a later one was dropped
        self._rows: Rows = np.empty(0, dtype)
        self._numbers = np.empty(0, np.int64)  # of each row, among all ever added
        self._size = 0

    def add(self, rows: Rows) -> None:
        """Append rows; the oldest ones make room for them."""
        numbers = np.arange(self.added, self.added + len(rows))
        self.added += len(rows)
        self._append(rows, numbers)

    @property
    def rows(self) -> Rows:
        """The kept rows in the order in which they came: a view, at no cost."""
        return self._from(0)

    def since(self, cursor: int) -> tuple[Rows, int]:
        """Return those kept of the rows from number `cursor` on, and the next cursor.

        A view: the cost does not depend on the number of rows.
        """
        numbers = self._numbers[: self._size]
        return self._from(int(np.searchsorted(numbers, cursor))), self.added

    def lack(self, before: int) -> None:
        """Note that rows of steps up to `before` never came."""
        self.whole = max(self.whole, before + 1)

    def _from(self, first: int) -> Rows:
        view = self._rows[first : self._size]
        view.flags.writeable = False
        return view

    def _append(self, rows: Rows, numbers: Ints) -> None:
        size = self._size + len(rows)
        if size > self.limit:
            steps = _block(size, np.dtype(np.int64))
            steps[: self._size] = self._rows["step"][: self._size]
            steps[self._size :] = rows["step"]
            # Down to 7/8, not just to the limit: so an eighth of the table is added
            # before rows must be moved again.
            spared = np.concatenate([self._spared(self.rows), self._spared(rows)])
            kept = self._chosen(steps, spared, max(1, self.limit * 7 // 8))
            held, new = kept[: self._size], kept[self._size :]
            self._move(held, self.limit)
            # Written to now, so that the memory is taken at once: the process would
            # else shrink and grow again each time.
            self._rows[self._size :], self._numbers[self._size :] = 0, 0
            rows, numbers = rows[new], numbers[new]
            size = self._size + len(rows)
        elif size > len(self._rows):
            capacity = min(self.limit, max(2 * len(self._rows), size, _LEAST))
            self._move(np.ones(self._size, np.bool_), capacity)
        self._rows[self._size : size] = rows
        self._numbers[self._size : size] = numbers
        self._size = size

    def _move(self, kept: Flags, capacity: int) -> None:
        """Take the kept rows to new memory."""
        # As opaque bytes: numpy copies rows with fields field by field, far more
        # slowly.
        whole = np.dtype((np.void, self.dtype.itemsize))
        rows, numbers, self._size = self._rows.view(whole), self._numbers, 0
        self._rows = _block(capacity, self.dtype)
        self._numbers = _block(capacity, np.dtype(np.int64))
        moved = self._rows.view(whole)
        for part in _parts(len(kept)):
            chosen = kept[part]
            end = self._size + int(np.count_nonzero(chosen))
            moved[self._size : end] = rows[part][chosen]
            self._numbers[self._size : end] = numbers[part][chosen]
            self._size = end

    def _spared(self, rows: Rows) -> Flags:
        """Return which rows stay longer than others of their steps."""
        return np.zeros(len(rows), np.bool_)

    def _chosen(self, steps: Ints, spared: Flags, most: int) -> Flags:
        """Return which rows are kept, at most `most`."""
        kept = np.zeros(len(steps), np.bool_)
        kept[-most:] = True
        self.lack(int(steps[:-most].max()))
        return kept


def _parts(n_rows: int) -> Iterator[slice]:
    for begin in range(0, n_rows, _PART):
        yield slice(begin, min(begin + _PART, n_rows))


def _block(capacity: int, dtype: np.dtype[Any]) -> Rows:
    """Return memory from the system: a heap would keep what is given back."""
    return np.frombuffer(mmap.mmap(-1, capacity * dtype.itemsize, _OWN), dtype)


@dataclass
class Thinning:
    """Which steps are kept; tables that belong together share it.

    Of the steps before `whole`, those that `stride` divides, and the first one; from
    `whole` on, all of them.
    """

    stride: int = 1
    whole: int = 0
    first: int = _FAR

    def keeps(self, steps: Ints) -> Flags:
        """Return for each step whether it is kept."""
        kept = np.empty(len(steps), np.bool_)
        for part in _parts(len(steps)):
            some = steps[part]
            kept[part] = some % self.stride == 0
            kept[part] |= (some == self.first) | (some >= self.whole)
        return kept


class Thinned(Window):
    """A table of which the older steps are thinned out; a step is kept whole or not."""

    def __init__(self, dtype: np.dtype[Any], limit: int, thinning: Thinning) -> None:
        """Begin empty; `thinning` may be shared with other tables."""
        super().__init__(dtype, limit)
        self._thinning = thinning

    def _append(self, rows: Rows, numbers: Ints) -> None:
        thinning = self._thinning
        if thinning.stride > 1:  # a late row is treated as its neighbours were
            kept = thinning.keeps(rows["step"]) | self._spared(rows)
            rows, numbers = rows[kept], numbers[kept]
        elif len(rows):
            thinning.first = min(thinning.first, int(rows["step"].min()))
        super()._append(rows, numbers)

    def _chosen(self, steps: Ints, spared: Flags, most: int) -> Flags:
        """Keep the newest, 5/8 of the limit, and of the rest one step in 2, 4, ..."""
        thinning = self._thinning
        middle = len(steps) - self.limit * 5 // 8 - 1
        ordered = _block(len(steps), steps.dtype)
        ordered[:] = steps
        ordered.partition(middle)
        # Never backwards, and a stride only ever doubles: a step that was thinned out
        # once would be missing from what is said to be whole.
        thinning.whole = max(thinning.whole, int(ordered[middle]))
        kept = thinning.keeps(steps) | spared
        while kept.sum() > most and thinning.stride < thinning.whole:
            thinning.stride *= 2
            kept = thinning.keeps(steps) | spared
        if (surplus := int(kept.sum()) - most) > 0:
            # More tasks than rows of the limit: then only the newest rows are kept.
            kept[: np.flatnonzero(kept)[surplus]] = False
        return kept


class MeasureTable(Thinned):
    """A table of numbers by their names, of which what is measured seldom stays whole.

    A validation every 100 steps would lose most of its points with the steps at which
    it was made. So the names share half of the table equally, and a name is thinned out
    only when it has had more rows than its share.
    """

    def __init__(self, dtype: np.dtype[Any], limit: int, thinning: Thinning) -> None:
        """Begin empty; `dtype` has a column `name` too."""
        super().__init__(dtype, limit, thinning)
        self._counts: dict[bytes, int] = {}

    def add(self, rows: Rows) -> None:
        """Append rows; some of the older ones make room for them."""
        for name, count in zip(
            *np.unique(rows["name"], return_counts=True), strict=True
        ):
            self._counts[name] = self._counts.get(name, 0) + int(count)
        super().add(rows)

    def _spared(self, rows: Rows) -> Flags:
        share = self.limit // 2 // max(1, len(self._counts))
        seldom = [name for name, count in self._counts.items() if count <= share]
        return np.isin(rows["name"], np.array(seldom, rows["name"].dtype))
