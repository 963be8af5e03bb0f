"""What a benchmark leaves behind: a JSON file, and a table in plain Markdown."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

FOLDER = Path(__file__).parent / "results"


class Table(NamedTuple):
    """One table: a title, what one must know to read it, a head and rows of cells."""

    title: str
    notes: tuple[str, ...]
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def to_markdown(self) -> str:
        """Return the table as Markdown.

        >>> print(Table("T", ("a note",), ("a", "b"), (("1", "2"),)).to_markdown())
        ## T
        <BLANKLINE>
        a note
        <BLANKLINE>
        | a | b |
        |---|---|
        | 1 | 2 |
        """
        lines = [f"## {self.title}", ""]
        for note in self.notes:
            lines += [note, ""]
        lines += [_line(self.head), "|" + "---|" * len(self.head)]
        return "\n".join(lines + [_line(row) for row in self.rows])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def arguments(about: str) -> argparse.ArgumentParser:
    """Return a parser with what all benchmarks understand."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", action="store_true", help="fewer sizes and rounds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write figures here")
    parser.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="PATH",
        help="an interpreter whose environment has peers; may be repeated",
    )
    return parser


def report(table: Table, figures: dict[str, Any], path: Path | None) -> None:
    """Print the table; write it and the figures to `path`, if there is one."""
    print(table.to_markdown(), flush=True)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = {"machine": machine(), "table": table._asdict(), "figures": figures}
        path.write_text(json.dumps(whole, indent=1) + "\n")


def machine() -> dict[str, str]:
    """Return what must be known of the machine to judge its figures."""
    from kit.exchange.execution.native_executor import loop
    from kit.settings import current

    return {
        "cores": str(len(os.sched_getaffinity(0))),
        "processor": platform.machine(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "compiled loop": "yes" if current().native and loop() else "no",
    }


def median(values: Sequence[float]) -> float:
    """Return the median; NaN of nothing.

    >>> median([3.0, 1.0, 2.0])
    2.0
    """
    return statistics.median(values) if values else float("nan")


def size_text(n_bytes: int) -> str:
    """Return a size in whole binary units.

    >>> size_text(4096), size_text(3 << 20), size_text(100)
    ('4 KiB', '3 MiB', '100 B')
    """
    for shift, unit in ((20, "MiB"), (10, "KiB")):
        if n_bytes >= 1 << shift:
            return f"{n_bytes >> shift} {unit}"
    return f"{n_bytes} B"


def ratio(over: float, under: float) -> str:
    """Return a ratio with two digits, "-" where one of the two is missing.

    >>> ratio(3.0, 2.0), ratio(1.0, float("nan"))
    ('1.50', '-')
    """
    value = over / under if under else float("nan")
    return "-" if value != value else f"{value:.2f}"
