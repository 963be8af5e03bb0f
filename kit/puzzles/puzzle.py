"""A puzzle: what is given and wanted, what it may cost, and the judge's entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np

from kit.handles import OldName, old_arguments
from kit.markup import Html, in_cell, joined, markup
from kit.puzzles.figures import NAMES, Figures, shown
from kit.puzzles.task import Array, Piece

_SEED = 7

Program = Callable[[Any], Any]
Arrays = dict[str, Array]
#: The arrays of each task.
Given = Sequence[Arrays]


@old_arguments(given="inputs", known="best_known")
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
    inputs : callable
        Takes a `numpy.random.Generator`; returns for each task the arrays that it
        starts with, by name.
    wanted : callable
        Takes what `inputs` returned; returns for each task the arrays that it should
        hold at the end, by name. It computes them in one process, with numpy.
    target : Figures
        What a program may cost.
    best_known : mapping of str to Figures
        What the best known programs cost, by what each is called: one may have fewer
        bytes, and another fewer messages in a row.
    pieces : mapping
        Functions that a task offers besides its own, each with the time in ms that a
        call takes on the puzzle's clock.
    bytes_per_ms : float
        How much a link carries in a ms on the puzzle's clock.
    links : frozenset of pairs of int, optional
        From which rank to which other rank messages may go; by default between all.
    addends : callable, optional
        Takes what `inputs` returned, a rank and the name of an array; returns the
        arrays of which that one is the sum or the mean, by the name of the task that
        each is from. With these the judge can say which one is missing.
    """

    name: str
    goal: str
    tasks: tuple[str, ...]
    inputs: Callable[[np.random.Generator], Given]
    wanted: Callable[[Given], Given]
    target: Figures
    best_known: Mapping[str, Figures]
    pieces: Mapping[str, Piece] = field(default_factory=dict)
    bytes_per_ms: float = 100_000.0
    links: frozenset[tuple[int, int]] = frozenset()
    addends: Callable[[Given, int, str], Arrays] | None = None

    given = OldName("given", "inputs")
    known = OldName("known", "best_known")

    @cached_property
    def example(self) -> tuple[Given, Given]:
        """What is given and wanted, the same in every try; do not change it."""
        inputs = self.inputs(np.random.default_rng(_SEED))
        return inputs, self.wanted(inputs)

    @property
    def n(self) -> int:
        """How many tasks there are."""
        return len(self.tasks)

    def cost(self, n_bytes: int) -> float:
        """Return the time that a message takes on the puzzle's clock, in ms."""
        return n_bytes / self.bytes_per_ms

    @property
    def best(self) -> Figures:
        """The least of each figure, which one program may not reach in all of them."""
        best_programs = self.best_known.values()
        return Figures(
            **{
                f.name: min(
                    (c for k in best_programs if (c := getattr(k, f.name)) is not None),
                    default=None,
                )
                for f in fields(Figures)
            }
        )

    def __repr__(self) -> str:
        rows = rows_of({"target": self.target})
        limits = [f"  {name}: at most {most}" for name, most in rows if most != "any"]
        return "\n".join([f"{self.name}: {self.goal}", *limits])

    def _repr_html_(self) -> Html:
        limits = table({"target": self.target})
        text = markup("<p><b>{}</b>: {}</p>{}", self.name, self.goal, limits)
        return in_cell(text)


def rows_of(columns: Mapping[str, Figures]) -> list[tuple[str, ...]]:
    """Return a row for each figure: its name, and its value in each column."""
    return [
        (
            title,
            *(
                shown(
                    name, getattr(costs, name), "any" if head == "target" else "\u2013"
                )
                for head, costs in columns.items()
            ),
        )
        for name, title in NAMES.items()
    ]


def table(columns: Mapping[str, Figures]) -> Html:
    """Return figures as a table in HTML, with a column for each program or limit."""
    rows = rows_of(columns)
    top = joined(markup('<th scope="col">{}</th>', cell) for cell in ("", *columns))
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
