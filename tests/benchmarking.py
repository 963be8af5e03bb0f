"""A benchmark as a program, run from end to end at a tiny size."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest

from benchmarks.rank_group import ROOT
from benchmarks.results import Table
from tests.zygote import forking


class Ended(NamedTuple):
    """What a benchmark has printed, and the figures in its file."""

    printed: str
    figures: dict[str, Any]

    @property
    def cells(self) -> list[str]:
        """The last row of its table."""
        return [cell.strip() for cell in self.printed.splitlines()[-1].split("|")[1:-1]]


@forking()
def printed_by(name: str, options: str, timeout_s: float = 90) -> str:
    """Run `python -m benchmarks.NAME`, and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", *options.split()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    if done.stderr.startswith("no two hosts: "):
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return done.stdout


def ended(name: str, options: str, timeout_s: float = 90) -> Ended:
    """Run a benchmark; the table that it prints is in the file of its figures too."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "new" / "figures.json"
        printed = printed_by(name, f"{options} --json {path}", timeout_s)
        kept = json.loads(path.read_text("utf-8"))
    assert Table(*kept["table"].values()).to_markdown() in printed
    return Ended(printed, kept["figures"])
