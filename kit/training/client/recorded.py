"""What all members have reported of a training, in memory of a bounded size.

News is folded in as it comes, so reading costs the same however long the training is:
the tables are views, and the loss of the newest step is at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import NamedTuple

import numpy as np

from kit.trace.log import Rows, rows
from kit.trace.named_rows import Kept
from kit.trace.traffic import MEASURE, STEP
from kit.trace.window import MeasureTable, Thinned, Thinning, Window
from kit.training.core.news import LOGS

#: How much of each table somebody has seen.
Cursors = tuple[int, ...]


class News(NamedTuple):
    """New rows of one member, table by table, and how many before them were lost."""

    tables: Sequence[Rows]
    unread: Sequence[int]


class Tables(NamedTuple):
    """Transfers, spans, steps and measures, what they lack, and where they end."""

    tables: tuple[Rows, ...]
    kept: Kept
    cursors: Cursors


class Recorded:
    """The rows of all members. Every method may be called from any thread."""

    def __init__(self, limit: int) -> None:
        self._thinning = Thinning()
        self._transfers, self._spans = (Window(dtype, limit) for dtype in LOGS[:2])
        self._tables: tuple[Window, ...] = (
            self._transfers,
            self._spans,
            Thinned(STEP, limit, self._thinning),
            MeasureTable(MEASURE, limit, self._thinning),
        )
        self._unread = 0
        self._latest = rows(STEP)  # the workers' rows of the newest step
        self._lock = Lock()

    def add(self, news: News) -> None:
        """Take what one member has reported; the cost is that of the new rows."""
        with self._lock:
            for table, new, unread in zip(self._tables, *news, strict=True):
                if unread and len(new):
                    table.lack(int(new["step"][0]))
                self._unread += unread
                table.add(new)
            self._look_at(news.tables[LOGS.index(STEP)])

    def since(self, cursors: Cursors = ()) -> Tables:
        """Return what came after `cursors`, by default all that is kept: views."""
        with self._lock:
            begun = cursors or (0,) * len(self._tables)
            parts = [
                table.since(at) for table, at in zip(self._tables, begun, strict=True)
            ]
            news, ends = zip(*parts, strict=True)
            return Tables(news, self._kept(), ends)

    @property
    def kept(self) -> Kept:
        """What is left of all that was reported."""
        with self._lock:
            return self._kept()

    @property
    def loss(self) -> float:
        """The mean loss over the examples of the newest step; NaN before the first."""
        latest = self._latest
        if not len(latest):
            return float("nan")
        latest = latest[np.argsort(latest["task"], kind="stable")]
        weight = latest["examples"].astype(np.float64)
        # In the order and by the means of `Trace.losses`: both are equal to the bit.
        total, count = (
            float(np.bincount(np.zeros(len(latest), np.intp), column)[0])
            for column in (latest["loss"] * weight, weight)
        )
        return total / count

    def _look_at(self, steps: Rows) -> None:
        steps = steps[steps["examples"] > 0]
        if not len(steps):
            return
        # Members report at different times: keep the rows of the newest step so far.
        newest = int(steps["step"].max())
        newest_before = int(self._latest["step"][0]) if len(self._latest) else -1
        if newest < newest_before:
            return
        before = [self._latest] if newest == newest_before else []
        self._latest = np.concatenate([*before, steps[steps["step"] == newest]])

    def _kept(self) -> Kept:
        details = max(self._transfers.whole, self._spans.whole)
        thinning = self._thinning
        whole = thinning.whole if thinning.stride > 1 else 0
        return Kept(thinning.stride, whole, details, self._unread)
