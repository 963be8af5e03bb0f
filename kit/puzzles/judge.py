"""Run a learner's program on real processes and judge what it did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

from kit.errors import InvalidArgumentError
from kit.puzzles.clock import timeline
from kit.puzzles.complaints import broken, excess, is_untouched, wrong
from kit.puzzles.figures import NAMES, Figures, measured, over
from kit.puzzles.process import Assignment
from kit.puzzles.processes import PuzzleProcesses, packed
from kit.puzzles.puzzle import Program, Puzzle
from kit.puzzles.result import Result

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
    words = f"Right. {_beside_the_best(figures, puzzle.known)}"
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
