"""A class: what is handed out, and what is handed in and judged."""

from __future__ import annotations

import csv
import json
import re
import shutil
import sys
from collections import Counter
from contextlib import closing
from doctest import DocTestParser, DocTestRunner
from pathlib import Path
from typing import Any

import pytest

from kit import puzzles
from kit.__main__ import main
from kit.demo.grading import Grade, grade, write
from kit.errors import FailedPreconditionError, NotFoundError
from tests.notebooks.kernel import ROOT
from tests.puzzles.programs import program

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
    (folder / "=cmd\x1b[2J.ipynb").write_text("{}")
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
    assert rows[0]["submission"].startswith("'=cmd")  # no formula of a spreadsheet
    printed = capsys.readouterr().out
    assert "3 of 7 exercises are right." in printed
    assert "=cmd?[2J.ipynb" in printed  # and no order to a terminal
    not_yet = folder / "anna"
    assert main(["grade", str(not_yet), "--lessons", str(LESSONS), "--required"]) == 1


HOSTILE = """
import ctypes, os, pathlib, socket

def tried(action):
    try:
        action()
    except OSError:
        return False
    return True

def connect():
    socket.create_connection(("{host}", {port}), timeout=5)

def mount_to_write():
    remount = 32 | 4096
    if ctypes.CDLL(None).mount(None, b"/", None, remount, None):
        raise OSError

done = [
    tried(mount_to_write),
    tried(lambda: pathlib.Path("{outside}").write_text("mine")),
    tried(lambda: pathlib.Path("{other}").read_text()),
    tried(connect),
    len(os.listdir("/run")),  # where services have their sockets
]
messages_of_each = 30 + 100 * sum(done)
"""


WRITES_MUCH = """
import os
with open("/tmp/much", "wb") as file:
    try:
        for _ in range(64):
            os.write(file.fileno(), bytes(1 << 20))
        n = 1000
    except OSError:
        n = 30
messages_of_each = n
"""


@pytest.mark.parametrize("is_inside", [False, True])
def test_a_learners_program_neither_reaches_out_nor_fills_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_inside: bool
) -> None:
    import socket

    if is_inside:  # of a folder that the programs need, as a clone is
        monkeypatch.setattr(sys, "prefix", str(tmp_path))
    folder, outside = tmp_path / "in", LESSONS / "planted.txt"
    other = folder / "other.ipynb"
    folder.mkdir()
    other.write_text("{}")
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        program = HOSTILE.format(host=host, port=port, outside=outside, other=other)
        hand_in(folder / "me.ipynb", RING, {"messages": program})
        hand_in(folder / "much.ipynb", RING, {"messages": WRITES_MUCH})
        grades = list(grade(folder, LESSONS, limit_s=20))

    for name in ("me.ipynb", "much.ipynb"):
        verdicts = by_exercise([each for each in grades if each.submission == name])
        points, words = verdicts["messages: messages_of_each"]
        assert points == 1, words
    assert not outside.exists()


# Programs that do not answer, and what is said of them.
SILENT = {
    "import threading\nthreading.Event().wait()": "did not end within 6 s",
    "x = bytearray(1 << 40)\nmessages_of_each = len(x)": "MemoryError",
    "import os\nx = os._exit(0)\nmessages_of_each = x": "did not end within 6 s",
    "messages_of_each = exit('now')": "SystemExit: now",
    "messages_of_each = = 3": "line 1 of the cell is not Python",
    "print(30)": "does not bind 'messages_of_each'",
}


def test_a_program_that_does_not_answer_is_told_so_and_others_are_judged(
    tmp_path: Path,
) -> None:
    for number, source in enumerate(SILENT):
        own = {"schedule": CHUNK, "messages": f"{source}\n"}
        hand_in(tmp_path / f"{number}.ipynb", RING, own)

    grades = list(grade(tmp_path, LESSONS, limit_s=6))

    for number, words in enumerate(SILENT.values()):
        verdicts = by_exercise(
            [each for each in grades if each.submission == f"{number}.ipynb"]
        )
        assert verdicts["schedule: chunk"][0] == 1
        points, said = verdicts["messages: messages_of_each"]
        assert points == 0
        assert words in said


