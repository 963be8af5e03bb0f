"""A group of tasks at one moment, in the form in which boards show a training.

Pure: it reads no clock. A call has the place of a step: who waited, what moved and how
long it took are means over the newest whole calls, as those of a training are over its
newest whole steps. Messages that tasks send each other belong to no call, so what the
picture shows at its arrows are the bytes of everything so far, which are exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from kit.groups.replay import ReplayedCall
from kit.groups.traffic import GroupTraffic
from kit.trace.log import Rows
from kit.trace.named_rows import CallRow, Change
from kit.trace.trace import Trace
from kit.trace.traffic import Phase, TransferKind
from widgets.board import run_state
from widgets.board.follower import Beat
from widgets.board.history import TrainingHistory
from widgets.board.run_state import (
    WINDOW_NS,
    GroupFacts,
    Link,
    Measured,
    Moment,
    Numbers,
)
from widgets.drawing import figure_data
from widgets.drawing.figure_data import Columns, TimeWindow

_SHOWN = 3  # calls in the timeline, if all are too many
_MOST_EVENTS = 400  # in the timeline: of more, the newest calls are shown
_IDLE_NS = (
    2_000_000_000  # a pause that the timeline does not show, as between two cells
)
_NOTHING = run_state.Numbers()


class GroupHistory(TrainingHistory):
    """The bytes of each link of a group over time; there is no loss."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace.tasks)
        self._trace = trace
        self.origin = trace.bounds()[0]
        self.epochs = trace.epochs
        self.n_steps = _n_calls(trace)

    def loss(self) -> Columns:
        """Return the columns of a loss, without any row."""
        return {"step": [], "loss": [], "low": [], "high": []}

    def switches(self, changes: Sequence[Change] = ()) -> Columns:
        """Return the columns of switches, without any row."""
        return figure_data.switches(self._trace)

    def links(self, most: int = 12) -> dict[str, Columns]:
        """Return second and rate of each link."""
        return figure_data.links(self._trace, most)


def beat(
    trace: Trace,
    *,
    is_last: bool,
    traffic: GroupTraffic | None = None,
    doing: Mapping[str, str] | None = None,
    lost: Mapping[str, str] | None = None,
    calls: tuple[ReplayedCall, ...] = (),
) -> Beat:
    """Return what boards show of the trace of a group.

    `traffic` has the bytes by formula, and `doing` the calls in which tasks are now.
    """
    n_rows = int(trace.totals["messages"].sum()) + len(trace.receipts) + _n_calls(trace)
    now = replace(
        moment(trace, traffic),
        state="done" if is_last else "running",
        lost=lost or {},
    )
    if now.group is not None:
        now = replace(now, group=replace(now.group, doing=doing or {}))
    return Beat(now, GroupHistory(trace), trace, is_last, n_rows, calls)


def moment(trace: Trace, traffic: GroupTraffic | None = None) -> Moment:
    """Return the moment at which a trace ends."""
    rates = _rates(trace.transfers)
    link = trace.epochs[0].link if trace.epochs else ""
    peak = Moment(trace.tasks, rates=rates).peak()
    scale, limit = run_state.capacity(link, peak)
    calls = trace.calls or ()
    newest = _newest(trace)
    per_link = _totals(trace.totals)
    facts = GroupFacts(
        n_calls=_n_calls(trace),
        n_messages=_n_messages(trace),
        measured=int(trace.totals["bytes"].sum()),
        formula=traffic.formula if traffic is not None else None,
        call=calls[-1] if calls else None,
        formulas=_formulas(trace.names, traffic),
    )
    return Moment(
        trace.tasks,
        step=facts.n_calls,
        steps=facts.n_calls,
        topology=calls[-1].topology if calls else "",
        link=link,
        rates=dict.fromkeys(per_link, 0.0) | rates,
        per_step=per_link,
        scale=scale,
        limit=limit,
        numbers=newest.numbers,
        kept=str(trace.kept),
        insecure=trace.insecure,
        group=facts,
    )


def of_calls(trace: Trace, chosen: npt.NDArray[np.int64]) -> Moment:
    """Return the moment after some calls, with means over them."""
    means = means_of(trace, chosen)
    last, row = int(chosen[-1]), call_of(trace, int(chosen[-1]))
    moved = trace.transfers[trace.transfers["step"] <= last]
    which = f"in call {last:,}"
    if len(chosen) > 1:
        which = f"in calls {int(chosen[0]):,} to {last:,}"
    facts = GroupFacts(
        n_calls=last,
        n_messages=int((moved["kind"] == TransferKind.MESSAGE).sum()),
        measured=int(moved["bytes"].sum()),
        call=row,
        is_of_calls=True,
    )
    return Moment(
        trace.tasks,
        state="done",
        step=last,
        steps=_n_calls(trace),
        topology=row.topology if row else "",
        link=trace.epochs[0].link if trace.epochs else "",
        rates={**dict.fromkeys(_totals(trace.totals), 0.0), **means.rates},
        per_step=means.per_step,
        numbers=means.numbers,
        stretch=which,
        group=facts,
    )


def call_of(trace: Trace, number: int) -> CallRow | None:
    """Return the row of a call; None if it is not kept."""
    rows = trace.calls or ()
    return next((row for row in rows if row.first <= number <= row.last), None)


