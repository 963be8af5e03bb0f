"""The curve of a training beside its checkpoints, for the one that goes on from them.

The notebook writes it, at each checkpoint that it hears of and at the end. Where it
cannot reach the folder, a training that resumes has the curve of its own steps alone.
"""

from __future__ import annotations

from concurrent.futures import wait
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Final

from kit.errors import DataLossError
from kit.experiments.comparison import outcome_of
from kit.experiments.curve_file import read_curves, write_curves
from kit.training.client.run import Run

NAME: Final = "curve.json"
_LOOK_S: Final = 2.0


def follow(run: Run) -> None:
    """Take the curve that is in the folder of a run, and keep writing the whole one."""
    path = Path(run.job.checkpoints.folder) / NAME
    with suppress(OSError, DataLossError):
        run.earlier = read_curves(path)
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
    with suppress(OSError):
        write_curves(path, outcome_of(run, "").curves())
