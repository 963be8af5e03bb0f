"""The benchmark of the board at a tiny size. Nothing here is timed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import board
from tests.zygote import forking

ROOT = Path(__file__).parents[1]


class Client:
    """A kernel's client whose kernel prints, opens a widget and then fails."""

    def __init__(self, status: str) -> None:
        self._status = status

    def execute_interactive(self, line: str, timeout: float, output_hook: Any) -> Any:
        for text in ("4", "2"):
            stream = {"msg_type": "stream", "content": {"text": text}, "buffers": []}
            output_hook(stream)
        output_hook({"msg_type": "comm_msg", "content": {}, "buffers": [b"abc"]})
        output_hook({"msg_type": "status", "content": {"a": "b"}, "buffers": []})
        return {"content": {"status": self._status, "ename": "E", "evalue": "no"}}


def test_a_row_tells_the_middle_ratio_and_the_extremes() -> None:
    rates = {"off": [100.0, 200.0, 50.0], "on": [90.0, 200.0, 25.0], "sent": [4e4, 6e4]}
    rates |= {"cost off": [0.02, 0.04], "cost on": [0.05]}

    assert board.pairs(rates) == [0.9, 1.0, 0.5]
    assert board.rows({"ps": rates}) == (
        ("ps", "100", "90", "0.900", "0.500 to 1.000", "3.0 % and 5.0 %", "50 kB"),
    )


def test_a_line_gives_what_it_prints_and_what_it_sends_is_counted() -> None:
    kernel = board.Kernel(Client("ok"))

    assert kernel.run("print(6 * 7)") == "42"
    assert kernel.n_bytes == len("{}") + 3


def test_a_line_that_fails_ends_the_benchmark() -> None:
    with pytest.raises(RuntimeError, match=r"^1 / 0: E: no$"):
        board.Kernel(Client("error")).run("1 / 0")


@forking()
@pytest.mark.slow
@pytest.mark.engines
def test_a_board_is_open_in_every_second_stretch(tmp_path: Path) -> None:
    options = "--topologies ps --workers 2 --steps 150 --rounds 1 --json all.json"
    command = [sys.executable, "-m", "benchmarks.board", *options.split()]
    command[-1] = str(tmp_path / "all.json")

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=90)

    assert done.returncode == 0, done.stderr
    figures = json.loads((tmp_path / "all.json").read_text())["figures"]
    rates = figures["steps_per_second"]["ps"]
    for kind in ("off", "on", "cost off", "cost on"):
        assert len(rates[kind]) == 1
        assert rates[kind][0] > 0
    assert rates["sent"][0] > 1000  # bytes a second: more than the controls alone
