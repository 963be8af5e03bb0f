"""Published figures, done again: each notebook shows what it says of its paper."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

from tests.notebooks.kernel import ROOT, execute, printed, read

pytestmark = [pytest.mark.slow, pytest.mark.engines, pytest.mark.timeout(300)]


def run(name: str, runtime: Path) -> nbformat.NotebookNode:
    notebook = read(ROOT / "notebooks" / "papers" / f"{name}.ipynb")
    execute(notebook, runtime)
    assert [path for path in runtime.rglob("*") if not path.is_dir()] == []
    return notebook


def rows(text: str) -> dict[str, list[float]]:
    """Return the numbers of each line of a table of pandas, by its name."""
    lines = re.findall(r"<th>([^<]+)</th>((?:\s*<td>[\d.]+</td>)+)", text)
    return {
        name: [float(item) for item in re.findall(r"[\d.]+", numbers)]
        for name, numbers in lines
    }


def test_backup_workers_take_most_of_the_waiting_away(tmp_path: Path) -> None:
    notebook = run("backup_workers", tmp_path)

    text = printed(notebook, "steps")
    ms = [float(item) for item in re.findall(r"(\d+) ms a step", text)]
    first = re.findall(r"after +([\d.]+) s", printed(notebook, "first"))
    assert len(ms) == 4
    assert ms[2] < ms[0] / 1.3
    assert float(first[2]) < float(first[0])


def test_local_steps_with_outer_momentum_need_a_fraction_of_the_bytes(
    tmp_path: Path,
) -> None:
    notebook = run("diloco", tmp_path)

    table = rows(printed(notebook, "table"))
    often, seldom = table["every step"], table["DiLoCo, 50 local steps"]
    mean = table["mean, 50 local steps"]
    assert often[0] == seldom[0] == mean[0]  # examples
    assert seldom[1] == mean[1] == 0.02  # bytes
    assert seldom[3] < 1.02 * often[3]  # held-out loss
    assert seldom[3] < mean[3]


def test_error_feedback_makes_compressed_steps_converge(tmp_path: Path) -> None:
    notebook = run("error_feedback", tmp_path)

    moved = re.findall(r"to ([+-][\d.]+)", printed(notebook, "counter"))
    assert float(moved[0]) == -5.0
    assert float(moved[1]) > 0 > float(moved[2])
    assert printed(notebook, "check").count("True") == 2
