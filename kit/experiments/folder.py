"""The folder of a sweep: two small files for each combination that was run.

    sweep.json    {"format": 2}
    0000.json     {"parameters": {...}, "state": "done", "result": {...}}
    0000.curve    the loss and all measures by step

Files are numbered as they come, and known by the parameters in them. So a folder
grows: a sweep with more values, more repeats or other parameters adds to it. Each file
is written whole or not at all, so an interrupted sweep goes on where it was. The files
hold only text, numbers and nulls; reading them never executes anything.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from kit.errors import DataLossError, NotFoundError, VersionMismatch
from kit.experiments.curve_file import read_curves, write_curves
from kit.experiments.results import REPEAT, Sweep, Trial
from kit.regular_file import read_regular, user_path
from kit.trace.file import write_atomically

FORMAT = 2
_HEAD = "sweep.json"
_MOST_BYTES = 1 << 20


class SweepFolder:
    """The results of sweeps on disk."""

    def __init__(self, path: str | os.PathLike[str], *, is_new: bool = True) -> None:
        """Make the folder, or go on with the one of an earlier call.

        Raises `DataLossError` for a damaged file, `VersionMismatch` for one of another
        version, `NotFoundError` where there is none unless it may be new, and `OSError`
        as the file system gives it.
        """
        self.path = user_path(path, "a folder for a sweep")
        head = self.path / _HEAD
        if head.exists():
            version = _read(head).get("format")
            if version != FORMAT:
                raise VersionMismatch(
                    f"{self.path} holds a sweep of format {version}, and format "
                    f"{FORMAT} is read here; use another folder, or the version that "
                    f"wrote it."
                )
        elif is_new:
            self.path.mkdir(parents=True, exist_ok=True)
            self._write(head, {"format": FORMAT})
        else:
            raise NotFoundError(
                f"{self.path} holds no sweep; give the folder= of a kit.sweep."
            )
        self._files = {_key(kept["parameters"]): path for path, kept in self._kept()}

    def fill(self, trial: Trial) -> None:
        """Take a trial's result from its file if there is one, and it is done."""
        path = self._files.get(_key(trial.parameters))
        if path is not None:
            _take(path, _read(path), trial)

    def trials(self) -> list[Trial]:
        """Return all that were kept, those of the same parameters side by side."""
        trials = []
        for path, kept in self._kept():
            error = str(kept.get("error", ""))
            trial = Trial(kept["parameters"], error=error, is_new=False)
            _take(path, kept, trial)
            trial.state = str(kept.get("state"))
            trials.append(trial)
        return sorted(trials, key=lambda trial: json.dumps(trial.parameters))

    def _kept(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        for path in sorted(self.path.glob("*.json")):
            if path.name == _HEAD:
                continue
            kept = _read(path)
            if not isinstance(kept.get("parameters"), dict):
                raise _damaged(path, "it has no parameters")
            yield path, kept

    def keep(self, trial: Trial) -> None:
        """Write how a trial ended; the curves first, since the result says it has."""
        key, number = _key(trial.parameters), len(self._files)
        if key not in self._files:
            while (path := self.path / f"{number:04}.json").exists():
                number += 1
            self._files[key] = path
        path = self._files[key]
        if trial.curves is not None:
            write_curves(path.with_suffix(".curve"), trial.curves)
        result = {key: _plain(value) for key, value in trial.result.items()}
        about = {"parameters": trial.parameters, "state": trial.state}
        self._write(path, {**about, "result": result, "error": trial.error})

    def _write(self, path: Path, value: dict[str, Any]) -> None:
        text = json.dumps(value, allow_nan=False, indent=1)
        write_atomically(path, [text, "\n"])


def load_sweep(folder: str | os.PathLike[str]) -> Sweep:
    """Return all that sweeps have kept in a folder, without a cluster.

    Parameters
    ----------
    folder : str or PathLike
        The `folder=` of one or more calls of `kit.sweep`.

    Returns
    -------
    Sweep
        Its trials have no runs; `frame()`, `best()` and `bands()` work as ever.

    Raises
    ------
    NotFoundError
        The folder holds no sweep.
    DataLossError
        A file of it is damaged; the error names it.
    """
    kept = SweepFolder(folder, is_new=False)
    return Sweep(kept.trials(), str(kept.path))


def _take(path: Path, stored: dict[str, Any], trial: Trial) -> None:
    """Take over a result that is done."""
    result = stored.get("result")
    if not isinstance(result, dict):
        raise _damaged(path, "it has no result")
    if stored.get("state") != "done":
        return
    trial.state, trial.is_new = "done", False
    trial.result = {k: math.nan if v is None else v for k, v in result.items()}
    with suppress(FileNotFoundError):
        trial.curves = read_curves(path.with_suffix(".curve"))


def _damaged(path: Path, why: str) -> DataLossError:
    return DataLossError(
        f"{path} is damaged: {why}; delete it, and that combination is run again."
    )


def _plain(value: object) -> object:
    """Return a value as JSON has it, which has no NaN."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _own(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return them as in a sweep without repeats, if it is the first one."""
    return {k: v for k, v in parameters.items() if (k, v) != (REPEAT, 0)}


def _key(parameters: dict[str, Any]) -> str:
    return json.dumps(_own(parameters), sort_keys=True)


def _read(path: Path) -> dict[str, Any]:
    try:
        stored = json.loads(read_regular(path, _MOST_BYTES, DataLossError))
    except ValueError as error:
        raise DataLossError(
            f"{path} is damaged ({error}); delete it, and what it held is run again."
        ) from error
    if not isinstance(stored, dict):
        raise DataLossError(f"{path} is damaged: it holds no object.")
    return stored
