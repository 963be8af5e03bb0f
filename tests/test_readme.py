"""What the README and the first page of the site show is run: a script and cells."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.documents import ROOT, cells, programs, run
from tests.notebooks.kernel import execute, of_cells, printed

README = ROOT / "README.md"
START = ROOT / "docs" / "start.md"


def training() -> str:
    """Return the program that the README begins with."""
    return programs(README.read_text("utf-8"))[0].program


def check(text: str) -> None:
    loss, accuracy = re.findall(r"(?:loss|accuracy) ([\d.]+)", text)
    assert float(loss) < 0.2
    assert float(accuracy) > 0.9
    rows = [line for line in text.splitlines() if "bytes" in line]
    assert {task for task in ("ps:0", "worker:0", "worker:2") if task in text}
    assert len(rows) >= 4
    assert all("as by formula" in row for row in rows)


@pytest.mark.slow
@pytest.mark.engines
@pytest.mark.timeout(200)
def test_training_of_the_readme_runs_as_a_script(tmp_path: Path) -> None:
    check(run(training(), tmp_path))


def in_cells(document: Path, runtime: Path, *first: str) -> list[str]:
    """Run the cells of a document, and a last one that stops; what each has printed."""
    shown = cells(document.read_text("utf-8"))
    notebook = of_cells([*first, *shown, "run.stop()\nrun.wait()\n%cluster stop"])
    execute(notebook, runtime)
    return [printed(notebook, cell.id) for cell in notebook.cells]


@pytest.mark.slow
@pytest.mark.engines
@pytest.mark.timeout(150)
def test_training_and_cells_of_the_readme_run_in_a_notebook(tmp_path: Path) -> None:
    alone, _, trained, ended = in_cells(README, tmp_path, training())

    check(alone)
    assert "Cluster ready: ps=1 worker=3" in trained
    assert "ps at 100mbit from step 0" in trained  # the still picture of the board
    assert "Cluster stopped" in ended


@pytest.mark.slow
@pytest.mark.engines
@pytest.mark.timeout(150)
def test_cells_of_the_first_page_start_train_switch_and_look_into_a_worker(
    tmp_path: Path,
) -> None:
    _, started, switched, looked, ended = in_cells(START, tmp_path)

    assert re.search(
        r"Cluster ready: ps=1 worker=3, .*memory: \d+ MiB of", started, re.S
    )
    assert re.match(r"(ring since|ps since .*; ring comes)", switched)
    assert looked == "worker:1 │ I am /job:worker/task:1 and still training\n"
    assert "Cluster stopped" in ended


def test_what_the_readme_links_to_is_there() -> None:
    text = README.read_text("utf-8")
    links = re.findall(r"\]\(([^)#:]+)(?:#[\w-]+)?\)", text)

    assert {"docs/start.md", "notebooks/LICENSE"} <= set(links)
    assert [link for link in links if not (ROOT / link).is_file()] == []


def test_the_readme_lists_the_lessons_that_there_are() -> None:
    listed = re.findall(r"^\| `(\d\d_\w+)` \|", README.read_text("utf-8"), re.M)

    assert listed == sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
