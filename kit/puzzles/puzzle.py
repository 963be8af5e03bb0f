"""A puzzle: what is given and wanted, what it may cost, and the judge's entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from kit.markup import Html, joined, markup
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
        What the tasks have to do, in a few sentences.
    tasks : tuple of str
        The names of the tasks, by rank.
    given : callable
        Takes a `numpy.random.Generator`; returns for each task the arrays that it
        starts with, by name.
    wanted : callable
        Takes what `given` returned; returns for each task the arrays that it should
        hold at the end, by name. It computes them in one process, with numpy.
    target, best : Figures
        What a program may cost, and what the best known program costs. Another program
        may do better in one figure and worse in another.
    pieces : mapping
        Functions that a task offers besides its own, each with the time in ms that a
        call takes on the puzzle's clock.
    bytes_per_ms : float
        How much a link carries in a ms on the puzzle's clock.
    links : frozenset of pairs of int, optional
        From which rank to which other rank messages may go; by default between all.
    addends : callable, optional
        Takes what `given` returned, a rank and the name of an array; returns the arrays
        of which that one is the sum or the mean, by the name of the task that each is
        from. With these the judge can say which one is missing.
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
        """What is given and wanted, the same in every try; do not change it."""
        given = self.given(np.random.default_rng(_SEED))
        return given, self.wanted(given)

    @property
    def n(self) -> int:
        """How many tasks there are."""
        return len(self.tasks)

    def cost(self, n_bytes: int) -> float:
        """Return the time that a message takes on the puzzle's clock, in ms."""
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

    def _repr_html_(self) -> Html:
        head = ("", "target", "best known")
        return markup(
            "<p><b>{}</b>: {}</p>{}", self.name, self.goal, table(head, self.rows())
        )


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Html:
    """Return a table as HTML; the first column is a heading."""
    top = joined(markup('<th scope="col">{}</th>', cell) for cell in head)
    body = joined(
        markup(
            '<tr><th scope="row" style="text-align:left">{}</th>{}</tr>',
            row[0],
            joined(markup('<td style="text-align:right">{}</td>', c) for c in row[1:]),
        )
        for row in rows
    )
    return markup(
        "<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>", top, body
    )
