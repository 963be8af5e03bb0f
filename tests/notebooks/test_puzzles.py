"""Notebooks of puzzles: predict, write, judge; and that they run as a learner does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kit.puzzles import PUZZLES
from tests.cases import for_each
from tests.notebooks.kernel import execute, parse, printed
from tests.notebooks.stored import Stored, read
from tests.puzzles.programs import FOLDER

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
JUDGED = re.compile(r'^(\w+) = puzzles\.judge\("(.+?)", (\w+)\)$', re.M)
MOST_WORDS = 900


def exercises(path: Path) -> list[tuple[Stored, ...]]:
    """Return the cells of each puzzle: asks, target, exercise, solution, reveal."""
    cells = read(path).cells
    places = [
        k for k, c in enumerate(cells) if "prediction" in c.metadata.get("tags", [])
    ]
    return [tuple(cells[k : k + 5]) for k in places]


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
    for asks, target, exercise, solution, reveal in exercises(path):
        name = asks.source.splitlines()[-1]
        assert f"{name} = Prediction(" in asks.source
        assert all(one.startswith(f"{name}.lock(") for one in asks.metadata["example"])
        for cell in (target, exercise):
            assert cell.source.startswith(f"{name}.required()\n")
        # By the best program: the reader's own may be a naive one.
        judged, own = re.findall(r"tried_\w+\.(\w+)\.\w+", reveal.source)
        assert f"{name}.reveal(" in reveal.source
        assert (judged, own) == ("best", "figures")
        assert "solution" in solution.metadata["tags"]


@for_each("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_solution_is_folded_text_that_ends_as_its_exercise_does(path: Path) -> None:
    for _, _, exercise, solution, reveal in exercises(path):
        assert "..." in exercise.source
        assert solution.cell_type == "markdown"  # so it never runs by accident
        assert solution.source.startswith("<details><summary>A solution</summary>")
        assert JUDGED.findall(solution.source) == JUDGED.findall(exercise.source)
        tried = JUDGED.findall(exercise.source)[0][0]
        assert reveal.source.startswith(f"{tried}.required()\n")


@for_each("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_short_and_names_its_goal_first(path: Path) -> None:
    cells = read(path).cells
    texts = [cell.source for cell in cells if cell.cell_type == "markdown"]

    assert "**Goal:**" in cells[0].source
    assert len(" ".join(texts).split()) <= MOST_WORDS
    assert cells[-1].source == "puzzles.close()"


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_its_solutions_are_right(
    path: Path, tmp_path: Path
) -> None:
    from docs.answers import answer

    notebook = parse(path.read_text("utf-8"))
    answer(notebook)

    execute(notebook, tmp_path)

    for asks, target, exercise, solution, reveal in exercises(path):
        assert "best known" in printed(notebook, target.id)
        assert "Not yet: " in printed(notebook, exercise.id)
        right = printed(notebook, f"{solution.id}-answer")
        assert "Right. No program is known that costs less." in right
        assert '<svg xmlns="http://www.w3.org/2000/svg" class="kit-puzzle"' in right
        assert "you guessed" in printed(notebook, reveal.id), asks.id
