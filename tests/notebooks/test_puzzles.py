"""Notebooks of puzzles: predict, write, judge; and that they run as a learner does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from kit.puzzles import PUZZLES
from tests.cases import for_each
from tests.notebooks.kernel import execute, parse, printed
from tests.notebooks.stored import Stored, read
from tests.puzzles.programs import FOLDER

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
JUDGED = re.compile(r'^(\w+) = puzzles\.judge\("(.+?)", (\w+)\)$', re.M)
MOST_WORDS = 900


class Exercise(NamedTuple):
    """The cells of a puzzle, in their order."""

    text: Stored
    asks: Stored
    target: Stored
    program: Stored
    solutions: list[Stored]
    reveal: Stored


def exercises(path: Path) -> list[Exercise]:
    cells = read(path).cells
    exercises = []
    for k, cell in enumerate(cells):
        if "prediction" in cell.metadata.get("tags", []):
            end = next(n for n in range(k, len(cells)) if "reveal" in cells[n].id)
            text, asks, target, program = cells[k - 1 : k + 3]
            solutions = cells[k + 3 : end]
            exercises.append(
                Exercise(text, asks, target, program, solutions, cells[end])
            )
    return exercises


def test_all_puzzles_are_in_the_notebooks_in_their_order() -> None:
    judged = [
        name
        for path in NOTEBOOKS
        for cell in read(path).cells
        if cell.cell_type == "code"
        for name in re.findall(r'puzzles\.judge\("(.+?)"', cell.source)
    ]

    assert judged == list(PUZZLES)


@for_each("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_prediction_is_wanted_before_anything_answers_it(path: Path) -> None:
    assert exercises(path)
    for each in exercises(path):
        asks = each.asks
        name = asks.source.splitlines()[-1]
        assert f"{name} = Prediction(" in asks.source
        assert all(
            text.startswith(f"{name}.lock(") for text in asks.metadata["example"]
        )
        for cell in (each.target, each.program):
            assert cell.source.startswith(f"{name}.required()\n")
        assert re.fullmatch(rf'tried_\w+\.reveal\({name}, "\w+"\)', each.reveal.source)


@for_each("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_text_above_a_puzzle_says_what_is_to_be_done(path: Path) -> None:
    for each in exercises(path):
        name = JUDGED.findall(each.program.source)[0][1]
        text = " ".join(each.text.source.split())
        assert text.endswith(f"**What is to be done.** {PUZZLES[name].goal}")


@for_each("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_solution_is_folded_text_that_ends_as_its_exercise_does(path: Path) -> None:
    for each in exercises(path):
        judged = JUDGED.findall(each.program.source)
        assert "..." in each.program.source
        for solution in each.solutions:
            assert "solution" in solution.metadata["tags"]
            assert solution.cell_type == "markdown"  # so it never runs by accident
            assert solution.source.startswith("<details><summary>A solution")
            assert JUDGED.findall(solution.source) == judged
        assert each.reveal.source.startswith(f"{judged[0][0]}.reveal(")


@for_each("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_short_and_names_its_goal_first(path: Path) -> None:
    cells = read(path).cells
    texts = [
        cell.source
        for cell in cells
        if cell.cell_type == "markdown"
        and "solution" not in cell.metadata.get("tags", [])
    ]

    assert "**Goal:**" in cells[0].source
    assert len(" ".join(texts).split()) <= MOST_WORDS
    assert cells[-1].source == "puzzles.close()"


@for_each("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_errors_of_a_notebook_are_short_from_its_first_code_on(path: Path) -> None:
    assert read(path).cells[1].source.endswith("\n%load_ext kit")


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_its_solutions_are_right(
    path: Path, tmp_path: Path
) -> None:
    from docs.answers import answer

    notebook = parse(path.read_text("utf-8"))
    answer(notebook)

    execute(notebook, tmp_path)

    for each in exercises(path):
        assert "target" in printed(notebook, each.target.id)
        assert "best known" not in printed(notebook, each.target.id)
        assert "Not yet: " in printed(notebook, each.program.id)
        for solution in each.solutions:
            right = printed(notebook, f"{solution.id}-answer")
            assert "Right. " in right
            assert '<svg xmlns="http://www.w3.org/2000/svg" class="kit-puzzle"' in right
        assert "The best known: " in printed(notebook, each.reveal.id), each.asks.id
