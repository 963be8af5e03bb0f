"""What a notebook shows of a training where nothing can draw a live board."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.notebooks.kernel import execute, of_cells, printed

TRAIN = """
import sys
sys.modules[{missing!r}] = None  # as if it were not installed
import kit
from kit.demo.digits import digits_mlp
from kit.testing.cluster import local_cluster

model = digits_mlp(seed=0)
context = local_cluster(ps=1, worker=2)
run = kit.train(
    model.step, model.params, model.train, steps=10**6, batch=64, link="100mbit",
    cluster=context.__enter__(),
)
run
"""
SWITCH = """
import asyncio
while run.step < 30:
    await asyncio.sleep(0.05)
run.topology = "ring"
while run.topology != "ring":
    await asyncio.sleep(0.05)
run.stop()
await run
context.__exit__(None, None, None)
"""
LOOK = """
from widgets import TrafficBoard
board = TrafficBoard(run)
print(board)
"""


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("missing", ["ipywidgets", "jupyter_bokeh"])
def test_board_without_its_widgets_is_a_picture_that_says_what_is_missing(
    tmp_path: Path, missing: str
) -> None:
    notebook = of_cells([TRAIN.format(missing=missing), SWITCH, LOOK])

    execute(notebook, tmp_path)

    (shown,) = (output.data for output in notebook.cells[0].outputs)
    assert 'class="ps-scene"' in shown["text/html"]
    assert "ring at 100mbit from step" in shown["text/html"]  # as it ended
    assert shown["text/plain"].startswith("Stopped after step")
    assert "Stopped after step" in printed(notebook, "2")
