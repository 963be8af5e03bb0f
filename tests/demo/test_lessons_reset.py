"""Lessons restored as they were shipped, in a small clone."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kit.__main__ import main
from kit.demo.lessons import reset
from kit.errors import FailedPreconditionError, NotFoundError

PUZZLE = "puzzles/1_first"
SHIPPED = {"00_hello": '{"cells": []}\n', "03_ring": '{"cells": ["ring \u2013"]}\n'}
SHIPPED[PUZZLE] = '{"cells": ["puzzle"]}\n'


@pytest.fixture
def lessons(tmp_path: Path) -> Path:
    folder = tmp_path / "clone" / "notebooks"
    folder.mkdir(parents=True)
    (folder / "puzzles").mkdir()
    for name, text in SHIPPED.items():
        (folder / f"{name}.ipynb").write_text(text, "utf-8")
    (folder / "checks.py").write_text("")
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "lessons"]):
        subprocess.run(["git", "-C", str(folder.parent), *words], check=True)
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.slow
def test_a_lesson_is_as_it_was_shipped_and_the_learners_is_kept_beside_it(
    lessons: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, other = lessons / "03_ring.ipynb", lessons / "00_hello.ipynb"
    other.write_text("my hello")
    for number in (1, 2):
        mine.write_text(f"mine {number}")

        assert main(["lessons", "reset", "03", "--folder", str(lessons)]) == 0

        assert mine.read_text("utf-8") == SHIPPED["03_ring"]
        kept = lessons / f"03_ring.kept-{number}.ipynb"
        assert kept.read_text() == f"mine {number}"
        assert f"yours is {kept.name}" in capsys.readouterr().out
    assert other.read_text() == "my hello"


@pytest.mark.slow
def test_a_copy_is_not_written_to_where_a_planted_link_leads(lessons: Path) -> None:
    (lessons / "03_ring.ipynb").write_text("mine")
    (lessons / "03_ring.kept-1.ipynb").symlink_to(lessons.parent / "authorized_keys")

    reset(["03"], lessons)

    assert not (lessons.parent / "authorized_keys").exists()
    assert (lessons / "03_ring.kept-2.ipynb").read_text() == "mine"


@pytest.mark.slow
def test_all_lessons_are_put_back_also_missing_ones_and_only_changed_ones_are_kept(
    lessons: Path,
) -> None:
    (lessons / "03_ring.ipynb").unlink()

    said = reset([], lessons)

    assert said == [
        "00_hello.ipynb is as it was shipped.",
        "03_ring.ipynb was missing, and is there again.",
        "1_first.ipynb is as it was shipped.",
    ]
    assert names(lessons) == ["00_hello.ipynb", "03_ring.ipynb", "checks.py", "puzzles"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["1_first", "puzzles", PUZZLE])
def test_a_puzzle_is_put_back_by_its_name_and_that_of_its_folder(
    lessons: Path, name: str
) -> None:
    shutil.rmtree(lessons / "puzzles")

    assert reset([name], lessons) == ["1_first.ipynb was missing, and is there again."]

    assert (lessons / f"{PUZZLE}.ipynb").read_text("utf-8") == SHIPPED[PUZZLE]


@pytest.mark.slow
def test_a_lesson_that_does_not_exist_is_named_with_those_that_do(
    lessons: Path,
) -> None:
    with pytest.raises(
        NotFoundError, match="'42'; there are 00_hello, 03_ring, puzzles/1_first"
    ):
        reset(["03", "42"], lessons)


def test_outside_of_a_clone_the_error_says_so(tmp_path: Path) -> None:
    with pytest.raises(FailedPreconditionError, match="clone of the repository"):
        reset([], tmp_path)
