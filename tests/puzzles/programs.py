"""The solutions of the puzzles in the notebooks, and mistakes in them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.notebooks.kernel import ROOT
from tests.notebooks.stored import read

FOLDER = ROOT / "notebooks" / "puzzles"
_SOLUTION = re.compile(
    r'```python\n(def .*?)\n\n\n\w+ = puzzles\.judge\("(.*?)"', re.DOTALL
)
_FIRST_WRONG = re.compile(
    r"(?:all|[\d,]+ of [\d,]+) elements are wrong, the first is \S+ and should be [^;]+"
)


class Mistake(NamedTuple):
    """What is changed in the solution of a puzzle, and what the judge says of it."""

    puzzle: str
    mistake: str
    changes: list[list[str]]
    says: str


@cache
def all_solutions() -> dict[str, list[str]]:
    """Return the programs by the names of their puzzles."""
    programs: dict[str, list[str]] = {}
    for path in sorted(FOLDER.glob("*.ipynb")):
        for cell in read(path).cells:
            if "solution" in cell.metadata.get("tags", []):
                match = _SOLUTION.search(cell.source)
                assert match is not None, cell.id
                programs.setdefault(match[2], []).append(match[1])
    return programs


def solutions() -> dict[str, str]:
    """Return the first program of each puzzle."""
    return {name: programs[0] for name, programs in all_solutions().items()}


def program(source: str) -> Callable[[Any], None]:
    """Return the function that a text defines, as if it were written in a notebook."""
    names: dict[str, Any] = {"np": np, "__name__": "__main__"}
    name = source.split("(")[0].removeprefix("def ")
    exec(compile(source, f"<{name}>", "exec"), names)
    result: Callable[[Any], None] = names[name]
    return result


@cache
def mistakes() -> list[Mistake]:
    """Return all recorded mistakes, of which the file has one a line."""
    text = (Path(__file__).parent / "mistakes.json").read_text("utf-8")
    return [Mistake(**load) for load in json.loads(text)]


def mistaken(mistake: Mistake) -> str:
    """Return a solution with a mistake in it."""
    source = solutions()[mistake.puzzle]
    for old, new in mistake.changes:
        assert old in source, mistake
        source = source.replace(old, new)
    return source


def without_numbers(words: str) -> str:
    """Return what is said without the numbers that depend on how numpy rounds."""
    return _FIRST_WRONG.sub("elements are wrong", words)
