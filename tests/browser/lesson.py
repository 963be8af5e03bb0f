"""A lesson for the browser tests: a copy, with cells that are known by name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from tests.browser.lab import ROOT, command

HELLO = "00_hello_cluster.ipynb"
KERNEL = {"name": "python3", "display_name": "Python 3"}
EMPTY: dict[str, Any] = {
    "metadata": {"kernelspec": KERNEL},
    "nbformat": 4,
    "nbformat_minor": 5,
}


class Lesson:
    """A copy of a notebook in a folder that JupyterLab serves."""

    def __init__(self, path: Path, content: dict[str, Any]) -> None:
        self.path, self._content = path, content
        path.write_text(json.dumps(content))

    @classmethod
    def copied(cls, folder: Path, name: str = HELLO) -> Lesson:
        """Copy a notebook of ours there, with the checks of its exercises."""
        shutil.copy(ROOT / "notebooks" / "checks.py", folder)
        content = json.loads((ROOT / "notebooks" / name).read_text("utf-8"))
        return cls(folder / Path(name).name, content)

    @classmethod
    def of(cls, folder: Path, cells: dict[str, str]) -> Lesson:
        """Make a notebook of these cells, by their names."""
        code = [_code(cell_id, source) for cell_id, source in cells.items()]
        return cls(folder / "cells.ipynb", EMPTY | {"cells": code})

    def add(self, cell_id: str, source: str, *, after: str) -> None:
        """Put one more cell into the copy."""
        self._content["cells"].insert(self._place(after) + 1, _code(cell_id, source))
        self.path.write_text(json.dumps(self._content))

    def run(self, page: Page, first: str, last: str = "") -> None:
        """Begin to run the cells from `first` to `last`, as with Shift+Enter."""
        self.select(page, first)
        for _ in range(self._place(last or first) - self._place(first) + 1):
            command(page, "notebook:run-cell-and-select-next")

    def select(self, page: Page, cell_id: str) -> None:
        """Make a cell the active one."""
        position = self._place(cell_id)
        page.evaluate(
            f"jupyterapp.shell.currentWidget.content.activeCellIndex = {position}"
        )

    def _place(self, cell_id: str) -> int:
        return [cell["id"] for cell in self._content["cells"]].index(cell_id)


def _code(cell_id: str, source: str) -> dict[str, Any]:
    cell = {"cell_type": "code", "id": cell_id, "source": source}
    empty: dict[str, Any] = {"metadata": {}, "execution_count": None, "outputs": []}
    return cell | empty
