"""The benchmark of the pause for a checkpoint runs, and sorts its times rightly."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.checkpoint_pause import EVERY, measured
from benchmarks.rank_group import ROOT
from kit.trace.log import rows
from kit.trace.named_rows import SaveRow
from kit.trace.trace import Trace
from kit.trace.traffic import STEP

MS = 1_000_000


def test_pause_is_what_a_due_gap_is_longer_than_the_others() -> None:
    """Steps take 10 ms, gaps 1 ms; where a save is due one worker takes 5 ms more."""
    table, now = [], 0
    for step in range(2 * EVERY + 2):
        begin, now = now, now + 10 * MS
        for task in (0, 1):
            copy_s = 0.002 if task else 0.003
            table.append((task, step, 1, copy_s, 1, begin, now, 0, 0, 0))
        now += MS + (5 * MS if (step + 1) % EVERY == 0 else 0)
    first_begin = EVERY * 11 * MS
    saves = (
        SaveRow(EVERY, first_begin, first_begin + 20 * MS, ""),
        SaveRow(2 * EVERY, 10**12, 10**12, "no space"),
    )

    result = measured(
        Trace(("worker:0", "worker:1"), steps=rows(STEP, table), saves=saves)
    )

    assert result.pauses == pytest.approx([0.005, 0.005])
    assert set(result.copies) == {0.003}
    assert len(result.beside) == 2
    assert result.steps == pytest.approx([0.010] * (2 * EVERY + 2 - 1 - 2))
    assert (result.saved, result.refused) == (1, 1)


@pytest.mark.slow
def test_small_benchmark_runs_and_writes_its_figures(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    options = ["--sizes", "65536", "--saves", "2", "--json", str(path)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.checkpoint_pause", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert done.returncode == 0, done.stderr
    figures = json.loads(path.read_text())["figures"]["64 KiB"]
    assert len(figures["pauses"]) == 2
    assert figures["saved"] >= 1
    assert min(figures["copies"]) > 0
    assert "| 64 KiB |" in done.stdout
