"""The solutions of the notebooks are right, short, and cost what is said to be best."""

from __future__ import annotations

import dataclasses

import pytest

from kit import puzzles
from kit.puzzles import PUZZLES, PuzzleProcesses
from tests.cases import for_each
from tests.puzzles.programs import program, solutions

MOST_LINES = 30
SHOWN = {"first message"}  # solved in the notebook, to watch


def test_each_puzzle_has_a_solution_in_a_notebook() -> None:
    assert solutions().keys() == PUZZLES.keys() - SHOWN
    assert len(solutions()) >= 12


@for_each("name", solutions())
def test_a_solution_takes_at_most_thirty_lines(name: str) -> None:
    lines = [line for line in solutions()[name].splitlines() if line.strip()]

    assert len(lines) <= MOST_LINES


@pytest.mark.slow
@for_each("name", solutions())
def test_a_solution_is_right_and_costs_exactly_the_best_that_is_known(
    name: str, processes: PuzzleProcesses
) -> None:
    result = puzzles.judge(name, program(solutions()[name]), processes=processes)

    assert result.ok, result.words
    found = dataclasses.asdict(result.figures)
    best = dataclasses.asdict(PUZZLES[name].best)
    assert {one: found[one] for one in best} == pytest.approx(best)


@for_each("name", PUZZLES)
def test_the_best_is_within_the_target(name: str) -> None:
    best = dataclasses.asdict(PUZZLES[name].best)
    target = dataclasses.asdict(PUZZLES[name].target)

    for one, most in target.items():
        assert best[one] is not None, one
        assert most is None or best[one] <= most, one
