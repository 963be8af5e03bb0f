"""Run a learner's program on real processes and judge what it did."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Final

import numpy as np

from kit import errors
from kit.errors import (
    AbortedError,
    DeadlineExceededError,
    InvalidArgumentError,
    KitError,
    UnknownError,
)
from kit.puzzles.clock import ClockedRun, in_a_row, timeline
from kit.puzzles.events import Attempt, Event, Failed, Received, Sent, WaitBegan, Worked
from kit.puzzles.figures import NAMES, Figures, bytes_of, fullest, measured, over, shown
from kit.puzzles.process import Assignment
from kit.puzzles.processes import PuzzleProcesses, packed
from kit.puzzles.puzzle import Arrays, Given, Program, Puzzle
from kit.puzzles.result import Result
from kit.puzzles.task import Array

# --------------------------------------------------------------------------------------
# What is wrong with a try, or too dear, in a sentence that names task and message.
#
# Pure. The first cause is named: an error rather than the tasks that wait for the task
# in which it was raised.

Logs = Sequence[Sequence[Event]]
_MOST_SOLVED = 1_000  # elements; enough to find some coefficients
_MOST_NAMED = 4  # messages of a chain, or arrays of a task


def broken(puzzle: Puzzle, attempt: Attempt, function: str) -> KitError | None:
    """Return why a program did not end by itself; None if it did."""
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
    """Return which message a task received or sent last."""
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
    """Return what to call a message in a sentence."""
    if name:
        return f"message {name!r}"
    return "a message" if number is None else f"message number {number + 1}"


def _stuck(puzzle: Puzzle, attempt: Attempt) -> str:
    """Say which tasks wait for ever: a circle, or else the shortest chain."""
    # The shortest chain begins next to the cause; the others only lead up to it.
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
    """Say what has arrived unread at a task that waits in vain for something else."""
    wait = attempt.logs[task][-1]
    assert isinstance(wait, WaitBegan)
    # First from the task that it waits for: there it may be the name that is wrong.
    unread = _unread(puzzle, attempt.logs, task, wait.source)
    return f" {puzzle.tasks[task]} has not received {unread}." if unread else ""


def _unread(puzzle: Puzzle, logs: Logs, to: int, *first: int) -> str:
    """Return the first message that a task has not received, and from whom; or ""."""
    for source in (*first, *range(puzzle.n)):
        got = (e for e in logs[to] if isinstance(e, Received) and e.source == source)
        read = {event.number for event in got}
        for event in logs[source]:
            if isinstance(event, Sent) and event.to == to and event.number not in read:
                what = message(event.name, event.number)
                return f"{what} from {puzzle.tasks[source]}"
    return ""


def wrong(puzzle: Puzzle, attempt: Attempt) -> str:
    """Return what is wrong with the messages and the arrays at the end, or ""."""
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
    inputs, everything = puzzle.example
    for rank, arrays in enumerate(everything):
        for name, wanted in arrays.items():
            said = _wrong_array(attempt.results[rank].get(name), name, wanted)
            if not said:
                continue
            if name in attempt.results[rank]:
                said += _hint(puzzle, inputs, rank, name, attempt.results[rank], wanted)
            unread = _unread(puzzle, attempt.logs, rank)
            last = _last(attempt.logs[rank], puzzle)
            why = f"; it never received {unread}" if unread else last
            return f"{puzzle.tasks[rank]} {said}{why}."
    for to, task in enumerate(puzzle.tasks):
        if unread := _unread(puzzle, attempt.logs, to):
            return f"{task} never received {unread}. Do not send what no task needs."
    return ""


def _wrong_array(array: Array | None, name: str, wanted: Array) -> str:
    if array is None:
        return f"holds no {name!r} at the end"
    if array.shape != wanted.shape:
        return f"holds {name!r} of shape {array.shape}, and it should be {wanted.shape}"
    if array.dtype.kind not in "biuf":
        return f"holds {name!r} of dtype {array.dtype}, and real numbers are wanted"
    is_near = np.isclose(array, wanted, rtol=1e-4, atol=1e-5)
    if is_near.all():
        return ""
    position = tuple(int(k) for k in np.argwhere(~is_near)[0])
    n_wrong = int((~is_near).sum())
    which = "all" if n_wrong == wanted.size else f"{n_wrong:,} of {wanted.size:,}"
    return (
        f"holds {name!r} that is not what numpy computes: {which} elements are wrong, "
        f"the first is {float(array[position]):.4g} and should be "
        f"{float(wanted[position]):.4g}"
    )


def _hint(
    puzzle: Puzzle, inputs: Given, rank: int, name: str, held: Arrays, wanted: Array
) -> str:
    """Say what a wrong array was made of, if that can be worked out."""
    array = held[name]
    if array.shape != wanted.shape or array.dtype.kind not in "biuf":
        return ""
    if puzzle.addends is not None:
        return _sum_hint(array, wanted, puzzle.addends(inputs, rank, name))
    before = inputs[rank].get(name)
    return _order_hint(array, wanted, puzzle.n) or _scale_hint(array, wanted, before)


def _sum_hint(array: Array, wanted: Array, addends: Arrays) -> str:
    """Say which addends are missing or counted twice: their coefficients are solved."""
    # Only the wrong elements: where a part of the array is right, its coefficients are
    # others, and no single set of them would fit both.
    is_bad = ~np.isclose(array, wanted, rtol=1e-4, atol=1e-5)
    columns = np.stack([addend[is_bad] for addend in addends.values()], axis=1)[
        :_MOST_SOLVED
    ]
    there, ought = array[is_bad][:_MOST_SOLVED], wanted[is_bad][:_MOST_SOLVED]
    if len(columns) <= len(addends):  # any numbers would be a sum of so many unknowns
        return ""
    # What the coefficients should be: 1 each for a sum, 1/n for a mean.
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


def _scale_hint(array: Array, wanted: Array, before: Array | None) -> str:
    """Say by which factor an array, or its change, is off."""
    start = 0 if before is None else before
    change, ought = (array - start).ravel(), (wanted - start).ravel()
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


def _order_hint(array: Array, wanted: Array, n: int) -> str:
    """Say which part is where another one should be."""
    if wanted.ndim != 1 or wanted.size % n:
        return ""
    pairs = list(zip(np.split(array, n), np.split(wanted, n), strict=True))
    for number, (part, _) in enumerate(pairs):
        for other, (_, right) in enumerate(pairs):
            if other != number and np.allclose(part, right):
                return f"; in the place of part {number} is part {other}"
    return ""


def is_untouched(logs: Logs) -> bool:
    """Whether no task has done anything, as the stub of the exercise does."""
    done = Sent | Received | Worked | WaitBegan | Failed
    return not any(isinstance(event, done) for log in logs for event in log)


# --------------------------------------------------------------------------------------
# Too dear: which figure is over its target, and where that comes from.


def excess(puzzle: Puzzle, logs: Logs, figures: Figures, line: ClockedRun) -> str:
    """Return what costs more than the target, and where, in a sentence; or ""."""
    for name in over(figures, puzzle.target):
        value = shown(name, getattr(figures, name))
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
    links = [
        f"{message(flight.name)} from {names[flight.source]} to {names[flight.to]}"
        for flight in chain[:_MOST_NAMED]
    ]
    more = ", and so on" if len(chain) > len(links) else ""
    return (
        f"{value} messages wait for each other in a row, and {most} are enough: "
        f"{', '.join(links)}{more}"
    )


def _memory(
    names: Sequence[str], logs: Logs, _: ClockedRun, value: str, most: str
) -> str:
    task = max(range(len(names)), key=lambda k: fullest(logs[k]).n_bytes)
    full = fullest(logs[task])
    held = ", ".join(repr(name) for name in full.names[:_MOST_NAMED])
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


# --------------------------------------------------------------------------------------
# The judgement.

DEADLINE_S: Final = 10.0
_EMPTY: Final = (
    "no task has sent or received anything. Write your program where the three dots "
    "are, and run the cell again."
)


@cache
def _own() -> PuzzleProcesses:
    return PuzzleProcesses()  # those of this notebook, from the first try to its end


def judge(
    puzzle: Puzzle | str,
    program: Program,
    *,
    processes: PuzzleProcesses | None = None,
    deadline_s: float = DEADLINE_S,
) -> Result:
    """Run a program as all tasks of a puzzle at once, and say how good it is.

    Each task is a separate process, with a link to each of the others. The first call
    starts the processes, and they serve later calls until `close` or the end of this
    process. A run of a quick program takes some hundredths of a second.

    Parameters
    ----------
    puzzle : Puzzle or str
        The puzzle, or the name of one in `PUZZLES`.
    program : callable
        A function that takes a `PuzzleTask`, does its part, and returns nothing.
    processes : PuzzleProcesses, optional
        The processes to use, by default those that all calls share.
    deadline_s : float, default 10
        How many seconds a program may run. One that is deadlocked is ended at once, or
        after a second if other tasks are still at work.

    Returns
    -------
    Result
        A sentence, the figures beside the target, and a picture; its `reveal` has the
        best known programs. A wrong program is not an error: the result says what is
        wrong.

    Raises
    ------
    InvalidArgumentError
        There is no such puzzle, or the program is not a function.
    PeerLost
        A process died, other than by an exception of the program.

    Examples
    --------
    >>> from kit import puzzles
    >>> def broadcast(task):
    ...     if task.rank > 0:
    ...         task.keep("x", task.recv(task.rank - 1, name="x"))
    ...     if task.rank < task.n - 1:
    ...         task.send(task["x"], to=task.rank + 1, name="x")
    >>> puzzles.judge("broadcast", broadcast).ok
    True
    >>> puzzles.close()
    """
    from kit.puzzles.catalogue import find

    puzzle = find(puzzle) if isinstance(puzzle, str) else puzzle
    if not callable(program):
        raise InvalidArgumentError(
            f"{program!r:.60} is not a function; write one with def, that takes a task."
        )
    orders = _assignments(puzzle, program)
    attempt = (processes or _own()).run(orders, deadline_s)
    # The figures of a program that failed are shown too, as far as it came.
    line = timeline(attempt.logs, puzzle.cost)
    figures = measured(attempt.logs, line)
    name = getattr(program, "__name__", "the program")
    error = broken(puzzle, attempt, name)
    if error is not None:
        words = error.message
    elif is_untouched(attempt.logs):
        words = _EMPTY
    else:
        words = wrong(puzzle, attempt)
        words = words or excess(puzzle, attempt.logs, figures, line)
    if words:
        words = f"Not yet: {words.rstrip('.')}."
        return Result(puzzle, False, words, figures, line, attempt, error)
    words = f"Right. {_beside_the_best(figures, puzzle.best_known)}"
    return Result(puzzle, True, words, figures, line, attempt)


def _beside_the_best(costs: Figures, figures_of: Mapping[str, Figures]) -> str:
    least = [
        name
        for name in NAMES
        if all(name in over(k, costs) for k in figures_of.values())
    ]
    if least:
        return f"This beats every known program in {_names(least)}."
    less = [
        f"{program} ({_names(over(costs, figures))})"
        for program, figures in figures_of.items()
        if over(costs, figures)
    ]
    if less:
        return f"Known programs do better: {'; '.join(less)}."
    return "No known program does better."


def _names(figures: Sequence[str]) -> str:
    return ", ".join(NAMES[name] for name in figures)


def close() -> None:
    """End the processes of `judge`; another call starts new ones."""
    _own().close()


def _assignments(puzzle: Puzzle, program: Program) -> list[Assignment]:
    function = packed(program)
    return [
        Assignment(
            rank, puzzle.tasks, function, dict(inputs), puzzle.pieces, tuple(wanted)
        )
        for rank, (inputs, wanted) in enumerate(zip(*puzzle.example, strict=True))
    ]
