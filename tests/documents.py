"""The programs in a document, taken out of it and run as a reader would run them."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.zygote import forking

ROOT = Path(__file__).parents[1]
PROGRAM_S = 150
_FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_IMPORTS_KIT = re.compile(r"^(import kit$|from kit import )", re.MULTILINE)


class Shown(NamedTuple):
    """A program of a document, and all output that is shown of it."""

    program: str
    output: str


def cells(text: str) -> list[str]:
    """Return the cells of a notebook: each begins with a magic."""
    return [block for _, block in _FENCED.findall(text) if block.startswith("%")]


def programs(text: str) -> list[Shown]:
    """Return the programs; a block that imports kit begins one, others go on.

    A block that begins with a magic is a cell of a notebook, and none of a program.
    """
    found: list[Shown] = []
    for kind, block in _FENCED.findall(text):
        if block.startswith("%"):
            continue
        if kind == "python" and _IMPORTS_KIT.search(block):
            found.append(Shown(block, ""))
        elif kind == "python":
            found[-1] = found[-1]._replace(program=found[-1].program + block)
        elif kind == "output":
            found[-1] = found[-1]._replace(output=found[-1].output + block)
    return found


def run(program: str, folder: Path) -> str:
    """Run a program in a process of its own; returns what it printed."""
    with forking():
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_RUNTIME_DIR": str(folder)},
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=PROGRAM_S,
            check=False,
        )
    if done.returncode or done.stderr:  # asserts are told in full in test files only
        raise AssertionError(f"it ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def is_as_shown(printed: str, shown: str) -> bool:
    """Whether it is what a document shows: `...` is anything, a line may be broken.

    >>> is_as_shown("loss 0.031\\n", "loss 0.0...\\n")
    True
    """
    how = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    return doctest.OutputChecker().check_output(shown, printed, how)
