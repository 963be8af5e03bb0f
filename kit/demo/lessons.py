"""Restore lessons as they were shipped, and keep what a learner made of them.

The shipped ones are those of the clone's last commit.
"""

from __future__ import annotations

import copy
import itertools
import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from kit.errors import AlreadyExistsError, FailedPreconditionError, NotFoundError
from kit.regular_file import create_regular
from kit.trace.file import write_atomically

_GIT_S = 30


def reset(names: Sequence[str], folder: Path) -> list[str]:
    """Restore the lessons and puzzles that are called so; return a sentence for each.

    A name is how a file or its folder begins, as `03` or `puzzles`. Without names, all
    are restored.

    A notebook that was changed is first copied beside itself, as `NAME.kept-N.ipynb`; a
    missing one is made again. Raises `NotFoundError` for a lesson that does not exist,
    and `FailedPreconditionError` outside of a clone.
    """
    shipped = _shipped(folder)
    chosen: list[str] = []
    for name in names or shipped:
        matches = [
            lesson
            for lesson in shipped
            if lesson.startswith(name) or f"/{name}" in lesson
        ]
        if not matches:
            lessons = ", ".join(lesson.removesuffix(".ipynb") for lesson in shipped)
            raise NotFoundError(f"no lesson begins with {name!r}; there are {lessons}.")
        chosen += [lesson for lesson in matches if lesson not in chosen]
    return [_reset(folder / name) for name in chosen]


def _reset(path: Path) -> str:
    path.parent.mkdir(exist_ok=True)
    whole = _git(path.parent, "show", f"HEAD:./{path.name}")
    if path.exists():
        if path.read_bytes() == whole:
            return f"{path.name} is as it was shipped."
        kept = _kept(path)
        said = f"{path.name} is as it was shipped again; yours is {kept.name}."
    else:
        said = f"{path.name} was missing, and is there again."
    write_atomically(path, [whole.decode()])
    return said


def _kept(path: Path) -> Path:
    """Copy a notebook beside itself, under a name that is free; return that."""
    for number in itertools.count(1):
        kept = path.with_suffix(f".kept-{number}.ipynb")
        with suppress(FileExistsError), create_regular(kept) as file:
            file.write(path.read_bytes())
            break
    shutil.copystat(path, kept)
    return kept


def _shipped(folder: Path) -> list[str]:
    """Return the paths of all lessons and puzzles that git has below a folder."""
    words = "ls-tree", "-r", "--name-only", "HEAD", "./"
    listed = _git(folder, *words).decode().split("\n")
    lessons = sorted(name for name in listed if name.endswith(".ipynb"))
    if not lessons:
        raise NotFoundError(f"{folder} has no lessons; --folder says where they are.")
    return lessons


def _git(folder: Path, *words: str) -> bytes:
    try:
        return subprocess.run(
            ["git", "-C", str(folder), *words],
            capture_output=True,
            check=True,
            timeout=_GIT_S,
        ).stdout
    except FileNotFoundError as error:
        why = "there is no git here"
        cause: Exception = error
    except subprocess.TimeoutExpired as error:
        why, cause = f"git has not answered within {_GIT_S} s", error
    except subprocess.CalledProcessError as error:
        why, cause = error.stderr.decode(errors="replace").strip(), error
    raise FailedPreconditionError(
        f"cannot tell how the lessons in {folder} were shipped: {why}. Run this in a "
        f"clone of the repository, or give --folder."
    ) from cause


# --------------------------------------------------------------------------------------
# Copies of the lessons for a class: `python -m kit lessons copies FOLDER`.
#
#     FOLDER/students   without solutions
#     FOLDER/key        with the solutions unfolded
#     FOLDER/slides     as `students`, with a slide for each heading, for
#                       `jupyter nbconvert --to slides`
#
# Cells keep their ids, by which `python -m kit grade` knows them.

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
