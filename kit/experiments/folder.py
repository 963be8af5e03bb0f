"""The folder of a sweep: what was asked for, and one small file for each result.

    sweep.json    {"format": 1, "grid": {"topology": ["ps", "ring"], ...}, "repeat": 1}
    0000.json     {"parameters": {...}, "state": "done", "result": {...}, "error": ""}
    0001.json

Each file is written whole or not at all, so an interrupted sweep goes on where it was.
The files hold only text, numbers and nulls; reading them never executes anything.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kit.errors import DataLossError, FailedPreconditionError, VersionMismatch
from kit.experiments.results import Trial
from kit.regular_file import read_regular, user_path
from kit.trace.file import write_atomically

FORMAT = 1
_HEAD = "sweep.json"
_MOST_BYTES = 1 << 20

Plan = Mapping[str, Any]


class SweepFolder:
    """The results of one sweep on disk."""

    def __init__(self, path: str | os.PathLike[str], grid: Plan, repeat: int) -> None:
        """Make the folder, or go on with the one of an earlier call of the same sweep.

        Raises `FailedPreconditionError`, saying what differs, if it is another sweep's,
        `DataLossError` for a damaged file, `VersionMismatch` for one of a newer
        version, and `OSError` as the file system gives it.
        """
        self.path = user_path(path, "a folder for a sweep")
        self.path.mkdir(parents=True, exist_ok=True)
        asked = {"format": FORMAT, "grid": dict(grid), "repeat": repeat}
        if (self.path / _HEAD).exists():
            self._check(_read(self.path / _HEAD), asked)
        else:
            self._write(_HEAD, asked)

    def _check(self, found: dict[str, Any], asked: dict[str, Any]) -> None:
        version = found.get("format")
        if version != FORMAT:
            raise VersionMismatch(
                f"{self.path} holds a sweep of format {version}, and format {FORMAT} "
                f"is read here; use another folder, or the version that wrote it."
            )
        before, now = found.get("grid"), asked["grid"]
        if not isinstance(before, dict):
            raise DataLossError(f"{self.path / _HEAD} is damaged: it has no grid.")
        # As JSON: a True and a 1 are equal in Python, but are different values here.
        differs = [
            f"{name} was {_listed(before, name)} and is {_listed(now, name)}"
            for name in dict.fromkeys([*before, *now])
            if json.dumps(before.get(name)) != json.dumps(now.get(name))
        ]
        # The order decides the numbers of the combinations, and so the files' names.
        if not differs and list(before) != list(now):
            order = f"{', '.join(before)} and is {', '.join(now)}"
            differs.append(f"the order of the parameters was {order}")
        if found.get("repeat") != asked["repeat"]:
            differs.append(f"repeat was {found.get('repeat')} and is {asked['repeat']}")
        if differs:
            raise FailedPreconditionError(
                f"{self.path} holds another sweep: {'; '.join(differs)}. Give another "
                f"folder, or delete this one if you do not need it."
            )

    def fill(self, number: int, trial: Trial) -> None:
        """Take a trial's result from its file if there is one, and it is done."""
        path = self.path / _name(number)
        if not path.exists():
            return
        found = _read(path)
        result, state = found.get("result"), found.get("state")
        if found.get("parameters") != trial.parameters or not isinstance(result, dict):
            raise DataLossError(
                f"{path} is damaged: it is not of {trial.name}; delete it, and that "
                f"combination is run again."
            )
        if state == "done":
            trial.state, trial.is_new = "done", False
            trial.result = {k: math.nan if v is None else v for k, v in result.items()}

    def keep(self, number: int, trial: Trial) -> None:
        """Write how a trial ended."""
        result = {key: _plain(value) for key, value in trial.result.items()}
        about = {"parameters": trial.parameters, "state": trial.state}
        self._write(_name(number), {**about, "result": result, "error": trial.error})

    def _write(self, name: str, value: dict[str, Any]) -> None:
        text = json.dumps(value, allow_nan=False, indent=1)
        write_atomically(self.path / name, [text, "\n"])


def _plain(value: object) -> object:
    """Return a value as JSON has it, which has no NaN."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _name(number: int) -> str:
    return f"{number:04}.json"


def _listed(grid: Mapping[str, Any], name: str) -> str:
    return json.dumps(grid[name]) if name in grid else "absent"


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_regular(path, _MOST_BYTES, DataLossError))
    except ValueError as error:
        raise DataLossError(
            f"{path} is damaged ({error}); delete it, and what it held is run again."
        ) from error
    if not isinstance(found, dict):
        raise DataLossError(f"{path} is damaged: it holds no object.")
    return found
