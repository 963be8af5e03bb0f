"""The programs in a document, taken out of it and run as a reader would run them."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PROGRAM_S = 90
_FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_IMPORTS_KIT = re.compile(r"^(import kit$|from kit import )", re.MULTILINE)


class Shown(NamedTuple):
    """A program of a document, and all output that is shown of it."""

    program: str
    output: str


def fenced(text: str, kind: str) -> list[str]:
    """Return the blocks of one kind in Markdown, such as "python" or "sh"."""
    return [block for found, block in _FENCED.findall(text) if found == kind]


def programs(text: str) -> list[Shown]:
    """Return the programs; a block that imports kit begins one, others go on."""
    found: list[Shown] = []
    for kind, block in _FENCED.findall(text):
        if kind == "python" and _IMPORTS_KIT.search(block):
            found.append(Shown(block, ""))
        elif kind == "python":
            found[-1] = found[-1]._replace(program=found[-1].program + block)
        elif kind == "output":
            found[-1] = found[-1]._replace(output=found[-1].output + block)
    return found


def run(program: str, folder: Path) -> str:
    """Run a program in a process of its own; returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_RUNTIME_DIR": str(folder)},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def is_as_shown(printed: str, shown: str) -> bool:
    """Whether it is what a document shows, where `...` stands for anything.

    >>> is_as_shown("loss 0.031\\n", "loss 0.0...\\n")
    True
    """
    return doctest.OutputChecker().check_output(shown, printed, doctest.ELLIPSIS)
