"""A trace as Chrome trace events, which ui.perfetto.dev and chrome://tracing draw.

Each task is a process, with slices for what it did, received and sent, an arrow from
each sent slice to the received one, and counters of the bytes per second on its
outgoing links. Switches and checkpoints, failed ones too, are instants across all
tasks.

Pure: yields plain dictionaries; `kit.trace.file` writes them.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from kit.trace.log import Rows
from kit.trace.traffic import Phase, Transfer, TransferKind

if TYPE_CHECKING:
    from kit.trace.trace import Trace

Event = dict[str, Any]
_COUNTER_BINS = 1000


def lanes(intervals: Sequence[tuple[int, int]]) -> list[int]:
    """Return a lane for each (start, end) so that no two overlap in one lane.

    The viewers drop slices that overlap on one track without nesting. The lowest free
    lane is taken; intervals may come in any order. Cost: n log n.

    >>> lanes([(0, 10), (5, 15), (10, 20)])
    [0, 1, 0]
    """
    # `busy` has the lanes in use, by the end of what is in them; `free` the lowest lane
    # that has become free first.
    chosen = [0] * len(intervals)
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    for index in sorted(range(len(intervals)), key=lambda i: intervals[i]):
        start, end = intervals[index]
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        chosen[index] = lane
        heapq.heappush(busy, (end, lane))
    return chosen


def micros(ns: int) -> float:
    """Return nanoseconds as microseconds that give the nanoseconds back exactly.

    Perfetto multiplies by 1000 and cuts off the fraction. A slice that begins 1 ns
    early because of that would overlap its neighbour on the track, and be dropped.

    >>> micros(2_500), int(micros(1_001) * 1000), int(micros(4_035) * 1000)
    (2.5, 1001, 4035)
    """
    value = ns / 1000
    while int(value * 1000) < ns:
        value = math.nextafter(value, math.inf)
    return value


def events(trace: Trace) -> Iterator[Event]:
    """Yield the events of a trace; times are microseconds from its first event."""
    tracks = _Tracks(trace)
    yield from tracks.processes()
    yield from _phases(trace, tracks)
    yield from _transfers(trace, tracks)
    yield from tracks.threads()
    labels = {switch.after.number: switch.label for switch in trace.switches()}
    for row in sorted(trace.epochs):
        label = labels.get(row.number, f"start with {row.topology}")
        about = {"name": f"epoch {row.number}: {label}", "args": row._asdict()}
        yield tracks.instant(row.at, "epoch") | about
    for save in trace.saves:
        about = {"name": save.label, "args": save._asdict()}
        yield tracks.instant(save.end, "checkpoint") | about
    yield from _counters(trace, tracks)


class _Tracks:
    """The numbers of processes and threads, and the time axis."""

    def __init__(self, trace: Trace) -> None:
        self.names = trace.names
        self.origin = trace.bounds()[0]
        self._title = "{} (predicted)" if trace.predicted else "{}"
        self._threads: dict[tuple[int, int, str, int], int] = {}

    def at(self, moment: int) -> float:
        return micros(moment - self.origin)

    def pid(self, task: int) -> int:
        return task + 1  # 0 is the idle process to the viewers

    def tid(self, task: int, order: int, name: str, lane: int) -> int:
        # Never the number of a process: viewers take such a thread for its main thread.
        following = 1 + len(self.names) + len(self._threads)
        return self._threads.setdefault((task, order, name, lane), following)

    def processes(self) -> Iterator[Event]:
        for task, name in enumerate(self.names):
            yield self._about(task, 0, "process_name", name=self._title.format(name))
            yield self._about(task, 0, "process_sort_index", sort_index=task)

    def threads(self) -> Iterator[Event]:
        for (task, order, name, lane), tid in self._threads.items():
            title = f"{name} ({lane + 1})" if lane else name
            index = order * 1000 + lane
            yield self._about(task, tid, "thread_name", name=title)
            yield self._about(task, tid, "thread_sort_index", sort_index=index)

    def _about(self, task: int, tid: int, what: str, **args: Any) -> Event:
        track = {"pid": self.pid(task), "tid": tid}
        return {"ph": "M", **track, "name": what, "args": args}

    def slices(self, task: int, order: int, name: str, table: Rows) -> Iterator[Event]:
        """Yield one slice for each row, without a name and arguments yet."""
        starts = np.minimum(table["start"], table["end"]).tolist()
        # A slice without a duration is invisible, and no arrow can end in it: 1 ns at
        # least.
        ends = np.maximum(table["end"], np.array(starts, np.int64) + 1).tolist()
        spans = list(zip(starts, ends, strict=True))
        for (start, end), lane in zip(spans, lanes(spans), strict=True):
            yield {
                "ph": "X",
                "pid": self.pid(task),
                "tid": self.tid(task, order, name, lane),
                "ts": self.at(start),
                "dur": micros(end - start),
                "cat": name,
            }

    def instant(self, at: int, about: str) -> Event:
        """Return a mark across all tasks, without a name and arguments yet."""
        track = {"pid": self.pid(0), "tid": 0, "ts": self.at(at)}
        return {"ph": "i", "s": "g", "cat": about} | track


def _phases(trace: Trace, tracks: _Tracks) -> Iterator[Event]:
    for task in range(len(trace.tasks)):
        table = trace.spans[trace.spans["task"] == task]
        rows = zip(table["phase"].tolist(), table["step"].tolist(), strict=True)
        slices = tracks.slices(task, 0, "phases", table)
        for event, (phase, step) in zip(slices, rows, strict=True):
            yield event | {"name": _word(Phase, phase), "args": {"step": step}}


def _transfers(trace: Trace, tracks: _Tracks) -> Iterator[Event]:
    table = trace.transfers
    for task in range(len(trace.tasks)):
        for side, word, name, order in (
            ("destination", "from", "received", 1),
            ("source", "to", "sent", 2),
        ):
            mine = np.flatnonzero(table[side] == task)
            slices = tracks.slices(task, order, name, table[mine])
            moves = (Transfer(*row) for row in table[mine].tolist())
            for event, number, move in zip(slices, mine.tolist(), moves, strict=True):
                yield from _transfer(event, number, move, word, tracks)


def _transfer(
    event: Event, number: int, move: Transfer, word: str, tracks: _Tracks
) -> Iterator[Event]:
    """Yield one end of a transfer: its slice, and the arrow's tail or head in it."""
    kind = _word(TransferKind, move.kind)
    peer = tracks.names[move.source if word == "from" else move.destination]
    args = {"kind": kind, "bytes": move.bytes, "step": move.step, "epoch": move.epoch}
    yield event | {"name": f"{kind} {word} {peer}", "args": args}
    arrow = {key: event[key] for key in ("pid", "tid", "ts")}
    arrow |= {"cat": "transfer", "name": kind, "id": number}
    if word == "to":
        yield arrow | {"ph": "s"}
    else:  # just inside the slice: that is how viewers find it ("bp": "e")
        inside = max(min(move.start, move.end), move.end - 1)
        yield arrow | {"ph": "f", "bp": "e", "ts": tracks.at(inside)}


def _counters(trace: Trace, tracks: _Tracks) -> Iterator[Event]:
    if not len(trace.transfers):
        return
    first, last = trace.bounds()
    width = max(1_000_000, (last - first) // _COUNTER_BINS + 1)
    links, bins, amount = trace.bytes_per_link(width)
    times = [tracks.at(at) for at in bins.edges().tolist()]
    for (source, destination), row in zip(links, amount, strict=True):
        rates = [*np.rint(row * 1e9 / width).astype(np.int64).tolist(), 0]
        name = f"to {tracks.names[destination]} (bytes/s)"
        before = None
        for at, rate in zip(times, rates, strict=True):
            if rate != before:
                track = {"pid": tracks.pid(source), "tid": 0, "ts": at}
                yield {"ph": "C", **track, "name": name, "args": {"bytes/s": rate}}
            before = rate


def _word(names: type[IntEnum], value: int) -> str:
    """Return the name of a kind or phase, also of one that this version lacks."""
    try:
        return names(value).name.lower()
    except ValueError:
        return f"{names.__name__.lower()} {value}"
