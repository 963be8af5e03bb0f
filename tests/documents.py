"""The programs in a document, taken out of it and run as a reader would run them."""

from __future__ import annotations

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
_TIMES, _NEAR, _POINTS = 50.0, 0.05, 20.0
_TOKENS = re.compile(
    r"(?P<time>[\d,]+(?:\.\d+)?)\s?(?P<unit>s|ms|us|µs)\b"
    r"|(?P<share>\d+)(?=\s?%)"
    r"|(?P<number>-?[\d,]*\d\.\d+(?:e[+-]?\d+)?)"
    r"|\.\.\.|\s+|\w+|."
)
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
    result: list[Shown] = []
    for kind, block in _FENCED.findall(text):
        if block.startswith("%"):
            continue
        if kind == "python" and _IMPORTS_KIT.search(block):
            result.append(Shown(block, ""))
        elif kind == "python":
            result[-1] = result[-1]._replace(program=result[-1].program + block)
        elif kind == "output":
            result[-1] = result[-1]._replace(output=result[-1].output + block)
    return result


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
    """Whether it is what a document shows, but for what was measured.

    A time may be any within a factor of `_TIMES`, since machines differ, a share any
    within `_POINTS`, and another number with a decimal point any within a quarter or
    `_NEAR`. `...` is anything, and a line may be broken.

    >>> is_as_shown("loss 0.031 after 950 us\\n", "loss 0.034 after 1.2 ms\\n")
    True
    >>> is_as_shown("70 %", "80 %"), is_as_shown("40 %", "80 %")
    (True, False)
    >>> is_as_shown("in 4 steps\\n", "in 5 steps\\n")
    False
    """
    pattern = ""
    # Each with the factor of a time, the points of a share below 0, or 0.
    measured: list[tuple[float, float]] = []
    for token in _TOKENS.finditer(shown.strip()):
        text = token[0]
        if token["time"]:
            measured.append((_seconds(*token.group("time", "unit")), _TIMES))
            pattern += r"([\d,]+(?:\.\d+)?)\s?(s|ms|us|µs)\b"
        elif token["share"]:
            measured.append((_value(text), -_POINTS))
            pattern += r"(\d+)()"
        elif token["number"]:
            measured.append((_value(text), 0.0))
            pattern += r"(-?[\d,]+(?:\.\d+)?(?:e[+-]?\d+)?)()"
        elif text == "...":
            pattern += ".*?"
        else:
            pattern += r"\s+" if text.isspace() else re.escape(text)
    match = re.fullmatch(pattern, printed.strip(), re.DOTALL)
    if match is None:
        return False
    groups = match.groups()
    return all(
        is_near(number, unit, wanted, times)
        for number, unit, (wanted, times) in zip(
            groups[::2], groups[1::2], measured, strict=True
        )
    )


def is_near(number: str, unit: str, wanted: float, times: float) -> bool:
    """Whether a number that was printed is near the one that is shown."""
    if times < 0:
        return abs(_value(number) - wanted) <= -times
    if times:
        return wanted / times <= _seconds(number, unit) <= wanted * times
    return abs(_value(number) - wanted) <= max(_NEAR, abs(wanted) / 4)


def _seconds(number: str, unit: str) -> float:
    return _value(number) * {"s": 1, "ms": 1e-3}.get(unit, 1e-6)


def _value(number: str) -> float:
    return float(number.replace(",", ""))
