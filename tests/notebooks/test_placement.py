"""The lesson on placement does what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.notebooks.kernel import printed, run


def number(text: str, after: str) -> float:
    result = re.search(rf"{after} *([\d.]+)", text)
    assert result is not None, text
    return float(result[1])


@pytest.mark.slow
@pytest.mark.engines
@pytest.mark.timeout(200)
def test_lesson_on_placement_does_what_it_says_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    notebook = run("01_placement", tmp_path)

    assert "Cluster ready: ps=1 worker=2" in printed(notebook, "start")
    assert "<svg" in printed(notebook, "place")
    ran = printed(notebook, "run")
    assert re.search(r"w/read:0 +-> /job:worker/task:0 +2,560 bytes", ran)  # 64 x 10
    assert ">w  2.6 kB</text>" in ran
    assert "Measured: 2,600 bytes" in printed(notebook, "reveal")
    assert "Not yet: 1,600,000 bytes moved" in printed(notebook, "work")
    assert "Right. 8 bytes moved" in printed(notebook, "work-solution-answer")
    arrays = printed(notebook, "array")
    assert "computed on {'/job:worker/replica:0/task:1/device:" in arrays
    assert arrays.rstrip().endswith("True")
    wrong = printed(notebook, "wrong")
    assert "[?, 64] and cannot be fed a value of [96, 32]" in wrong
    assert "PlacementError: no task is called '/job:worker/task:7'" in wrong
    assert "the first has 64 columns and the second 10 rows" in wrong
    assert "tower_1/" in printed(notebook, "towers")
    trained = printed(notebook, "train-towers")
    # w and b to each worker, and the gradient of each back.
    assert f"{2 * 2 * 650 * 4:,} bytes in a step" in trained
    assert number(trained, "in-graph: loss") < 0.5 < number(ran, "loss")
    between = printed(notebook, "between-run")
    assert "worker 0: loss" in between
    assert "worker 1: loss" in between
    later = number(between, "between-graph: loss")
    assert later < number(trained, "in-graph: loss")
    both = printed(notebook, "run-train")
    assert max(number(both, "ps +loss"), number(both, "ring loss")) < 0.5
    assert "the same to the last bit" in both
