r"""What the end of some steps waited for, back to their start: the critical path.

Pure. It goes backwards from the end of the last step. While a task was busy, that is
where the time went. While it waited for a message, the time went to the message as long
as that was on its way, and before that to whatever its sender did. To shorten anything
that is not on this path makes no step shorter. The method is that of Yang and Miller,
"Critical path analysis for the execution of parallel and distributed programs", ICDCS
1988; here the path covers many steps at once, since one worker may begin a step while
another still ends the one before.

    worker:0   compute        wait                 | compute ...
    worker:1   compute  compute  compute  send     |
                                           \ link  |
    ps:0       wait                         wait add apply send
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kit.trace.log import Rows
from kit.trace.traffic import Phase

#: Time of a task without a span, such as that of hooks.
UNKNOWN = 0
# How many spans are tried for one that covers a moment. Spans of one thread do not
# overlap, so the last one that began before it would do; but computing and exchanging
# may be two threads, and a long span may have begun before several short ones.
_BACK = 32


class Hop(NamedTuple):
    """A message on the path, and the nanoseconds for which it was on its way."""

    source: int
    destination: int
    bytes: int
    ns: int


@dataclass
class CriticalPath:
    """Where the time went: `spent[task, phase]` in nanoseconds, and `hops`.

    Phase `UNKNOWN` is time without a span; `Phase.WAIT` is the time that a task took to
    notice that a message had come.
    """

    spent: Counter[tuple[int, int]] = field(default_factory=Counter)
    hops: list[Hop] = field(default_factory=list)

    def of(self, *phases: int) -> Counter[int]:
        """Return the nanoseconds of each task in these phases."""
        ns_of: Counter[int] = Counter()
        for (task, phase), ns in self.spent.items():
            if phase in phases:
                ns_of[task] += ns
        return ns_of


class _Spans(NamedTuple):
    start: list[int]
    end: list[int]
    phase: list[int]


class _Arrivals(NamedTuple):
    end: list[int]
    start: list[int]
    source: list[int]
    bytes: list[int]


class Walker:
    """Finds the critical path through the rows of some steps."""

    def __init__(
        self, n_tasks: int, spans: Rows, transfers: Rows, *, least_ns: int, shaped: bool
    ) -> None:
        """Sort the rows, at a cost linear in their number.

        A wait shorter than `least_ns` does not count as one. If links are `shaped`, a
        message may be on its way while its receiver still computes; else it is there at
        once, and if a wait begins after that, the receiver itself is late.
        """
        self._least, self._shaped = least_ns, shaped
        self._spans = [
            _Spans(*_columns(spans, "task", task, "start", ("start", "end", "phase")))
            for task in range(n_tasks)
        ]
        names = ("end", "start", "source", "bytes")
        self._arrivals = [
            _Arrivals(*_columns(transfers, "destination", task, "end", names))
            for task in range(n_tasks)
        ]

    def walk(self, path: CriticalPath, task: int, at: int, begin: int) -> None:
        """Add to a path what led to the moment `at` of a task, back to `begin`."""
        # The hop by which the path has just come to this task, that is, to its sender.
        came_from: Hop | None = None
        # Each turn explains the time from some earlier moment up to `at`, and goes on
        # from there, on the same task or on a message's sender. So the parts add up to
        # the whole stretch, and nothing is counted twice.
        while at > begin:
            spans = self._spans[task]
            index = self._covering(spans, at)
            if index < 0:
                # Nothing recorded covers this moment: unknown, back to the last known
                # end.
                before = bisect_left(spans.start, at) - 1
                ends = spans.end[max(0, before - _BACK) : before + 1]
                since = max([begin, *ends])
                path.spent[task, UNKNOWN] += at - since
                came_from, at = None, since
                continue
            since = max(spans.start[index], begin)
            if spans.phase[index] != Phase.WAIT:
                path.spent[task, spans.phase[index]] += at - since
                came_from, at = None, since
            elif came_from is not None and spans.end[index] - at > self._least:
                # The sender is found waiting at the moment when it is said to have
                # sent. Nobody sends during a wait, so the message must have left before
                # that wait.
                path.hops[-1] = came_from._replace(ns=came_from.ns + at - since)
                came_from, at = None, since
            else:
                came_from, task, at = self._waited(path, task, at, since, begin)

    def _covering(self, spans: _Spans, at: int) -> int:
        """Return the place of the last span before `at` that reaches it; -1: none."""
        last = bisect_left(spans.start, at) - 1
        for index in range(last, max(-1, last - _BACK), -1):
            if spans.end[index] >= at:
                return index
        return -1

    def _waited(
        self, path: CriticalPath, task: int, at: int, since: int, begin: int
    ) -> tuple[Hop | None, int, int]:
        """Go back over one message of a wait, or over the whole wait if it had none."""
        arrived = self._arrivals[task]
        index = bisect_right(arrived.end, at) - 1
        if index < 0 or arrived.end[index] <= since:
            path.spent[task, Phase.WAIT] += at - since
            return None, task, since
        end = arrived.end[index]
        # Of several that end at the same time, all but the first were there already, so
        # the first is the one that was waited for.
        index = bisect_left(arrived.end, end)
        start = arrived.start[index]
        # Messages are taken one after the other: before that moment, the task waited
        # for the message before this one.
        before = max(since, arrived.end[index - 1] if index else since)
        was_here = start < before and not self._shaped
        if end - before < self._least or was_here or start > end:
            path.spent[task, Phase.WAIT] += at - before
            return None, task, before
        path.spent[task, Phase.WAIT] += at - end
        source, start = arrived.source[index], max(start, begin)
        hop = Hop(source, task, arrived.bytes[index], end - start)
        path.hops.append(hop)
        # At least 1 ns further back: else messages that took no time could send the
        # path back and forth between two tasks for ever.
        return hop, source, min(start, at - 1)


def _columns(
    table: Rows, side: str, task: int, key: str, names: Sequence[str]
) -> list[list[int]]:
    mine = table[table[side] == task]
    mine = mine[np.argsort(mine[key], kind="stable")]
    return [mine[name].tolist() for name in names]
