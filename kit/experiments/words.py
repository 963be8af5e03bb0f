"""Rows as a table: as text for a terminal, as HTML for a notebook.

Pure. Columns without any known value are left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from kit.markup import Html, rows_table
from kit.trace.traffic import Phase

Row = Mapping[str, object]

#: What a column is called, with its unit apart.
HEADS = {
    "loss": "last loss",
    "bytes_per_step": "bytes a step",
    "ms_per_step": "a step [median ms]",
    "steps_per_second": "steps a second",
    "seconds": "measured over [s]",
} | {f"{phase.name.lower()}_ms": f"{phase.name.lower()} [ms a step]" for phase in Phase}


def headed(rows: Sequence[Row]) -> list[dict[str, object]]:
    """Return rows with headings for people, without columns that say nothing.

    >>> nan = float("nan")
    >>> headed([{"run": "a", "ms_per_step": 2.0, "send_ms": nan, "error": ""}])
    [{'run': 'a', 'a step [median ms]': 2.0}]
    """
    names = dict.fromkeys(name for row in rows for name in row)
    columns = [name for name in names if any(is_known(row.get(name)) for row in rows)]
    return [{HEADS.get(name, name): row.get(name) for name in columns} for row in rows]


def is_known(value: object) -> bool:
    """Whether a cell says anything: not NaN, None or an empty text."""
    if isinstance(value, float):
        return not math.isnan(value)
    return value is not None and value != ""


def cell(value: object) -> str:
    """Return a value as text: whole numbers in full, others with four digits.

    >>> cell(1234), cell(0.123456), cell(9876.5), cell(float("nan")), cell("ring")
    ('1,234', '0.1235', '9,876', '-', 'ring')
    """
    if not is_known(value):
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def text_table(rows: Sequence[Row]) -> str:
    """Return rows as lines of text, with a heading for each column.

    >>> print(text_table([{"run": "ps", "steps": 20}, {"run": "ring", "steps": 5}]))
    run   steps
    ps       20
    ring      5
    """
    shown = headed(rows)
    if not shown:
        return ""
    lines = [
        list(shown[0]),
        *([cell(value) for value in row.values()] for row in shown),
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    is_text = [isinstance(value, str) for value in shown[0].values()]
    return "\n".join(
        "  ".join(
            f"{part:<{width}}" if left else f"{part:>{width}}"
            for part, width, left in zip(line, widths, is_text, strict=True)
        ).rstrip()
        for line in lines
    )


def html_table(rows: Sequence[Row], caption: str) -> Html:
    """Return rows as an HTML table; the first column has the headings of the rows."""
    shown = headed(rows)
    heads = list(shown[0]) if shown else []
    return rows_table(
        caption, heads, ([cell(v) for v in row.values()] for row in shown)
    )
