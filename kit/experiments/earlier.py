"""The curve of a training beside its checkpoints, for the one that goes on from them.

The notebook writes it, at each checkpoint that it hears of and at the end. Where it
cannot reach the folder, a training that resumes has the curve of its own steps alone.
"""

from __future__ import annotations

import json
from concurrent.futures import wait
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from threading import Thread
from typing import Final

import numpy as np

from kit.errors import DataLossError
from kit.experiments.comparison import outcome_of
from kit.experiments.summary import Curves
from kit.regular_file import read_regular
from kit.trace.file import write_atomically
from kit.training.client.run import Run

NAME: Final = "curve.json"
_MOST_BYTES, _LOOK_S = 1 << 28, 2.0


def follow(run: Run) -> None:
    """Take the curve that is in the folder of a run, and keep writing the whole one."""
    path = Path(run.job.checkpoints.folder) / NAME
    with suppress(OSError, DataLossError):
        run.earlier = _read(path)
    if not run.source.at_end(lambda error: _write(run, path)):
        _write(run, path)
        return
    Thread(target=_at_saves, args=(run, path), name="kit-curve", daemon=True).start()


def _at_saves(run: Run, path: Path) -> None:
    saved = None
    while not wait([run.source.finished], _LOOK_S).done:
        if run.checkpoints.last != saved:
            saved = run.checkpoints.last
            _write(run, path)


def _write(run: Run, path: Path) -> None:
    found = asdict(outcome_of(run, "").curves())
    measures = {k: _plain(v) for k, v in found.pop("measures").items()}
    plain = {name: _plain(column) for name, column in found.items()}
    with suppress(OSError):
        write_atomically(path, [json.dumps({**plain, "measures": measures})])


def _plain(column: np.ndarray) -> list[float | None]:
    """Return numbers as JSON has them, which has no NaN."""
    return [one if np.isfinite(one) else None for one in column.tolist()]


def _read(path: Path) -> Curves:
    """Return a curve; `DataLossError` for a file that holds none."""
    try:
        plain = json.loads(read_regular(path, _MOST_BYTES, DataLossError))
        measures = {str(k): _column(v) for k, v in plain.pop("measures").items()}
        columns = {k: _column(v) for k, v in plain.items()}
        if len({len(one) for one in (*measures.values(), *columns.values())}) != 1:
            raise ValueError("columns of different lengths")
        found = Curves(measures=measures, **columns)
        return replace(found, step=found.step.astype(np.int64))
    except (AttributeError, TypeError, ValueError) as error:
        raise DataLossError(f"{path} is damaged: {error}.") from error


def _column(values: list[float | None]) -> np.ndarray:
    return np.array(values, np.float64)
