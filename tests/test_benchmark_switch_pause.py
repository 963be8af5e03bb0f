"""The benchmark of the pause for a switch runs, and sorts its times rightly."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.rank_group import ROOT
from benchmarks.switch_pause import pauses_s
from kit.trace.log import rows
from kit.trace.named_rows import EpochRow
from kit.trace.trace import Trace
from kit.trace.traffic import STEP

MS = 1_000_000


def test_the_pause_is_from_the_last_end_to_the_first_begin_across_a_switch() -> None:
    times = [  # step, task, begin and end in ms; a switch before step 2
        *((0, 0, 0, 10), (0, 1, 1, 12)),
        *((1, 0, 11, 20), (1, 1, 13, 24)),
        *((2, 0, 31, 40), (2, 1, 30, 41)),
    ]
    table = [
        (task, step, 1, 0.0, 1, begin * MS, end * MS, 0, 0, 0)
        for step, task, begin, end in times
    ]
    epochs = (EpochRow(1, "ps", 0, 0, ""), EpochRow(2, "ring", 2, 29 * MS, ""))

    trace = Trace(("worker:0", "worker:1"), steps=rows(STEP, table), epochs=epochs)

    assert pauses_s(trace) == pytest.approx([0.006])


@pytest.mark.slow
def test_small_benchmark_runs_and_writes_its_figures(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    options = ["--model", "6-5-3", "--switches", "4", "--json", str(path)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.switch_pause", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=90,
    )

    assert done.returncode == 0, done.stderr
    figures = json.loads(path.read_text())["figures"]["6-5-3"]
    assert len(figures["pauses"]) == 4
    assert "| 6-5-3 |" in done.stdout