def whole_calls(trace: Trace) -> npt.NDArray[np.int64]:
    """Return the numbers of the calls that all tasks have completed."""
    numbers, counts = np.unique(trace.steps["step"], return_counts=True)
    numbers_whole: npt.NDArray[np.int64] = numbers[counts == len(trace.tasks)]
    return numbers_whole


def formula_of(calls: tuple[CallRow, ...], chosen: npt.NDArray[np.int64]) -> int | None:
    """Return the mean of the bytes by formula of some calls; None if one is unknown.

    >>> rows = CallRow(1, 2, "a", "", "", 10), CallRow(3, 3, "b", "", "", 40)
    >>> formula_of(rows, np.array([1, 2, 3])), formula_of(rows, np.array([4]))
    (20, None)
    """
    n_known, total = 0, 0
    for row in calls:
        n = int(((chosen >= row.first) & (chosen <= row.last)).sum())
        n_known, total = n_known + n, total + n * row.formula
    if not len(chosen) or n_known < len(chosen):
        return None
    return total // n_known


def means_of(trace: Trace, chosen: npt.NDArray[np.int64]) -> Measured:
    """Return the means over some calls that all tasks have completed."""
    used = trace.steps[np.isin(trace.steps["step"], chosen)]
    table = trace.transfers
    moved = table[np.isin(table["step"], chosen)]
    moved = moved[moved["kind"] != TransferKind.MESSAGE]
    code = moved["source"].astype(np.int64) << 16 | moved["destination"]
    formula = formula_of(trace.calls or (), chosen)
    return run_state.means(used, code, moved["bytes"], formula)


def _newest(trace: Trace) -> Measured:
    """Return the means over the calls that ended in the last second of calls."""
    whole = whole_calls(trace)
    steps = trace.steps[np.isin(trace.steps["step"], whole)]
    if not len(steps):
        return Measured(_of_messages(trace), {}, {}, None, None)
    last = int(steps["end"].max())
    chosen = np.unique(steps["step"][steps["end"] > last - WINDOW_NS])
    return means_of(trace, chosen)


def _of_messages(trace: Trace) -> Numbers:
    """Return the numbers where there were messages alone: the share spent waiting.

    It is that of the last second of waits, beginning with the first of them.
    """
    waits = trace.spans[trace.spans["phase"] == Phase.WAIT]
    if not len(waits):
        return _NOTHING
    end = int(waits["end"].max())
    begin = max(end - WINDOW_NS, int(waits["start"].min()))
    waited = np.maximum(0, waits["end"] - np.maximum(waits["start"], begin)).sum()
    share = int(waited) / max(1, len(trace.tasks) * (end - begin))
    return replace(_NOTHING, waiting=share)


def _n_calls(trace: Trace) -> int:
    return max((row.last for row in trace.calls or ()), default=0)


def _n_messages(trace: Trace) -> int:
    mine = trace.totals["kind"] == TransferKind.MESSAGE
    return int(trace.totals["messages"][mine].sum())


def _totals(totals: Rows) -> dict[Link, float]:
    totals_of: dict[Link, float] = {}
    for row in totals:
        link = int(row["source"]), int(row["destination"])
        totals_of[link] = totals_of.get(link, 0.0) + int(row["bytes"])
    return totals_of


def _rates(table: Rows) -> dict[Link, float]:
    """Return the bytes a second of each link in the last second of transfers."""
    if not len(table):
        return {}
    last = int(table["end"].max())
    newest = table[table["end"] > last - WINDOW_NS]
    elapsed = max(1, last - int(newest["start"].min()))
    rates: dict[Link, float] = {}
    for source, target in np.unique(newest[["source", "destination"]]).tolist():
        mine = (newest["source"] == source) & (newest["destination"] == target)
        rates[source, target] = int(newest["bytes"][mine].sum()) * 1e9 / elapsed
    return rates


def _formulas(names: tuple[str, ...], traffic: GroupTraffic | None) -> dict[Link, int]:
    """Return the bytes of each link by formula."""
    formulas: dict[Link, int] = {}
    for link_row in traffic.links if traffic is not None else ():
        link = names.index(link_row.source), names.index(link_row.destination)
        formulas[link] = formulas.get(link, 0) + link_row.formula
    return formulas


def window(trace: Trace) -> TimeWindow:
    """Return the newest calls and messages as a window of the timeline.

    It begins after the last long pause, as that between two cells.
    """
    tables = [t for t in (trace.steps, trace.spans, trace.transfers) if len(t)]
    if not tables:
        return TimeWindow(0, 0, 0, 1, 0, "")
    start = np.concatenate([table["start"] for table in tables])
    end = np.concatenate([table["end"] for table in tables])
    order = np.argsort(start)
    reached = np.maximum.accumulate(end[order])
    pauses = np.flatnonzero(start[order][1:] - reached[:-1] > _IDLE_NS)
    begin = int(start[order][pauses[-1] + 1 if len(pauses) else 0])
    whole = whole_calls(trace)
    if int((start >= begin).sum()) > _MOST_EVENTS and len(whole):
        first = trace.steps["step"] == whole[-min(_SHOWN, len(whole))]
        begin = max(begin, int(trace.steps["start"][first].min()))
    inside = trace.steps["step"][trace.steps["start"] >= begin]
    low, high = (int(inside.min()), int(inside.max())) if len(inside) else (0, 0)
    return TimeWindow(low, high, begin, int(end.max()), begin, "")
