"""A whole training in columns of bounded size, to which its news are added.

Pure: numpy only. Steps are gathered into bins of 1, 2, 4, ... steps; when there would
be too many bins, neighbours are joined. So a board that watched from the start, one
that came later and one that reads a saved trace have the same columns, except for what
is not kept of a long training. And to a page, a million steps cost no more than a
thousand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kit.trace.log import Rows
from kit.trace.named_rows import Change, EpochRow
from kit.trace.trace import STEP_KINDS, Trace
from widgets.drawing import figure_data
from widgets.drawing.figure_data import Columns

_FAR = np.iinfo(np.int64).max
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class TrainingHistory:
    """The loss and the bytes of each link, by stretches of steps.

    >>> history = TrainingHistory(("/job:worker/task:0",))
    >>> history.n_steps, history.loss()["step"]
    (0, [])
    """

    def __init__(self, tasks: tuple[str, ...], most: int = 256) -> None:
        """Begin empty; there will be at most `most` stretches, an even number."""
        self._names, self._most = Trace(tasks), most
        self.width = 1  # steps in a stretch
        self.n_steps = 0  # one more than the highest step seen
        self.origin = 0  # of all times: the first event
        self.epochs: tuple[EpochRow, ...] = ()
        self._whole_from: int | None = None  # all bytes are known from this step on
        # For each generation of an elastic training: the first step that it did again,
        # and the first that was new.
        self._again: dict[int, tuple[int, int]] = {}
        self._start = np.full(most, _FAR)
        self._end = np.zeros(most, np.int64)
        self._weight, self._loss = np.zeros(most), np.zeros(most)
        self._low, self._high = np.full(most, np.inf), np.full(most, -np.inf)
        self._links: dict[tuple[int, int], Floats] = {}
        self._measures: dict[str, tuple[Floats, Floats]] = {}  # weight, weighted sum

    def add(self, news: Trace) -> None:
        """Add rows that were not seen before; epochs and totals are always complete."""
        if self._whole_from is None:  # what is dropped later has been added by then
            self._whole_from = news.kept.details
        self.epochs = tuple(sorted(news.epochs))
        self._note_generations(news)
        first, _ = news.bounds()
        self.origin = min(self.origin or first, first or self.origin)
        for table in (news.steps, news.transfers, news.measures):
            if len(table):
                self._make_room(int(table["step"].max()) + 1)
        self._add_steps(news.steps)
        self._add_transfers(news.transfers)
        self._add_measures(news.measures)

    def _note_generations(self, news: Trace) -> None:
        for row in self.epochs:
            if row.generation and row.generation not in self._again:
                # The same news may have steps of the generation before, not added yet.
                before = news.transfers["epoch"] < row.number
                reached = news.transfers["step"][before].max(initial=-1)
                again = row.first_step, max(self.n_steps, int(reached) + 1)
                self._again[row.generation] = again

    def _make_room(self, n_steps: int) -> None:
        self.n_steps = max(self.n_steps, n_steps)
        # Joined by twos, so the bins depend only on the number of steps, and not on how
        # the news were cut into pieces.
        while self.n_steps > self.width * self._most:
            self.width *= 2
            self._start = _join(self._start, np.minimum, _FAR)
            self._end = _join(self._end, np.maximum, 0)
            self._weight = _join(self._weight, np.add, 0.0)
            self._loss = _join(self._loss, np.add, 0.0)
            self._low = _join(self._low, np.minimum, np.inf)
            self._high = _join(self._high, np.maximum, -np.inf)
            for link, amount in self._links.items():
                self._links[link] = _join(amount, np.add, 0.0)
            for name, (weight, total) in self._measures.items():
                joined = _join(weight, np.add, 0.0), _join(total, np.add, 0.0)
                self._measures[name] = joined

    def _add_steps(self, table: Rows) -> None:
        bin_of = table["step"] // self.width
        _reach(self._start, bin_of, table["start"], np.minimum)
        _reach(self._end, bin_of, table["end"], np.maximum)
        counts = table["examples"] > 0
        bin_of, loss = bin_of[counts], table["loss"][counts]
        weight = table["examples"][counts].astype(np.float64)
        self._weight += np.bincount(bin_of, weight, self._most)
        self._loss += np.bincount(bin_of, weight * loss, self._most)
        _reach(self._low, bin_of, loss, np.minimum)
        _reach(self._high, bin_of, loss, np.maximum)

    def _add_transfers(self, table: Rows) -> None:
        # From columns: selecting whole rows takes ten times as long.
        moves = np.isin(table["kind"], STEP_KINDS)
        bin_of, n_bytes = table["step"][moves] // self.width, table["bytes"][moves]
        _reach(self._end, bin_of, table["end"][moves], np.maximum)
        source, target = table["source"][moves], table["destination"][moves]
        code = source.astype(np.int64) << 16 | target
        order, first = _groups(code)
        for mine in np.split(order, first[1:]) if len(order) else ():
            pair = int(code[mine[0]])
            link = pair >> 16, pair & 0xFFFF
            amount = self._links.setdefault(link, np.zeros(self._most))
            amount += np.bincount(bin_of[mine], n_bytes[mine], self._most)

    def _add_measures(self, table: Rows) -> None:
        for name in np.unique(table["name"]):
            mine = table[(table["name"] == name) & np.isfinite(table["value"])]
            bin_of, many = mine["step"] // self.width, mine["examples"].astype(float)
            empty = np.zeros(self._most), np.zeros(self._most)
            weight, total = self._measures.setdefault(name.decode(), empty)
            weight += np.bincount(bin_of, many, self._most)
            total += np.bincount(bin_of, many * mine["value"], self._most)

    # -- columns ----------------------------------------------------------------

    def loss(self) -> Columns:
        """Return step, loss, low and high: mean and range of each stretch of steps."""
        bins = np.flatnonzero(self._weight)
        step = self._middles(bins)
        loss = self._loss[bins] / self._weight[bins]
        return {
            "step": step.tolist(),
            "loss": loss.tolist(),
            "low": self._low[bins].tolist(),
            "high": self._high[bins].tolist(),
        }

    def _middles(self, bins: npt.NDArray[np.intp]) -> Floats:
        middle = bins.astype(np.float64) * self.width + (self.width - 1) / 2
        return np.minimum(middle, np.float64(self.n_steps - 1))

    def measure(self, name: str) -> Columns:
        """Return the steps and values of a measure of the step function, or nothing."""
        weight, total = self._measures.get(name, (np.zeros(0), np.zeros(0)))
        bins = np.flatnonzero(weight)
        mean = total[bins] / weight[bins]
        return {"step": self._middles(bins).tolist(), "value": mean.tolist()}

    def measures(self) -> dict[str, Columns]:
        """Return each measure by its name, as `measure` does."""
        return {name: self.measure(name) for name in self._measures}

    def regions(self) -> Columns:
        """Return left, right and topology: the steps under each topology."""
        return figure_data.regions_of(self.epochs, self.n_steps - 1)

    def links(self, most: int = 12) -> dict[str, Columns]:
        """Return second and rate of each link, as `figure_data.links` of a whole trace.

        Only what moves in every step counts, not what moves once, at the start or at a
        switch.
        """
        bins = np.flatnonzero(self._start < _FAR)
        bins = bins[bins * self.width >= (self._whole_from or 0)]
        if not self._links or not len(bins):
            return {}
        edges = np.append(self._start[bins], self._end[bins].max())
        # Asynchronous steps may begin out of order.
        edges = np.maximum.accumulate(edges)
        first = _apart(edges, int(edges[-1] - edges[0]) // (4 * self._most))
        # Steps that were done again moved their bytes twice, but have one start, the
        # first: only as one stretch do they have the right rate.
        first = [n for n in first if not (n and self._is_again(int(bins[n])))]
        edges = np.append(edges[first], edges[-1])
        length = np.maximum(np.diff(edges), 1)
        second = (edges - self.origin) / 1e9
        pairs = sorted(self._links)
        table = np.array([self._links[pair] for pair in pairs])
        sums = np.add.reduceat(table[:, bins], first, axis=1)
        rates = sums / length * (1e9 / figure_data.MB)
        amount = table.sum(axis=1)
        return figure_data.busiest(self._names, pairs, amount, second, rates, most)

    def _is_again(self, bin_number: int) -> bool:
        step = bin_number * self.width
        return any(first < step < end for first, end in self._again.values())

    def switches(self, changes: Sequence[Change] = ()) -> Columns:
        """Return step, second and label of each switch; seconds since the start.

        `changes` are those of an elastic training.
        """
        trace = Trace(self._names.tasks, self.epochs)
        return figure_data.switches(trace, self.origin, changes)

    def changes(self, changes: Sequence[Change]) -> Columns:
        """Return step, label, left, right of each change; see `figure_data`."""
        return figure_data.changes_of(self.epochs, changes)


def _apart(edges: Ints, least: int) -> list[int]:
    """Return where stretches begin so that none is shorter than `least`.

    Only a single stretch may be. Asynchronous steps may begin at almost the same time:
    all bytes of a step in almost no time would be a rate without bounds.

    >>> _apart(np.array([0, 5, 6, 7, 20, 21]), 4)
    [0, 1]
    """
    kept = [0]
    for index, edge in enumerate(edges[:-1].tolist()):
        if edge - edges[kept[-1]] >= least and index:
            kept.append(index)
    while len(kept) > 1 and edges[-1] - edges[kept[-1]] < least:
        kept.pop()
    return kept


def _groups(keys: Ints) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return an order in which equal keys are together, and where each key begins.

    >>> order, first = _groups(np.array([7, 5, 7]))
    >>> order.tolist(), first.tolist()
    ([1, 0, 2], [0, 1])
    """
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]][: len(keys)])
    return order, first


def _reach(column: Any, bins: Ints, values: Any, how: np.ufunc) -> None:
    """Apply the values at each place to a column, by `np.minimum` or `np.maximum`.

    In groups, because `how.at` on a column of rows takes about five times as long.
    """
    order, first = _groups(bins)
    if len(first):
        where = bins[order[first]]
        column[where] = how(column[where], how.reduceat(values[order], first))


def _join(column: Any, how: np.ufunc, empty: float) -> Any:
    """Return half as many bins, each made of two, and empty ones after them."""
    joined = np.full_like(column, empty)
    joined[: len(column) // 2] = how(column[::2], column[1::2])
    return joined
