"""What every lesson has: a goal, questions with solutions, and an end that stops."""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from pathlib import Path

from notebooks import checks
from tests.cases import for_each
from tests.notebooks.kernel import ROOT
from tests.notebooks.stored import Stored, read

LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))
MOST_CELLS, MOST_WORDS = 40, 1000
CHECKER = re.compile(r"checks\.(\w+)\(")
PREDICTION = re.compile(r"^(\w+) = Prediction\(", re.M)
REQUIRED = ".required()"
FILE = re.compile(r"`((?:kit|widgets|notebooks)/[\w/]+\.py)`")


each_lesson = for_each("lesson", map(read, LESSONS), ids=[p.stem for p in LESSONS])


def test_the_lessons_are_numbered_in_a_row() -> None:
    numbers = [path.stem[:2] for path in LESSONS]
    assert numbers == [f"{k:02}" for k in range(len(LESSONS))]


@each_lesson
def test_lesson_names_its_goal_first(lesson: Stored) -> None:
    assert "**Goal:**" in lesson.cells[0].source


@each_lesson
def test_lesson_is_short(lesson: Stored) -> None:
    texts = [cell.source for cell in lesson.cells if cell.cell_type == "markdown"]

    assert len(lesson.cells) <= MOST_CELLS
    assert len(" ".join(texts).split()) <= MOST_WORDS


@each_lesson
def test_lesson_asks_for_a_prediction_and_wants_it_before_the_answer(
    lesson: Stored,
) -> None:
    asked = [c for c in lesson.cells if "prediction" in c.metadata.get("tags", [])]
    codes = [cell.source for cell in lesson.cells if cell.cell_type == "code"]

    assert asked
    for cell in asked:
        for name in PREDICTION.findall(cell.source):
            after = codes[codes.index(cell.source) + 1 :]
            wanted = next(n for n, code in enumerate(after) if REQUIRED in code)
            revealed = next(n for n, c in enumerate(after) if f"{name}.reveal(" in c)
            assert wanted <= revealed
            assert f"{name}.lock(" in "\n".join(cell.metadata["example"])


@each_lesson
def test_solutions_are_folded_text_that_follows_its_exercise(
    lesson: Stored,
) -> None:
    result = 0
    for exercise, cell in pairwise(lesson.cells):
        if "solution" in cell.metadata.get("tags", []):
            result += 1
            assert cell.cell_type == "markdown"  # so it never runs by accident
            assert cell.source.startswith("<details><summary>A solution</summary>")
            assert CHECKER.findall(cell.source) == CHECKER.findall(exercise.source)
            assert "solution" not in exercise.metadata.get("tags", [])

    assert result >= 1


@each_lesson
def test_every_checker_that_a_lesson_asks_exists(
    lesson: Stored,
) -> None:
    used = {n for cell in lesson.cells for n in CHECKER.findall(cell.source)}

    assert used
    assert [name for name in used if not callable(getattr(checks, name, None))] == []


def test_no_checker_is_left_over() -> None:
    used = {
        name
        for path in LESSONS
        for cell in read(path).cells
        for name in CHECKER.findall(cell.source)
    }
    tree = ast.parse(Path(checks.__file__).read_text("utf-8"))
    made = {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and ast.unparse(node.returns or node) == "AnswerVerdict"
    }

    assert made - used == set()


@each_lesson
def test_files_that_a_lesson_points_to_exist(lesson: Stored) -> None:
    named = [name for cell in lesson.cells for name in FILE.findall(cell.source)]

    assert named
    assert [name for name in named if not (ROOT / name).is_file()] == []


@each_lesson
def test_last_code_cell_stops_the_cluster(lesson: Stored) -> None:
    codes = [cell for cell in lesson.cells if cell.cell_type == "code"]

    assert "%cluster stop" in codes[-1].source
