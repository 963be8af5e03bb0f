"""`make demo`, as a user runs it, with few steps."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kit.__main__ import main
from kit.trace.trace import Trace
from tests.zygote import forking

pytestmark = [pytest.mark.slow, pytest.mark.engines]


@pytest.mark.timeout(330)
def test_the_demo_keeps_its_promises_and_writes_its_files(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    command = [sys.executable, "-m", "kit", "demo", "--out", str(tmp_path)]
    options = ["--steps", "330", "--text-steps", "4", "--json", str(figures)]

    with forking():
        done = subprocess.run(
            [*command, *options], capture_output=True, text=True, timeout=300
        )

    assert done.returncode == 0, done.stderr + done.stdout
    assert "agrees with the formulas" in done.stdout
    result = json.loads(figures.read_text())
    assert [row["topology"] for row in result["phases"]][:3] == ["ps", "ring", "ps"]
    assert [row["steps"] for row in result["phases"]] == [110, 110, 110, 330, 2, 2]
    assert result["phases"][2]["accuracy"] >= 0.96
    assert all(
        row["sent"] == row["sent, formula"]
        and row["received"] == row["received, formula"]
        for row in result["traffic"]
    )
    assert [row["task"] for row in result["placement"]] == ["ps:0"] * 6
    assert [row["style"] for row in result["replicated"]] == [
        "in one graph",
        "between graphs",
    ]
    assert all(
        row["bytes a step"] == row["by formula"] > 0 for row in result["replicated"]
    )
    (recovered,) = result["recovered"]
    assert recovered["at step"] == recovered["went on from"] + recovered["steps lost"]
    assert recovered["last step"] >= 1000
    assert "restored the checkpoint of step" in done.stdout
    assert (tmp_path / "trainer" / "worker0.log").exists()
    assert result["problems"] == []
    report = (tmp_path / "report.html").read_text()
    assert "<script src" not in report
    assert "lost its server ps:1" in report
    trace = Trace.load(tmp_path / "trace.json")
    assert [switch.label for switch in trace.switches()] == ["ps to ring", "ring to ps"]


def test_a_link_speed_that_cannot_be_read_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["demo", "--link", "fast", "--out", str(tmp_path)])

    assert code == 2
    message = capsys.readouterr().err
    assert "'fast'" in message
    assert "1gbit" in message
    assert "Traceback" not in message
