"""What a run costs: bytes, messages in a row, memory, idle time.

Pure. All four are read from what the tasks have reported; see `kit.puzzles.clock` for
the clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

from kit.puzzles.clock import ClockedRun, in_a_row
from kit.puzzles.events import Event, MemoryFreed, MemoryKept, Received


@dataclass(frozen=True)
class Figures:
    """The costs of a run, or the limits of them; None if unknown or not limited.

    Attributes
    ----------
    n_bytes : int
        Bytes through the busiest task: what it sends or receives, whichever is more.
    n_in_a_row : int
        Messages that have to follow each other: each waits for the one before.
    memory : int
        The most bytes that one task has held at once.
    idle : float
        Share of the time in which tasks do nothing, from 0 to 1. In a puzzle without
        work that is the time in which they neither send nor receive.
    """

    n_bytes: int | None = None
    n_in_a_row: int | None = None
    memory: int | None = None
    idle: float | None = None


#: What a figure is called in a sentence.
NAMES = {
    "n_bytes": "bytes through the busiest task",
    "n_in_a_row": "messages in a row",
    "memory": "bytes held at once",
    "idle": "idle time",
}


def shown(name: str, value: float | None, unknown: str = "any") -> str:
    """Return a figure as text.

    >>> shown("n_bytes", 1200000), shown("idle", 0.4286), shown("memory", None)
    ('1,200,000', '43 %', 'any')
    """
    if value is None:
        return unknown
    return f"{value:.0%}".replace("%", " %") if name == "idle" else f"{value:,.0f}"


def measured(logs: Sequence[Sequence[Event]], line: ClockedRun) -> Figures:
    """Return what a run has cost."""
    return Figures(
        max((max(n_bytes) for n_bytes in bytes_of(logs)), default=0),
        len(in_a_row(logs)),
        max((fullest(log).n_bytes for log in logs), default=0),
        idle(line),
    )


def over(figures: Figures, target: Figures) -> list[str]:
    """Return the names of the figures that are above their limits."""
    pairs = [
        (f.name, getattr(figures, f.name), getattr(target, f.name))
        for f in fields(figures)
    ]
    return [
        name
        for name, value, most in pairs
        if None not in (value, most) and value > most + 1e-9  # shares are rounded
    ]


def bytes_of(logs: Sequence[Sequence[Event]]) -> list[tuple[int, int]]:
    """Return the bytes that each task has sent and received, counted at arrival."""
    sent, received = [0] * len(logs), [0] * len(logs)
    for task, log in enumerate(logs):
        for event in log:
            if isinstance(event, Received):
                sent[event.source] += event.n_bytes
                received[task] += event.n_bytes
    return list(zip(sent, received, strict=True))


class Fullest(NamedTuple):
    """When a task held most: how much, which arrays, and after which message."""

    n_bytes: int
    names: tuple[str, ...]
    after: Received | None


def fullest(log: Sequence[Event]) -> Fullest:
    """Return when a task held most, the first time.

    >>> both = [MemoryKept(0, "x", 8), MemoryKept(1, "y", 8)]
    >>> fullest([*both, MemoryFreed(0), MemoryKept(2, "z", 4)]).names
    ('x', 'y')
    """
    held: dict[int, MemoryKept] = {}
    most, last = Fullest(0, (), None), None
    for event in log:
        if isinstance(event, Received):
            last = event
        elif isinstance(event, MemoryKept):
            held[event.key] = event
            total = sum(kept.n_bytes for kept in held.values())
            if total > most.n_bytes:
                most = Fullest(total, tuple(kept.name for kept in held.values()), last)
        elif isinstance(event, MemoryFreed):
            held.pop(event.key, None)
    return most


def idle(line: ClockedRun) -> float | None:
    """Return the share of the time in which tasks have nothing to do.

    None if no time has passed, as when all wait for ever from the start.
    """
    if not line.end:
        return None
    if line.work:
        busy = sum(span.end - span.begin for span in line.work)
    else:
        spans: list[list[tuple[float, float]]] = [[] for _ in range(line.n)]
        for flight in line.flights.values():
            # The receiver may take it in later than the sender sends it. What a task
            # sends and receives at the same time keeps it busy once, not twice.
            spans[flight.source].append((flight.begin, flight.begin + flight.ms))
            spans[flight.to].append((flight.end - flight.ms, flight.end))
        busy = sum(map(_covered, spans))
    return 1 - busy / (line.n * line.end)


def _covered(spans: list[tuple[float, float]]) -> float:
    """Return the length of what some spans cover together."""
    total, until = 0.0, 0.0
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total
