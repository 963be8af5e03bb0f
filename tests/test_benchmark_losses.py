"""The benchmark of losses runs, and every loss that it counts has happened."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.rank_group import ROOT
from tests.zygote import forking


@forking()
@pytest.mark.slow
def test_small_benchmark_runs_and_writes_its_figures(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    options = ["--quick", "--model", "small", "--kills", "2", "--turns", "1"]

    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.losses", *options, "--json", str(path)],
        cwd=ROOT,
        text=True,
        capture_output=True,
        timeout=120,
    )

    assert done.returncode == 0, done.stderr
    figures = json.loads(path.read_text("utf-8"))["figures"]["small"]
    assert [kill["task"] for kill in figures["kills"]] == ["ps:0", "worker:0"]
    assert all(kill["seconds"] > 0 for kill in figures["kills"])
    rates = figures["rates"]
    assert [len(rates[kind]) for kind in ("elastic", "plain")] == [1, 1]
    assert all(rate > 0 for turns in rates.values() for rate in turns)
