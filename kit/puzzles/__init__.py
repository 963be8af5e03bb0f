"""Puzzles that run: a learner programs tasks, and a judge measures what they do.

    def broadcast(task):
        ...

    puzzles.judge("broadcast", broadcast)

The program runs as all tasks at once, in a process for each, on real arrays. The judge
measures bytes, messages in a row, memory and idle time, compares the result with
numpy's, draws what happened, and says in a sentence what is wrong.
"""

from kit.puzzles.catalogue import PUZZLES as PUZZLES
from kit.puzzles.catalogue import find as puzzle
from kit.puzzles.figures import Figures as Figures
from kit.puzzles.judge import close as close
from kit.puzzles.judge import judge as judge
from kit.puzzles.processes import PuzzleProcesses as PuzzleProcesses
from kit.puzzles.puzzle import Puzzle as Puzzle
from kit.puzzles.result import Result as Result
from kit.puzzles.task import PuzzleTask as PuzzleTask

__all__ = [
    "PUZZLES",
    "Figures",
    "Puzzle",
    "PuzzleProcesses",
    "PuzzleTask",
    "Result",
    "close",
    "judge",
    "puzzle",
]
