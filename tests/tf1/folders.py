"""Folders for cases that save: an empty one each, whose path is not told.

Runs under the interpreters of the recorded systems too, so it stays with the syntax of
Python 3.7.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


def in_folder(body: Callable[[Path], Any]) -> Callable[[], Any]:
    """Return a case that has an empty folder, and tells no absolute path."""

    def case() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            return without(folder, body(Path(folder)))

    return case


def without(folder: str, value: Any) -> Any:
    """Put a sign in the place of the folder, in texts of any depth."""
    if isinstance(value, str):
        return value.replace(folder, "<folder>")
    if isinstance(value, list):
        return [without(folder, item) for item in value]
    return value


def files(folder: Path) -> list[str]:
    """Tell the names of the files in a folder and below, sorted."""
    result = (path for path in folder.rglob("*") if not path.is_dir())
    return sorted(str(path.relative_to(folder)) for path in result)


def checkpoints(folder: Path) -> list[str]:
    """Tell the names of the checkpoints that are there, without their endings."""
    return sorted(name[: -len(".index")] for name in files(folder) if ".index" in name)
