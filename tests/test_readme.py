"""The program in the README is taken from there and run, as a script and in a cell."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.notebooks.kernel import execute, of_one_cell, printed

ROOT = Path(__file__).parents[1]
PROGRAM_S = 90

pytestmark = [pytest.mark.slow, pytest.mark.engines, pytest.mark.timeout(150)]


def programs() -> list[str]:
    """Return the blocks of Python in the README that begin with `import kit`."""
    text = (ROOT / "README.md").read_text("utf-8")
    found = re.findall(r"^```python\n(import kit\n.*?)^```$", text, re.M | re.S)
    assert len(found) == 2, "the README shows a training and a graph"
    return found


def run(program: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_RUNTIME_DIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def check(text: str) -> None:
    loss, accuracy = re.findall(r"(?:loss|accuracy) ([\d.]+)", text)
    assert float(loss) < 0.2
    assert float(accuracy) > 0.9
    rows = [line for line in text.splitlines() if "bytes" in line]
    assert {task for task in ("ps:0", "worker:0", "worker:2") if task in text}
    assert len(rows) >= 4
    assert all("as by formula" in row for row in rows)


def test_training_of_the_readme_runs_as_a_script(tmp_path: Path) -> None:
    check(run(programs()[0], tmp_path))


def test_training_of_the_readme_runs_in_a_notebook(tmp_path: Path) -> None:
    notebook = of_one_cell(programs()[0])

    execute(notebook, tmp_path)

    check(printed(notebook))


def test_graph_of_the_readme_gives_its_value_and_what_moved(tmp_path: Path) -> None:
    value, *transfers = run(programs()[1], tmp_path).splitlines()

    assert float(value) == pytest.approx(6 * math.tanh(4))
    assert any("'w/read:0'" in one and "n_bytes=32" in one for one in transfers)
