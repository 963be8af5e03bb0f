"""What each task of a training did last and waits for, and where the waiting begins.

Pure: the observer of a training gives what its members have reported, and the time. A
task that waits names those it waits for; one that is waited for and waits for nobody is
the first cause.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from kit.errors import DeadlineExceededError, KitError
from kit.markup import Html, in_cell, markup, rows_table
from kit.trace.log import Rows
from kit.trace.named_rows import listed
from kit.trace.trace import Trace
from kit.trace.traffic import Phase, Transfer, TransferKind

#: Seconds that a task must have waited before another is called the cause.
LEAST_S = 0.5
_SILENT_S = 2.0  # a task that answers is heard ten times a second
_NEWEST = 2  # messages and spans that are shown of a task
_LOOKED_AT = 20_000  # rows


@dataclass(frozen=True)
class Seen:
    """What is known of one member of a training; times are nanoseconds, here."""

    name: str
    state: str  # running, done, failed or lost
    doing: Mapping[str, Any] = field(default_factory=dict)
    heard_at: int = 0
    error: KitError | None = None
    is_worker: bool = True


class FlightRow(NamedTuple):
    """One task: what it does, for whom it waits, and what it did last.

    Attributes
    ----------
    task : str
        Such as "worker:1".
    does : str
        "waiting", "computing", "loading", "meeting", "exchanging", "starting", "over",
        "silent", "failed" or "lost".
    step : int
        The steps it has done.
    waits_for : tuple of str
        The tasks for which it waits, or waited when the training failed.
    seconds : float
        For how long it has done so; NaN where that is not known.
    where : str
        The line of the user's function that it is at, if it has been there for long.
    messages, spans : tuple of str
        The newest ones, in words, the last first.
    is_first_cause : bool
        Whether the waiting begins with it.
    """

    task: str
    does: str
    step: int
    waits_for: tuple[str, ...]
    seconds: float
    where: str
    messages: tuple[str, ...]
    spans: tuple[str, ...]
    is_first_cause: bool


@dataclass(frozen=True)
class Flight:
    """A table of all tasks at one moment, and a sentence on the first cause.

    `first_cause` is the task with which the waiting begins, empty if nobody has waited
    for long. A notebook shows it as a table, `print` as text.
    """

    rows: tuple[FlightRow, ...]
    first_cause: str
    said: str

    def __getitem__(self, task: str) -> FlightRow:
        """Return the row of a task, such as "worker:1"."""
        return {row.task: row for row in self.rows}[task]

    def __str__(self) -> str:
        return "\n".join([self.said, *map(_line, self.rows)])

    __repr__ = __str__

    def _repr_html_(self) -> Html:
        heads = (
            *("task", "does", "steps done", "for", "seconds", "at"),
            *("last messages", "last spans"),
        )
        rows = [
            (
                f"{row.task}{' (first cause)' if row.is_first_cause else ''}",
                *(row.does, f"{row.step:,}", ", ".join(row.waits_for)),
                *("" if np.isnan(row.seconds) else f"{row.seconds:.1f}", row.where),
                *("; ".join(row.messages), "; ".join(row.spans)),
            )
            for row in self.rows
        ]
        table = rows_table("Who waits for whom", heads, rows)
        return in_cell(markup("<p>{}</p>{}", self.said, table))


def _line(row: FlightRow) -> str:
    mark = "*" if row.is_first_cause else " "
    parts = [f"{mark} {row.task}: {row.does}"]
    if row.waits_for:
        parts[0] += f" for {listed(row.waits_for)}"
    if not np.isnan(row.seconds):
        parts[0] += f", {row.seconds:.1f} s"
    parts += [f"after {row.step:,} steps"]
    parts += [f"at {row.where}"] * bool(row.where)
    parts += [f"last {text}" for text in (*row.messages[:1], *row.spans[:1])]
    return "; ".join(parts)


def flight(
    seen: Sequence[Seen],
    trace: Trace,
    now: int,
    *,
    missing: Sequence[int] = (),
    error: KitError | None = None,
    is_paused: bool = False,
) -> Flight:
    """Return the table; `missing` are those that others meet at a boundary without.

    `error` is what the training failed with. Costs some milliseconds.
    """
    waits = {
        number: _waits(member, missing, number) for number, member in enumerate(seen)
    }
    cause, said = -1, "No task has waited for long."
    if error is not None:
        cause, said = _failed(seen, waits, error, now)
    elif is_paused:
        said = "The training is paused: run.resume() lets it go on."
    elif (begin := _held_up(seen, waits, now)) >= 0:
        cause, said = _root(seen, waits, begin, now)
    elif (longest := _longest(seen, now)) >= 0:
        said = f"No task has waited for long. {_goes_on(seen[longest], now)}."
    rows = tuple(
        FlightRow(
            member.name,
            _does(member, now),
            int(member.doing.get("step", 0)),
            tuple(seen[peer].name for peer in waits[number]),
            _seconds(member, now),
            str(member.doing.get("where", "")),
            *_last(trace, number, now),
            number == cause,
        )
        for number, member in enumerate(seen)
    )
    return Flight(rows, seen[cause].name if cause >= 0 else "", said)


# --------------------------------------------------------------------------------------
# Who waits for whom.


def _waits(member: Seen, missing: Sequence[int], number: int) -> tuple[int, ...]:
    if member.state == "lost":
        return ()
    what = member.doing.get("what")
    if what == "meeting":
        return tuple(peer for peer in missing if peer != number)
    return tuple(member.doing["members"]) if what == "waiting" else ()


def _does(member: Seen, now: int) -> str:
    if member.state in ("lost", "failed"):
        return member.state
    if member.state == "done":
        return "over"
    if member.heard_at and now - member.heard_at > _SILENT_S * 1e9:
        return "silent"
    return str(member.doing.get("what", "starting"))


def _seconds(member: Seen, now: int) -> float:
    """Return for how long it has done what it does; until it failed, if it has."""
    since = int(member.doing.get("since", 0))
    until = member.heard_at if member.state != "running" else now
    return max(0.0, (until - since) / 1e9) if since else float("nan")


def _held_up(seen: Sequence[Seen], waits: Mapping[int, Sequence[int]], now: int) -> int:
    """Return the member that has waited longest, if that is long; -1 if not.

    A server that takes no part in the steps waits for the workers all the time.
    """
    waits_long = [
        (_seconds(member, now), number)
        for number, member in enumerate(seen)
        if waits[number] and (member.is_worker or member.doing["what"] == "waiting")
    ]
    seconds, number = max(waits_long, default=(0.0, -1))
    return number if seconds >= LEAST_S else -1


def _end_of_chain(
    seen: Sequence[Seen], waits: Mapping[int, Sequence[int]], begin: int, now: int
) -> list[int]:
    """Return who waits for whom, from `begin` on; in a circle the last one twice."""
    chain = [begin]
    while ahead := waits[chain[-1]]:
        # Of several, one that waits for nobody, else the one that has waited longest.
        chosen = min(ahead, key=lambda n: (bool(waits[n]), -(_seconds(seen[n], now))))
        chain.append(chosen)
        if chosen in chain[:-1]:
            break
    return chain


def _root(
    seen: Sequence[Seen], waits: Mapping[int, Sequence[int]], begin: int, now: int
) -> tuple[int, str]:
    chain = _end_of_chain(seen, waits, begin, now)
    cause = chain[-1]
    if cause in chain[:-1]:
        names = listed(sorted({seen[n].name for n in chain[chain.index(cause) :]}))
        return -1, f"{names} wait for each other: a message between them is missing."
    first, waiting = seen[cause], [seen[n].name for n in waits if cause in waits[n]]
    verb = "waits" if len(waiting) == 1 else "wait"
    said = f"{first.name} is the first cause: {_goes_on(first, now, 'it')}"
    return cause, f"{said}. {listed(waiting)} {verb} for it."


def _longest(seen: Sequence[Seen], now: int) -> int:
    """Return whose own part of a step takes longest, if that is long; -1 if none."""
    running_long = [
        (_seconds(member, now), number)
        for number, member in enumerate(seen)
        if member.state == "running" and member.doing.get("where")
    ]
    return max(running_long, default=(0.0, -1))[1]


def _goes_on(member: Seen, now: int, name: str = "") -> str:
    """Say what a task has been doing since when, and at which line."""
    what, seconds, said = _does(member, now), _seconds(member, now), name or member.name
    if member.state == "failed":  # what it did when the training failed
        what = str(member.doing.get("what", what))
    if what == "silent":
        said += f" has not been heard for {(now - member.heard_at) / 1e9:.1f} s"
    else:
        long = "" if np.isnan(seconds) else f" for {seconds:.1f} s"
        said += f" has been {what} in step {member.doing.get('step', 0):,}{long}"
    return said + (f", at {member.doing['where']}" if member.doing.get("where") else "")


def _failed(
    seen: Sequence[Seen], waits: Mapping[int, Sequence[int]], error: KitError, now: int
) -> tuple[int, str]:
    """Return the task that the error names, or whom that one waited for."""
    names = [member.name for member in seen]
    short = str(error.task or "").removeprefix("/job:").replace("/task:", ":")
    if short not in names:
        return -1, f"The training failed: {error.message}"
    cause = names.index(short)
    if isinstance(error, DeadlineExceededError) and seen[cause].state != "lost":
        chain = _end_of_chain(seen, waits, cause, now)
        cause = chain[-1] if len(set(chain)) == len(chain) else cause
    said = f"{names[cause]} is the first cause. {error.message}"
    at = seen[cause].doing.get("where")
    if at and at not in said:
        said += f" {_goes_on(seen[cause], now)}."
    return cause, said


# --------------------------------------------------------------------------------------
# What it did last, in words.


def _last(
    trace: Trace, number: int, now: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    moved, spans = trace.transfers[-_LOOKED_AT:], trace.spans[-_LOOKED_AT:]
    mine = (moved["source"] == number) | (moved["destination"] == number)
    messages = [
        _message(Transfer(*row), trace.names, number, now)
        for row in _newest(moved[mine]).tolist()
    ]
    lines = [
        f"{Phase(phase).name.lower()} of step {step} ({_ago(now, end)})"
        for _, phase, step, _, end in _newest(spans[spans["task"] == number]).tolist()
    ]
    return tuple(messages), tuple(lines)


def _newest(table: Rows) -> Rows:
    return table[np.argsort(table["end"], kind="stable")[::-1][:_NEWEST]]


def _message(move: Transfer, names: Sequence[str], number: int, now: int) -> str:
    way = f"to {names[move.destination]}"
    if move.destination == number:
        way = f"from {names[move.source]}"
    kind = TransferKind(move.kind).name.lower()
    what = f"{kind} of {move.bytes:,} bytes {way} in step {move.step}"
    return f"{what} ({_ago(now, move.end)})"


def _ago(now: int, then: int) -> str:
    return f"{max(0.0, (now - then) / 1e9):.1f} s ago"
