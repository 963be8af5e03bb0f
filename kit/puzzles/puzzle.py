"""A puzzle: what is given and wanted, what it may cost, and the judge's entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from typing import Any

import numpy as np

from kit.puzzles.figures import NAMES, Figures, shown
from kit.puzzles.task import Array, Piece

_SEED = 7

Program = Callable[[Any], Any]
Arrays = dict[str, Array]
#: The arrays of each task.
Given = Sequence[Arrays]


@dataclass(frozen=True)
class Puzzle:
    """A puzzle for `kit.puzzles.judge`.

    Attributes
    ----------
    name : str
        What it is called.
    goal : str
        What the tasks should do, in a few sentences.
    tasks : tuple of str
        The names of the tasks, in the order of their ranks.
    given : callable
        Takes a `numpy.random.Generator`; returns the arrays that each task holds at
        the beginning, by name.
    wanted : callable
        Takes what is given; returns the arrays that each task should hold in the end.
        Computed with numpy alone, in one process.
    target, best : Figures
        What it may cost, and what the best program that is known costs. Another one may
        have less of one and more of another figure.
    pieces : mapping
        Functions that a task has besides its own, each with its time in ms.
    bytes_per_ms : float
        How much a link carries on the puzzle's clock.
    links : frozenset of pairs of int, optional
        From which rank to which one a message may go; by default from each to each.
    addends : callable, optional
        Takes what is given, a rank and a name; returns whose sum or mean is wanted
        there, by the name of the task that it is from. The judge can then say what is
        missing.
    """

    name: str
    goal: str
    tasks: tuple[str, ...]
    given: Callable[[np.random.Generator], Given]
    wanted: Callable[[Given], Given]
    target: Figures
    best: Figures
    pieces: Mapping[str, Piece] = field(default_factory=dict)
    bytes_per_ms: float = 100_000.0
    links: frozenset[tuple[int, int]] = frozenset()
    addends: Callable[[Given, int, str], Arrays] | None = None

    @cached_property
    def example(self) -> tuple[Given, Given]:
        """What is given and wanted in every try; not to be changed."""
        given = self.given(np.random.default_rng(_SEED))
        return given, self.wanted(given)

    @property
    def n(self) -> int:
        """How many tasks there are."""
        return len(self.tasks)

    def cost(self, n_bytes: int) -> float:
        """Return the ms that a message takes on the puzzle's clock."""
        return n_bytes / self.bytes_per_ms

    def rows(self, found: Figures | None = None) -> list[tuple[str, ...]]:
        """Return a row for each figure: its name, what was found, target and best."""
        columns = [(found, "\u2013")] if found is not None else []
        columns += [(self.target, "any"), (self.best, "any")]
        return [
            (title, *(shown(name, getattr(one, name), no) for one, no in columns))
            for name, title in NAMES.items()
        ]

    def __repr__(self) -> str:
        rows = self.rows()
        limits = [
            f"  {what}: at most {most}, best known {best}" for what, most, best in rows
        ]
        return "\n".join([f"{self.name}: {self.goal}", *limits])

    def _repr_html_(self) -> str:
        head = ("", "target", "best known")
        return (
            f"<p><b>{escape(self.name)}</b>: {escape(self.goal)}</p>"
            f"{table(head, self.rows())}"
        )


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as HTML; the first column is a heading."""
    top = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    body = "".join(
        f'<tr><th scope="row" style="text-align:left">{escape(row[0])}</th>'
        + "".join(f'<td style="text-align:right">{escape(c)}</td>' for c in row[1:])
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
