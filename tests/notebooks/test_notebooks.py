"""What is true of every notebook, and that the first one does what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cases import for_each
from tests.notebooks import stored
from tests.notebooks.kernel import ROOT, execute, lesson_with_answers, printed, read

NOTEBOOKS = sorted((ROOT / "notebooks").rglob("*.ipynb"))
HELLO = ROOT / "notebooks" / "00_hello_cluster.ipynb"
MOST_LINES = 15


each_notebook = for_each(
    "notebook", map(stored.read, NOTEBOOKS), ids=[path.stem for path in NOTEBOOKS]
)


@pytest.mark.slow  # as long as it takes to load the library
@for_each("path", NOTEBOOKS)
def test_notebook_is_valid_and_its_cells_have_names_of_their_own(path: Path) -> None:
    import nbformat

    notebook = read(path)

    nbformat.validate(notebook)
    ids = [cell.id for cell in notebook.cells]
    assert notebook.nbformat_minor >= 5
    assert len(set(ids)) == len(ids)


@each_notebook
def test_notebook_is_stored_without_outputs(notebook: stored.Stored) -> None:
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None


@each_notebook
def test_notebook_says_first_what_it_takes(notebook: stored.Stored) -> None:
    first = notebook.cells[0]

    assert first.cell_type == "markdown"
    assert first.source.startswith("# ")
    assert re.search(r"\b(second|minute)s?\b", first.source)
    assert re.search(r"\b[MG]B of memory\b", first.source)


@each_notebook
def test_cells_of_a_notebook_are_short(notebook: stored.Stored) -> None:
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert len(cell.source.splitlines()) <= MOST_LINES, cell.id


def test_there_is_a_notebook_to_begin_with() -> None:
    assert NOTEBOOKS[0] == HELLO
    assert len(stored.read(HELLO).cells) <= 24


@pytest.mark.slow
@pytest.mark.engines
@pytest.mark.timeout(200)
def test_hello_notebook_does_what_it_says_and_leaves_nothing(tmp_path: Path) -> None:
    notebook = lesson_with_answers(HELLO.stem)

    execute(notebook, tmp_path)

    assert "Cluster ready: ps=1 worker=3" in printed(notebook, "start")
    board = printed(notebook, "train")  # as it stood at the end
    assert re.search(r"Stopped after step \d+ of 100,000: ring at 100mbit", board)
    assert re.search(r"ps at 100mbit from step 0, ring at 100mbit from step \d+", board)
    assert board.count("<td>the same</td>") == 2 * 4  # both topologies, every task
    learned = printed(notebook, "finish")
    loss, accuracy = re.findall(r"(?:loss|accuracy) ([\d.]+)", learned)
    assert float(loss) < 0.1
    assert float(accuracy) > 0.9
    counted = printed(notebook, "bytes")
    ps_ms, ring_ms = re.findall(r"([\d.]+) ms from step to step", counted)
    assert float(ring_ms) < float(ps_ms)  # the server's link is the slowest part
    assert re.search(rf"ps +ps:0 +{6 * 104_488:,} bytes", counted)  # 3 in and 3 out
    assert re.search(r"ring +ps:0 +0 bytes", counted)
    assert printed(notebook, "exercise").count("Not yet") == 2
    assert printed(notebook, "solution-answer").count("Right.") == 2
    revealed = printed(notebook, "guess-reveal")
    assert "It is: nothing. You guessed: the same." in revealed
    assert revealed.count("Well guessed.") == 2
    assert "PeerLost: /job:worker/task:2 is gone" in printed(notebook, "kill")
    assert "worker:2 is gone</text>" in printed(notebook, "again")
    assert "Cluster stopped" in printed(notebook, "stop")
    assert [path for path in tmp_path.rglob("*") if not path.is_dir()] == []
