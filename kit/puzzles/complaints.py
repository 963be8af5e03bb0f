"""What is wrong with a try, in a sentence that names the task and the message.

Pure. The first cause is named: an error rather than the tasks that wait for its task.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kit import errors
from kit.errors import AbortedError, DeadlineExceededError, KitError, UnknownError
from kit.puzzles.events import Attempt, Event, Failed, Received, Sent, WaitBegan, Worked
from kit.puzzles.puzzle import Arrays, Given, Puzzle
from kit.puzzles.task import Array

Logs = Sequence[Sequence[Event]]
_MOST_SOLVED = 1_000  # elements; enough to find some coefficients


def broken(puzzle: Puzzle, attempt: Attempt, function: str) -> KitError | None:
    """Return why a program did not come to its end; None if it did."""
    for rank, log in enumerate(attempt.logs):
        if log and isinstance(log[-1], Failed):
            return _failed(puzzle.tasks[rank], log, log[-1], puzzle, function)
    if attempt.stuck:
        return AbortedError(_stuck(puzzle, attempt))
    if attempt.busy:
        rank = attempt.busy[0]
        return DeadlineExceededError(
            f"{puzzle.tasks[rank]} was still running when the time was up, after "
            f"{attempt.seconds:.0f} s{_last(attempt.logs[rank], puzzle)}. Look for a "
            f"loop that never ends."
        )
    return None


def _failed(
    task: str, log: Sequence[Event], failed: Failed, puzzle: Puzzle, function: str
) -> KitError:
    kind = getattr(errors, failed.kind, None)
    where = f" (line {failed.line} of {function})" if failed.line else ""
    if isinstance(kind, type) and issubclass(kind, KitError):
        last = "" if "message" in failed.message else _last(log, puzzle)
        return kind(f"{failed.message.rstrip('.')}{where}{last}.", task=task)
    said = failed.message.rstrip(".")
    return UnknownError(
        f"{task} stopped with {failed.kind}: {said}{where}{_last(log, puzzle)}.",
        task=task,
    )


def _last(log: Sequence[Event], puzzle: Puzzle) -> str:
    """Return which message a task has received or sent last."""
    for event in reversed(log):
        if isinstance(event, Received):
            done, other = "received", f"from {puzzle.tasks[event.source]}"
        elif isinstance(event, Sent):
            done, other = "sent", f"to {puzzle.tasks[event.to]}"
        else:
            continue
        return f"; it last {done} {message(event.name, event.number)} {other}"
    return "; it has neither sent nor received anything"


def message(name: str, number: int | None = None) -> str:
    """Return how to speak of a message."""
    if name:
        return f"message {name!r}"
    return "a message" if number is None else f"message number {number + 1}"


def _stuck(puzzle: Puzzle, attempt: Attempt) -> str:
    """Say who waits for ever: a circle if there is one, else who comes first."""
    ways = sorted(attempt.stuck.values(), key=lambda way: (len(way), way))
    circles = [way for way in ways if way[-1] == way[0]]
    if circles:
        way = circles[0]
        parts = [_wait(puzzle, attempt, task) for task in way[:-1]]
        look = _look(puzzle, attempt, way[0]) or " Somebody must send before it waits."
        return f"a deadlock: {', and '.join(parts)}.{look}"
    way = ways[0]
    wait, look = _wait(puzzle, attempt, way[0]), _look(puzzle, attempt, way[0])
    return f"{wait}, which has ended and never sent it.{look}"


def _wait(puzzle: Puzzle, attempt: Attempt, task: int) -> str:
    wait = attempt.logs[task][-1]
    assert isinstance(wait, WaitBegan)
    return (
        f"{puzzle.tasks[task]} waits for {message(wait.name)} from "
        f"{puzzle.tasks[wait.source]}"
    )


def _look(puzzle: Puzzle, attempt: Attempt, task: int) -> str:
    """Say what has come to a task that waits in vain for something else, if any."""
    wait = attempt.logs[task][-1]
    assert isinstance(wait, WaitBegan)
    sources = [wait.source, *range(puzzle.n)]
    for source in sources:
        for event in _unread(attempt.logs, task, source):
            said = message(event.name, event.number)
            other = puzzle.tasks[source]
            return f" {puzzle.tasks[task]} has not received {said} from {other}."
    return ""


def _unread(logs: Logs, to: int, source: int) -> list[Sent]:
    read = {
        e.number for e in logs[to] if isinstance(e, Received) and e.source == source
    }
    sent = [e for e in logs[source] if isinstance(e, Sent) and e.to == to]
    return [event for event in sent if event.number not in read]


def wrong(puzzle: Puzzle, attempt: Attempt) -> str:
    """Return what is wrong with what was sent and with what is held, or ""."""
    if puzzle.links:
        for source, log in enumerate(attempt.logs):
            for event in log:
                if isinstance(event, Sent) and (source, event.to) not in puzzle.links:
                    allowed = [puzzle.tasks[b] for a, b in puzzle.links if a == source]
                    return (
                        f"{puzzle.tasks[source]} sends "
                        f"{message(event.name, event.number)} to "
                        f"{puzzle.tasks[event.to]}; in this puzzle it has a link to "
                        f"{' and '.join(sorted(allowed))} alone"
                    )
    given, everything = puzzle.example
    for rank, arrays in enumerate(everything):
        for name, wanted in arrays.items():
            said = _wrong_array(attempt.results[rank].get(name), name, wanted)
            if not said:
                continue
            if name in attempt.results[rank]:
                said += _hint(puzzle, given, rank, name, attempt.results[rank], wanted)
            task, log = puzzle.tasks[rank], attempt.logs[rank]
            return f"{task} {said}{_unread_or_last(puzzle, attempt, rank, log)}."
    for to in range(puzzle.n):
        for source in range(puzzle.n):
            for event in _unread(attempt.logs, to, source):
                said = message(event.name, event.number)
                return (
                    f"{puzzle.tasks[to]} never received {said} from "
                    f"{puzzle.tasks[source]}. Do not send what nobody needs."
                )
    return ""


def _unread_or_last(
    puzzle: Puzzle, attempt: Attempt, rank: int, log: Sequence[Event]
) -> str:
    for source in range(puzzle.n):
        for event in _unread(attempt.logs, rank, source):
            return (
                f"; it never received {message(event.name, event.number)} from "
                f"{puzzle.tasks[source]}"
            )
    return _last(log, puzzle)


def _wrong_array(found: Array | None, name: str, wanted: Array) -> str:
    if found is None:
        return f"holds no {name!r} at the end"
    if found.shape != wanted.shape:
        return f"holds {name!r} of shape {found.shape}, and it should be {wanted.shape}"
    if found.dtype.kind not in "biuf":
        return f"holds {name!r} of dtype {found.dtype}, and real numbers are wanted"
    is_near = np.isclose(found, wanted, rtol=1e-4, atol=1e-5)
    if is_near.all():
        return ""
    place = tuple(int(k) for k in np.argwhere(~is_near)[0])
    n_wrong = int((~is_near).sum())
    which = "all" if n_wrong == wanted.size else f"{n_wrong:,} of {wanted.size:,}"
    return (
        f"holds {name!r} that is not what numpy computes: {which} elements are wrong, "
        f"the first is {float(found[place]):.4g} and should be "
        f"{float(wanted[place]):.4g}"
    )


def _hint(
    puzzle: Puzzle, given: Given, rank: int, name: str, held: Arrays, wanted: Array
) -> str:
    """Say what a wrong array is made of, if that can be found out."""
    found = held[name]
    if found.shape != wanted.shape or found.dtype.kind not in "biuf":
        return ""
    if puzzle.addends is not None:
        return _sum_hint(found, wanted, puzzle.addends(given, rank, name))
    before = given[rank].get(name)
    return _order_hint(found, wanted, puzzle.n) or _scale_hint(found, wanted, before)


def _sum_hint(found: Array, wanted: Array, addends: Arrays) -> str:
    """Say which addends are missing or in it twice: the coefficients are solved for."""
    is_bad = ~np.isclose(found, wanted, rtol=1e-4, atol=1e-5)
    columns = np.stack([one[is_bad] for one in addends.values()], axis=1)[:_MOST_SOLVED]
    there, ought = found[is_bad][:_MOST_SOLVED], wanted[is_bad][:_MOST_SOLVED]
    if len(columns) <= len(addends):
        return ""
    right = np.linalg.lstsq(columns, ought, rcond=None)[0]
    if not right.all():
        return ""
    parts = np.linalg.lstsq(columns, there, rcond=None)[0]
    if not np.allclose(columns @ parts, there, rtol=1e-3, atol=1e-3):
        return ""
    ratios = parts / right
    if np.allclose(ratios, ratios[0], atol=0.01):
        return f"; it is {ratios[0]:.3g} times what it should be"
    said = [
        f"that of {task} is {'missing' if abs(k) < 0.01 else f'counted {k:.3g} times'}"
        for task, k in zip(addends, ratios, strict=True)
        if abs(k - 1) > 0.01
    ]
    return f"; {' and '.join(said)}"


def _scale_hint(found: Array, wanted: Array, before: Array | None) -> str:
    """Say by which factor an array, or its change, is too large."""
    start = 0 if before is None else before
    change, ought = (found - start).ravel(), (wanted - start).ravel()
    if not ought.any():
        return "; it should be as it was at the beginning"
    factor = float(change @ ought) / float(ought @ ought)
    if not np.allclose(change, factor * ought, rtol=1e-2, atol=1e-4):
        return ""
    if before is None:
        return f"; it is {factor:.3g} times what it should be"
    if abs(factor) < 0.01:
        return "; it is as it was at the beginning"
    return f"; it has changed by {factor:.3g} times as much as it should"


def _order_hint(found: Array, wanted: Array, n: int) -> str:
    """Say which part is in the place of another one."""
    if wanted.ndim != 1 or wanted.size % n:
        return ""
    pairs = list(zip(np.split(found, n), np.split(wanted, n), strict=True))
    for place, (part, _) in enumerate(pairs):
        for other, (_, right) in enumerate(pairs):
            if other != place and np.allclose(part, right):
                return f"; in the place of part {place} is part {other}"
    return ""


def is_untouched(logs: Logs) -> bool:
    """Whether no task has done anything: the function is still the stub."""
    done = Sent | Received | Worked | WaitBegan | Failed
    return not any(isinstance(event, done) for log in logs for event in log)
