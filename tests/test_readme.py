"""The program in the README is taken from there and run, as a script and in a cell."""

from __future__ import annotations

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


def program() -> str:
    """Return the first block of Python in the README."""
    text = (ROOT / "README.md").read_text("utf-8")
    block = re.search(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert block is not None, "the README shows no program"
    return block[1]


def check(text: str) -> None:
    loss, accuracy = re.findall(r"(?:loss|accuracy) ([\d.]+)", text)
    assert float(loss) < 0.2
    assert float(accuracy) > 0.9
    rows = [line for line in text.splitlines() if "bytes" in line]
    assert {task for task in ("ps:0", "worker:0", "worker:2") if task in text}
    assert len(rows) >= 4
    assert all("as by formula" in row for row in rows)


def test_program_of_the_readme_runs_as_a_script(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program()],
        env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    check(done.stdout)


def test_program_of_the_readme_runs_in_a_notebook(tmp_path: Path) -> None:
    notebook = of_one_cell(program())

    execute(notebook, tmp_path)

    check(printed(notebook))
