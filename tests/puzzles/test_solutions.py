"""Solutions are right, short, and cheap; of mistakes is said what is recorded."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter

import pytest

from kit import puzzles
from kit.puzzles import PUZZLES, PuzzleProcesses
from tests.cases import for_each
from tests.puzzles.programs import (
    all_solutions,
    mistaken,
    mistakes,
    program,
    solutions,
    without_numbers,
)

MOST_LINES = 30
SHOWN = {"first message"}  # solved in the notebook, to watch
# What the comment in a solution names.
VARIANTS = {
    "both at once": [
        solutions()["both at once"].replace(
            "0 if is_last else 2", "0 if is_last else 1"
        )
    ]
}


def test_each_puzzle_has_a_solution_in_a_notebook() -> None:
    assert solutions().keys() == PUZZLES.keys() - SHOWN
    assert len(solutions()) >= 12


@for_each("name", all_solutions())
def test_a_solution_takes_at_most_thirty_lines(name: str) -> None:
    for source in all_solutions()[name]:
        assert len([line for line in source.splitlines() if line.strip()]) <= MOST_LINES


@pytest.mark.slow
@for_each("name", all_solutions())
def test_solutions_are_right_and_cost_exactly_what_the_known_programs_do(
    name: str, processes: PuzzleProcesses
) -> None:
    costs = []
    for source in all_solutions()[name] + VARIANTS.get(name, []):
        result = puzzles.judge(name, program(source), processes=processes)
        assert result.ok, result.words
        costs.append(dataclasses.asdict(result.figures))

    expected = PUZZLES[name].best_known.values()
    assert costs == [pytest.approx(dataclasses.asdict(figures)) for figures in expected]


@for_each("name", PUZZLES)
def test_each_known_program_is_within_the_target_and_best_in_some_figure(
    name: str,
) -> None:
    target = dataclasses.asdict(PUZZLES[name].target)
    programs = [
        dataclasses.asdict(costs) for costs in PUZZLES[name].best_known.values()
    ]

    for costs in programs:
        others = [other for other in programs if other is not costs]
        assert all(costs[k] <= most for k, most in target.items() if most is not None)
        assert all(any(costs[k] < other[k] for k in costs) for other in others)


TASK = re.compile(r"(worker|ps):\d")


def test_each_puzzle_has_ten_mistakes_that_differ() -> None:
    counts = Counter(mistake.puzzle for mistake in mistakes())
    programs = {mistaken(mistake) for mistake in mistakes()}

    assert counts.keys() == solutions().keys()
    assert min(counts.values()) >= 10
    assert len(programs) == len(mistakes())


@for_each("mistake", mistakes(), ids=lambda item: f"{item.puzzle}: {item.mistake}")
def test_a_recorded_sentence_names_a_task(mistake: object) -> None:
    assert TASK.search(mistake.says)  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.parametrize("name", solutions())
def test_the_judge_says_of_each_mistake_what_is_recorded(
    name: str, processes: PuzzleProcesses
) -> None:
    said, recorded = {}, {}
    for mistake in mistakes():
        if mistake.puzzle == name:
            wrong = program(mistaken(mistake))
            result = puzzles.judge(name, wrong, processes=processes)
            assert not result.ok
            said[mistake.mistake] = without_numbers(result.words)
            recorded[mistake.mistake] = mistake.says

    assert said == recorded
