"""The round trip benchmark runs from end to end, and notices a wrong answer."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import roundtrip
from benchmarks.rank_group import ROOT
from benchmarks.roundtrip_rank import Rank
from tests.zygote import forking

N_BYTES = 2**19


@forking()
@pytest.mark.slow
def test_every_way_to_ask_is_in_the_table_and_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    command = [sys.executable, "-m", "benchmarks.roundtrip", "--json", str(path)]
    sizes = ["--sizes", "8", str(N_BYTES), "--rounds", "1"]
    done = subprocess.run(
        [*command, *sizes], cwd=ROOT, capture_output=True, text=True, timeout=90
    )

    assert done.returncode == 0, done.stderr
    result = json.loads(path.read_text())["figures"]["microseconds"]
    assert set(result) == {"8", str(N_BYTES)}
    for took in result.values():
        assert set(took) == {"copy", *roundtrip.SYSTEMS}
        assert all(us > 0 for values in took.values() for us in values)
    assert "| 512 KiB |" in done.stdout


def test_a_wrong_answer_ends_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    near, far = socket.socketpair()
    monkeypatch.setenv("BENCH_PEERS", f"-1,{near.fileno()}")
    rank = Rank(0, "socket")
    near.detach()
    far.sendall(b"not that")

    with pytest.raises(ValueError, match="8 bytes came back"):
        rank.measure(8, 1)
    far.close()
    rank.close()


def test_ratios_are_to_the_bare_socket() -> None:
    row = roundtrip.row_of(
        8, {name: [2.0] for name in ("copy", *roundtrip.SYSTEMS)} | {"frames": [3.0]}
    )

    assert row[0] == "8 B"
    assert row[-3:] == ("1.50", "1.00", "1.00")
