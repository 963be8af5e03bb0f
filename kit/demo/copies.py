"""Copies of the lessons for a class: `python -m kit lessons copies FOLDER`.

    FOLDER/students   without solutions
    FOLDER/key        with the solutions unfolded
    FOLDER/slides     as `students`, with a slide for each heading, for
                      `jupyter nbconvert --to slides`

Cells keep their ids, by which `python -m kit grade` knows them.
"""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

from kit.errors import AlreadyExistsError, NotFoundError

_TAG = re.compile(r"<[^>]*>")

Notebook = dict[str, Any]


def write_copies(lessons: Path, to: Path) -> list[str]:
    """Write the copies of all lessons; return a sentence for each kind.

    Raises
    ------
    NotFoundError
        The folder has no lessons.
    AlreadyExistsError
        There is something where the copies would be; nothing is overwritten.
    """
    paths = [p for p in sorted(lessons.rglob("*.ipynb")) if "kept-" not in p.name]
    if not paths:
        raise NotFoundError(f"{lessons} has no lessons; --folder says where they are.")
    kinds = {"students": _for_students, "key": _unfolded, "slides": _as_slides}
    if taken := [kind for kind in kinds if (to / kind).exists()]:
        raise AlreadyExistsError(
            f"{to / taken[0]} exists already; give another folder, or remove it."
        )
    for kind, made in kinds.items():
        for path in paths:
            notebook = json.loads(path.read_text("utf-8"))
            written = to / kind / path.relative_to(lessons)
            written.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps(made(notebook), indent=1, ensure_ascii=False)
            written.write_text(f"{text}\n", "utf-8")
        for helper in lessons.glob("*.py"):
            (to / kind / helper.name).write_bytes(helper.read_bytes())
    return [f"{to / kind} has {len(paths)} notebooks." for kind in kinds]


def _is_solution(cell: Notebook) -> bool:
    return "solution" in cell["metadata"].get("tags", [])


def _for_students(notebook: Notebook) -> Notebook:
    cells = [cell for cell in notebook["cells"] if not _is_solution(cell)]
    return {**notebook, "cells": cells}


def _unfolded(notebook: Notebook) -> Notebook:
    shown = copy.deepcopy(notebook)
    for cell in filter(_is_solution, shown["cells"]):
        head, *lines, _ = "".join(cell["source"]).splitlines(keepends=True)
        cell["source"] = "".join([f"**{_TAG.sub('', head).strip()}**\n", *lines])
    return shown


def _as_slides(notebook: Notebook) -> Notebook:
    shown = copy.deepcopy(_for_students(notebook))
    for cell in shown["cells"]:
        text = "".join(cell["source"])
        is_heading = cell["cell_type"] == "markdown" and text.startswith("#")
        cell["metadata"]["slideshow"] = {"slide_type": "slide" if is_heading else "-"}
    return shown