TO_THE_JUDGE = """
import os
for number in os.listdir("/proc/self/fd"):
    try:
        os.write(int(number), {text!r})
    except OSError:
        pass
os._exit(1)
"""


TEXTS = [
    b"no JSON\n",
    b"\xff\n",
    b"[1]\n",
    b"[[], 1, 'x']\n",
    b'["schedule: chunk", 1000, "="]\n',
    b"[" * 100_000 + b"\n",
    b"bwrap: it does not start\n",
]


def test_a_program_that_writes_to_its_judge_ends_no_judgement_but_its_own(
    tmp_path: Path,
) -> None:
    for number, text in enumerate(TEXTS):
        hostile = {"schedule": TO_THE_JUDGE.format(text=text)}
        hand_in(tmp_path / f"{number}.ipynb", RING, hostile)
    hand_in(tmp_path / "z.ipynb", RING, {"messages": "messages_of_each = 30\n"})

    grades = list(grade(tmp_path, LESSONS, limit_s=20))

    points = Counter[str]()
    for each in grades:
        points[each.submission] += each.points
    assert points == {f"{n}.ipynb": 0 for n in range(len(TEXTS))} | {"z.ipynb": 1}


def test_what_is_no_notebook_keeps_no_other_from_being_judged(tmp_path: Path) -> None:
    (tmp_path / "deep.ipynb").write_text('{"cells": ' + "[" * 100_000)
    (tmp_path / "link.ipynb").symlink_to(LESSONS / f"{RING}.ipynb")
    hand_in(tmp_path / "z.ipynb", RING, {"messages": "messages_of_each = 30\n"})

    deep, link, *others = grade(tmp_path, LESSONS, limit_s=20)

    assert deep.words.startswith("Not judged: this is not a notebook")
    assert "is a symbolic link" in link.words
    assert by_exercise(others)["messages: messages_of_each"][0] == 1


def test_submissions_among_what_judges_them_are_refused(tmp_path: Path) -> None:
    lessons = tmp_path / "lessons"
    shutil.copytree(LESSONS, lessons)
    with pytest.raises(FailedPreconditionError, match="a folder of their own"):
        list(grade(lessons, lessons))


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
    each = Grade("a.ipynb", RING, "schedule: chunk", 1, "+1, \u201cyes\u201d\n\ud800")
    write([each], tmp_path / "g.json")
    write([each], tmp_path / "g.csv")

    assert json.loads((tmp_path / "g.json").read_text())[0]["words"] == each.words
    with (tmp_path / "g.csv").open(encoding="utf-8", newline="") as file:
        assert list(csv.reader(file))[1][-1] == "'+1, \u201cyes\u201d\n\\ud800"


def test_the_examples_for_other_graders_pass_a_right_program_and_fail_a_wrong_one() -> (
    None
):
    page = (ROOT / "docs/instructors.md").read_text("utf-8")
    for_nbgrader, for_otter = re.findall(r"^```py\n(.*?)^```$", page, re.S | re.M)
    shown: dict[str, Any] = {}
    exec(for_otter, shown)
    (case,) = shown["test"]["suites"][0]["cases"]
    right, wrong = program(CHAIN.strip()), program("def broadcast(task):\n    pass\n")
    with closing(puzzles):
        exec(for_nbgrader, {"puzzles": puzzles, "broadcast": right})
        with pytest.raises(FailedPreconditionError, match="Not yet"):
            exec(for_nbgrader, {"puzzles": puzzles, "broadcast": wrong})
        for broadcast, n_failed in ((right, 0), (wrong, 1)):
            names = {"broadcast": broadcast}
            test = DocTestParser().get_doctest(case["code"], names, "otter", None, None)
            runner = DocTestRunner(verbose=False)
            assert runner.run(test, out=lambda text: None).failed == n_failed
