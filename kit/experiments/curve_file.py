"""The curves of a run in a file: JSON, a list of numbers for each column."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from kit.errors import DataLossError
from kit.experiments.summary import Curves
from kit.regular_file import read_regular
from kit.trace.file import write_atomically
from kit.trace.trace import Floats

_MOST_BYTES: Final = 1 << 28


def write_curves(path: Path, curves: Curves) -> None:
    """Write curves; `OSError` as the file system gives it."""
    columns = asdict(curves)
    measures = {k: _plain(v) for k, v in columns.pop("measures").items()}
    plain = {name: _plain(column) for name, column in columns.items()}
    write_atomically(path, [json.dumps({**plain, "measures": measures})])


def _plain(column: Any) -> list[float | None]:
    """Return numbers as JSON has them, which has no NaN."""
    return [number if np.isfinite(number) else None for number in column.tolist()]


def read_curves(path: Path) -> Curves:
    """Return curves; `DataLossError` for a file that holds none, and `OSError`."""
    try:
        plain = json.loads(read_regular(path, _MOST_BYTES, DataLossError))
        measures = {str(k): _column(v) for k, v in plain.pop("measures").items()}
        columns: dict[str, Any] = {k: _column(v) for k, v in plain.items()}
        if (
            len({len(column) for column in (*measures.values(), *columns.values())})
            != 1
        ):
            raise ValueError("columns of different lengths")
        curves_read = Curves(measures=measures, **columns)
        return replace(curves_read, step=curves_read.step.astype(np.int64))
    except (AttributeError, TypeError, ValueError) as error:
        raise DataLossError(f"{path} is damaged: {error}.") from error


def _column(values: list[float | None]) -> Floats:
    return np.array(values, np.float64)
