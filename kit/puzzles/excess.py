"""Which figure is over its target, and where that comes from: task and message.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kit.puzzles.clock import ClockedRun, in_a_row
from kit.puzzles.complaints import message
from kit.puzzles.events import Event, Received
from kit.puzzles.figures import Figures, bytes_of, fullest, over, shown
from kit.puzzles.puzzle import Puzzle

Logs = Sequence[Sequence[Event]]
_MOST_NAMED = 4  # messages of a chain, or arrays of a task


def excess(puzzle: Puzzle, logs: Logs, found: Figures, line: ClockedRun) -> str:
    """Return what costs more than the target, in a sentence, or ""."""
    for name in over(found, puzzle.target):
        value = shown(name, getattr(found, name))
        most = shown(name, getattr(puzzle.target, name))
        return _SENTENCES[name](puzzle.tasks, logs, line, value, most)
    return ""


def _bytes(
    names: Sequence[str], logs: Logs, _: ClockedRun, value: str, most: str
) -> str:
    counts = bytes_of(logs)
    task = max(range(len(names)), key=lambda k: max(counts[k]))
    is_sender = counts[task][0] >= counts[task][1]
    its = [
        (event, to)
        for to, log in enumerate(logs)
        for event in log
        if isinstance(event, Received) and task == (event.source if is_sender else to)
    ]
    event, to = max(its, key=lambda pair: pair[0].n_bytes)
    does = "sends" if is_sender else "receives"
    other = f"to {names[to]}" if is_sender else f"from {names[event.source]}"
    return (
        f"{names[task]} {does} {value} bytes, and {most} are enough. The largest is "
        f"{message(event.name, event.number)} {other}, with {event.n_bytes:,}"
    )


def _row(names: Sequence[str], logs: Logs, _: ClockedRun, value: str, most: str) -> str:
    chain = in_a_row(logs)
    told = [
        f"{message(flight.name)} from {names[flight.source]} to {names[flight.to]}"
        for flight in chain[:_MOST_NAMED]
    ]
    more = ", and so on" if len(chain) > len(told) else ""
    return (
        f"{value} messages wait for each other in a row, and {most} are enough: "
        f"{', '.join(told)}{more}"
    )


def _memory(
    names: Sequence[str], logs: Logs, _: ClockedRun, value: str, most: str
) -> str:
    task = max(range(len(names)), key=lambda k: fullest(logs[k]).n_bytes)
    full = fullest(logs[task])
    held = ", ".join(repr(one) for one in full.names[:_MOST_NAMED])
    n_more = len(full.names) - _MOST_NAMED
    held += f" and {n_more} more" if n_more > 0 else ""
    when = ""
    if (last := full.after) is not None:
        when = f" after {message(last.name, last.number)} from {names[last.source]}"
    return (
        f"{names[task]} holds {value} bytes{when}, and {most} are enough: {held}. A "
        f"view holds its whole array, and so does a variable that still refers to it"
    )


def _idle(
    names: Sequence[str], _: Logs, line: ClockedRun, value: str, most: str
) -> str:
    longest = max(line.waits, key=lambda wait: wait.end - wait.begin, default=None)
    where = ""
    if longest is not None:
        where = (
            f": {names[longest.task]} waits from {longest.begin:.3g} to "
            f"{longest.end:.3g} ms for {message(longest.name)} from "
            f"{names[longest.source]}"
        )
    return f"the tasks are idle for {value} of the time, and {most} will do{where}"


_SENTENCES: dict[str, Callable[[Sequence[str], Logs, ClockedRun, str, str], str]] = {
    "n_bytes": _bytes,
    "n_in_a_row": _row,
    "memory": _memory,
    "idle": _idle,
}
