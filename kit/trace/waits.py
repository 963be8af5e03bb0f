"""Who waited for whose messages in a group of tasks, from its trace. Pure."""

from __future__ import annotations

from typing import NamedTuple

from kit.handles import by_old_name
from kit.trace.trace import Trace
from kit.trace.traffic import ANYONE


def milliseconds(ns: float) -> str:
    """Return nanoseconds as milliseconds with three digits, without a power of ten.

    >>> milliseconds(1_500_000), milliseconds(1_769_400_000)
    ('1.5', '1,769')
    """
    ms = ns / 1e6
    return f"{ms:,.0f}" if ms >= 100 else f"{ms:.3g}"


class MessageWait(NamedTuple):
    """What one task waited for in one line: `n` messages of another one.

    `ns` is how long, in all; below 0 for one that never came.
    """

    task: str
    source: str
    line: int  # 0 if it is not known
    n: int
    ns: int

    @property
    def duration(self) -> str:
        """How long, in words.

        >>> MessageWait("worker:0", "worker:1", 4, 2, 1_500_000).duration
        '1.5 ms'
        """
        return f"{milliseconds(self.ns)} ms" if self.ns >= 0 else "in vain"

    @property
    def told(self) -> str:
        """The old name of `duration`."""
        return by_old_name(self, "told", "duration")  # type: ignore[no-any-return]

    @property
    def words(self) -> str:
        """A sentence.

        >>> MessageWait("worker:0", "worker:1", 4, 2, 1_500_000).words
        'worker:0 waited 1.5 ms for 2 messages of worker:1 (line 4).'
        >>> MessageWait("worker:0", "worker:1", 4, 1, -1).words
        'worker:0 waited in vain for a message of worker:1 (line 4).'
        """
        what = "a message" if self.n == 1 else f"{self.n:,} messages"
        line = f" (line {self.line})" if self.line else ""
        return f"{self.task} waited {self.duration} for {what} of {self.source}{line}."


def waits_in(trace: Trace) -> list[MessageWait]:
    """Return who waited for whom: in vain first, then the longest first."""
    counts: dict[tuple[int, int, int, bool], tuple[int, int]] = {}
    for row in trace.receipts:
        if not row["end"]:
            continue  # nobody has asked for it
        is_missing = bool(row["bytes"] < 0)
        key = int(row["destination"]), int(row["source"]), int(row["line"]), is_missing
        until = min(int(row["arrived"]), int(row["end"]))
        waited = -1 if is_missing else max(0, until - int(row["start"]))
        n, total = counts.get(key, (0, 0))
        counts[key] = n + 1, waited if is_missing else total + waited
    names = {**dict(enumerate(trace.names)), ANYONE: "anyone"}
    rows = [
        MessageWait(names[task], names[source], line, n, ns)
        for (task, source, line, _), (n, ns) in counts.items()
    ]
    return sorted(rows, key=lambda wait: (wait.ns >= 0, -wait.ns))
