"""A class: what is handed out, and what is handed in and judged."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kit.__main__ import main
from kit.demo.grading import Grade, grade, write
from kit.errors import FailedPreconditionError, NotFoundError
from tests.notebooks.kernel import ROOT

pytestmark = pytest.mark.slow

LESSONS = ROOT / "notebooks"
RING, PUZZLES = "03_ring_allreduce", "1_first_messages"
CHUNK = "def chunk(rank, hop, n):\n    return (rank - hop) % n\n"
CHAIN = """
def broadcast(task):
    if task.rank > 0:
        task.keep("x", task.recv(task.rank - 1, name="x"))
    if task.rank < task.n - 1:
        task.send(task["x"], to=task.rank + 1, name="x")
"""


@pytest.fixture(autouse=True)
def _in_a_sandbox() -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("there is no bubblewrap")


def hand_in(path: Path, lesson: str, answers: dict[str, str]) -> None:
    """Write a lesson with other sources in some of its cells."""
    source = next(LESSONS.rglob(f"{lesson}.ipynb"))
    notebook = json.loads(source.read_text("utf-8"))
    for cell in notebook["cells"]:
        cell["source"] = answers.get(cell["id"], cell["source"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(notebook), "utf-8")


def by_exercise(grades: list[Grade]) -> dict[str, tuple[int, str]]:
    return {each.exercise: (each.points, each.words) for each in grades}


def test_answers_of_a_class_are_judged_by_the_shipped_checks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "handed in"
    own = {
        "schedule": CHUNK,
        "bytes": "size = 1\nsent_by_each = 2 * 15 / 16 * size",  # of another model
        "messages": "messages_of_each = 2 * (16 - 1)\nprint(whatever)",
    }
    hand_in(folder / "anna" / "my ring.ipynb", RING, own)
    hand_in(folder / "ben" / "puzzles.ipynb", PUZZLES, {"broadcast": CHAIN})
    (folder / "=cmd.ipynb").write_text("{}")
    files = [tmp_path / "grades.csv", tmp_path / "grades.json"]

    options = [word for path in files for word in ("--to", str(path))]
    assert main(["grade", str(folder), "--lessons", str(LESSONS), *options]) == 0

    grades = [Grade(**each) for each in json.loads(files[1].read_text())]
    assert by_exercise(grades) == {
        "": (0, "Not judged: this is not a notebook: it has no cells."),
        "schedule: chunk": (1, "Right. Each worker ends with one whole sum."),
        "bytes: sent_by_each": (0, grades[2].words),
        "messages: messages_of_each": (
            1,
            "Right. n-1 to add up, n-1 to hand round.",
        ),
        "broadcast: broadcast": (1, grades[4].words),
        "reduce: reduce": (0, grades[5].words),
        "all-reduce: all-reduce": (0, grades[6].words),
    }
    assert grades[2].words.startswith("Not yet: 1.875 bytes is too low")
    with files[0].open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["points"]) for row in rows] == [g.points for g in grades]
    assert rows[0]["submission"] == "'=cmd.ipynb"  # no formula of a spreadsheet
    assert "3 of 7 exercises are right." in capsys.readouterr().out
    assert main(["grade", str(folder), "--lessons", str(LESSONS), "--required"]) == 1


HOSTILE = """
import os, pathlib, socket

def tried(action):
    try:
        action()
    except OSError:
        return False
    return True

def connect():
    socket.create_connection(("{host}", {port}), timeout=5)

done = [
    tried(lambda: pathlib.Path("{outside}").write_text("mine")),
    tried(lambda: pathlib.Path("{other}").read_text()),
    tried(connect),
]
messages_of_each = 30 + 100 * sum(done)
"""


def test_a_learners_program_reaches_neither_files_nor_network_nor_other_learners(
    tmp_path: Path,
) -> None:
    import socket

    folder, outside = tmp_path / "in", LESSONS / "planted.txt"
    hand_in(folder / "other.ipynb", PUZZLES, {})
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        other = folder / "other.ipynb"
        program = HOSTILE.format(host=host, port=port, outside=outside, other=other)
        hand_in(folder / "me.ipynb", RING, {"messages": program})
        grades = [g for g in grade(folder, LESSONS) if g.submission == "me.ipynb"]

    points, words = by_exercise(grades)["messages: messages_of_each"]
    assert points == 1, words
    assert not outside.exists()


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("while True: pass", "did not end within 6 s"),
        ("x = bytearray(1 << 40)\nmessages_of_each = len(x)", "MemoryError"),
        ("import os\nx = os._exit(0)\nmessages_of_each = x", "did not end within 6 s"),
        ("messages_of_each = exit('now')", "SystemExit: now"),
        ("messages_of_each = = 3", "line 1 of the cell is not Python"),
        ("print(30)", "does not bind 'messages_of_each'"),
    ],
)
def test_a_program_that_does_not_answer_is_told_so_and_others_are_judged(
    program: str, words: str, tmp_path: Path
) -> None:
    own = {"schedule": CHUNK, "messages": f"{program}\n"}
    hand_in(tmp_path / "me.ipynb", RING, own)

    verdicts = by_exercise(list(grade(tmp_path, LESSONS, limit_s=6)))

    assert verdicts["schedule: chunk"][0] == 1
    points, said = verdicts["messages: messages_of_each"]
    assert points == 0
    assert words in said


def test_nothing_is_judged_without_a_sandbox_or_without_notebooks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotFoundError, match="has no notebooks"):
        list(grade(tmp_path, LESSONS))
    with pytest.raises(NotFoundError, match="--lessons says where"):
        list(grade(LESSONS, tmp_path))
    hand_in(tmp_path / "me.ipynb", RING, {})
    monkeypatch.setenv("PATH", "")
    with pytest.raises(FailedPreconditionError, match="apt-get install bubblewrap"):
        list(grade(tmp_path, LESSONS))


def test_copies_for_students_have_no_solution_and_the_key_shows_them_all(
    tmp_path: Path,
) -> None:
    assert main(["lessons", "copies", str(tmp_path), "--folder", str(LESSONS)]) == 0

    def cells(kind: str) -> list[dict[str, Any]]:
        path = tmp_path / kind / f"{RING}.ipynb"
        return list(json.loads(path.read_text("utf-8"))["cells"])

    shipped = json.loads((LESSONS / f"{RING}.ipynb").read_text("utf-8"))["cells"]
    solutions = [c for c in shipped if "solution" in c["metadata"].get("tags", [])]
    assert solutions
    hidden = [cell["id"] for cell in cells("students")]
    assert hidden == [c["id"] for c in shipped if c not in solutions]
    key = "".join("".join(cell["source"]) for cell in cells("key"))
    assert key.count("**A solution**") == len(solutions)
    assert "<details>" not in key
    kinds = [cell["metadata"]["slideshow"]["slide_type"] for cell in cells("slides")]
    assert kinds.count("slide") == sum(
        "".join(cell["source"]).startswith("#") for cell in cells("slides")
    )
    assert main(["lessons", "copies", str(tmp_path), "--folder", str(LESSONS)]) == 2


def test_a_grade_is_written_as_it_is(tmp_path: Path) -> None:
    each = Grade("a.ipynb", RING, "schedule: chunk", 1, "+1, \u201cyes\u201d\n")
    write([each], tmp_path / "g.json")
    write([each], tmp_path / "g.csv")

    assert json.loads((tmp_path / "g.json").read_text())[0]["words"] == each.words
    with (tmp_path / "g.csv").open(encoding="utf-8", newline="") as file:
        assert list(csv.reader(file))[1][-1] == f"'{each.words}"
