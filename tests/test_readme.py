"""What the README shows is taken from there and run, as a script and in cells."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.notebooks.kernel import execute, of_cells, of_one_cell, printed

ROOT = Path(__file__).parents[1]
PROGRAM_S = 90

pytestmark = [pytest.mark.slow, pytest.mark.engines, pytest.mark.timeout(150)]


def programs() -> list[str]:
    """Return the blocks of Python in the README that begin with `import kit`."""
    text = (ROOT / "README.md").read_text("utf-8")
    found = re.findall(r"^```python\n(import kit\n.*?)^```$", text, re.M | re.S)
    assert len(found) == 4, "a training, one that is saved, other kinds, a graph"
    return found


def cells() -> list[str]:
    """Return the cells of the README's part about notebooks."""
    text = (ROOT / "README.md").read_text("utf-8")
    (part,) = re.findall(r"^## In a notebook\n(.*?)^## ", text, re.M | re.S)
    found = re.findall(r"^```python\n(.*?)^```$", part, re.M | re.S)
    assert len(found) == 4, "load, train, switch, look"
    return found


def run(program: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_RUNTIME_DIR": str(folder)},
        cwd=folder,
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


def test_saved_training_of_the_readme_goes_on_elsewhere(tmp_path: Path) -> None:
    text = run(programs()[1], tmp_path)

    saved = re.search(r"^saved: (\S+/digits-run/step-\d+)$", text, re.M)
    assert saved is not None
    assert saved[1].startswith(str(tmp_path))
    assert "went on from step 300 to step 500" in text
    assert re.search(r"^global_step = 400, loss = 0\.\d+", text, re.M)
    assert float(re.findall(r"accuracy ([\d.]+)", text)[0]) > 0.9


def test_other_trainings_of_the_readme_learn(tmp_path: Path) -> None:
    first, second = run(programs()[2], tmp_path).splitlines()

    assert float(re.findall(r"loss ([\d.]+)", first)[0]) < 0.3
    before, after = map(float, re.findall(r"(?:loss|then) ([\d.]+)", second))
    assert after < before - 0.5


def test_graph_of_the_readme_gives_its_value_and_what_moved(tmp_path: Path) -> None:
    value, *transfers = run(programs()[3], tmp_path).splitlines()

    assert float(value) == pytest.approx(6 * math.tanh(4))
    assert any("'w/read:0'" in one and "n_bytes=32" in one for one in transfers)


def test_cells_of_the_readme_start_train_switch_and_look_into_a_worker(
    tmp_path: Path,
) -> None:
    notebook = of_cells([*cells(), "run.stop()\nrun.wait()\n%cluster stop"])

    execute(notebook, tmp_path)

    _, started, switched, looked, ended = (
        printed(notebook, cell.id) for cell in notebook.cells
    )
    assert re.search(
        r"Cluster ready: ps=1 worker=3, .*memory: \d+ MiB of", started, re.S
    )
    assert re.match(r"(ring since|ps since .*; ring comes)", switched)
    assert looked == "worker:1 │ I am /job:worker/task:1 and still training\n"
    assert "Cluster stopped" in ended


def test_the_readme_lists_the_lessons_that_there_are() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")

    listed = re.findall(r"^\| `(\d\d_\w+)` \|", readme, re.M)
    assert listed == sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
