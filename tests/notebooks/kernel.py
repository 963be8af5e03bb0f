"""Run a notebook as its reader does: all cells in their order, in a fresh kernel."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # it loads for seconds, and whoever collects the tests loads this
    import nbformat

ROOT = Path(__file__).parents[2]
CELL_S = 90
KEEP = "KIT_LESSONS"  # the folder where docs/conf.py looks for what has run, if any


def read(path: Path) -> nbformat.NotebookNode:
    return parse(path.read_text("utf-8"))


def parse(text: str) -> nbformat.NotebookNode:
    import nbformat

    result = nbformat.reads(text, as_version=4)  # type: ignore[no-untyped-call]
    assert isinstance(result, nbformat.NotebookNode)
    return result


def of_one_cell(source: str) -> nbformat.NotebookNode:
    return of_cells([source])


def of_cells(sources: Sequence[str]) -> nbformat.NotebookNode:
    """Return a notebook of these cells of code, with their numbers as ids."""
    empty: dict[str, Any] = {"metadata": {}, "execution_count": None, "outputs": []}
    cells = [
        {"cell_type": "code", "id": str(number), "source": source, **empty}
        for number, source in enumerate(sources)
    ]
    version = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}}
    return parse(json.dumps({**version, "cells": cells}))


def sockets_in(folder: str) -> dict[str, Any]:
    """Return the settings of a kernel whose sockets are files in a folder.

    A port of TCP that is free when the manager looks may be taken when the kernel comes
    to it. The path of a socket may have 107 bytes.
    """
    return {"transport": "ipc", "ip": f"{folder}/kernel"}


def execute(
    cells: nbformat.NotebookNode, runtime: Path, folder: Path = ROOT / "notebooks"
) -> None:
    """Fill in the outputs; raises `CellExecutionError` for a cell that fails.

    The notebook lies in `folder`, and its clusters keep their files below `runtime`.
    """
    from nbclient import NotebookClient
    from traitlets.config import Config

    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    env = {**os.environ, "PYTHONPATH": path, "XDG_RUNTIME_DIR": str(runtime)}
    with tempfile.TemporaryDirectory() as sockets:
        client = NotebookClient(
            cells,
            timeout=CELL_S,
            kernel_name="python3",
            resources={"metadata": {"path": str(folder)}},
            config=Config({"KernelManager": sockets_in(sockets)}),
        )
        # Not `execute`: the loop that it makes is never closed.
        asyncio.run(client.async_execute(env=env))
    if kept := os.environ.get(KEEP):
        keep(cells, Path(kept))


def keep(executed: nbformat.NotebookNode, folder: Path) -> None:
    """Write what a notebook has shown, so that the site need not run it again."""
    import nbformat

    text = nbformat.writes(executed)  # type: ignore[no-untyped-call]
    name = hashlib.sha256(text.encode()).hexdigest()
    (folder / f"{name}.ipynb").write_text(text, "utf-8")


def lesson_with_answers(name: str) -> nbformat.NotebookNode:
    """Return a lesson with predictions locked in and solutions run."""
    from docs.answers import answer

    lesson = read(ROOT / "notebooks" / f"{name}.ipynb")
    answer(lesson)
    return lesson


def run(name: str, runtime: Path, *again: str) -> nbformat.NotebookNode:
    """Run a lesson; exercises are open, solutions right, and nothing is left.

    The cells `again` are run once more before the last one, with "-again" in their ids.
    """
    lesson = lesson_with_answers(name)
    twice = [deepcopy(cell) for cell in lesson.cells if cell.id in again]
    for cell in twice:
        cell.id += "-again"
    lesson.cells[-1:-1] = twice
    execute(lesson, runtime)
    for exercise, cell in pairwise(lesson.cells):
        if "solution" in cell.metadata.get("tags", []):
            assert "Not yet" in printed(lesson, exercise.id), exercise.id
            right = f"{cell.id}-answer"
            assert "Right. " in printed(lesson, right), right
    assert "Cluster stopped" in printed(lesson, "stop")
    assert [path for path in runtime.rglob("*") if not path.is_dir()] == []
    return lesson


def printed(whole: nbformat.NotebookNode, cell_id: str = "") -> str:
    """Return what a cell, or all of them, wrote as text or shows as HTML."""
    result = []
    for cell in whole.cells:
        if cell.cell_type != "code" or cell_id not in ("", cell.id):
            continue
        for output in cell.outputs:
            data = output.get("data", {})
            result.append(output.get("text") or data.get("text/html") or "")
    return "\n".join(result)
