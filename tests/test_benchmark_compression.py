"""The benchmark of compressed gradients runs, and sends the bytes that it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import compression


@pytest.mark.slow
def test_small_benchmark_runs_and_writes_its_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "figures.json"
    monkeypatch.setattr(compression, "SHAPE", (30, 20))
    monkeypatch.setattr(compression, "SPEED", "10mbit")
    monkeypatch.setattr("sys.argv", ["compression", "--quick", "--json", str(path)])

    compression.main()

    figures = json.loads(path.read_text("utf-8"))["figures"]["2 workers"]
    n_bytes = {name: item["bytes"] for name, item in figures.items()}
    # Two workers on a ring send each array once in all: 600 elements of float32.
    assert n_bytes == {
        "none": 2400,
        "float16": 1200,
        "int8": 600 + 4,
        "TopK(0.01)": 6 * (4 + 4),
        "PowerSGD(4)": 4 * 4 * (30 + 20),
    }
    for name, row in figures.items():
        assert row["formula"] == pytest.approx(8 * n_bytes[name] / 10e6, rel=0.01)
        assert min(row["measured"]) >= 0.9 * row["formula"]
