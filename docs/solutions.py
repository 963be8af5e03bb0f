"""Read a lesson for the site, as a reader leaves it; take over what tests have run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import nbformat
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn, JupyterCacheAbstract
from sphinx.application import Sphinx
from sphinx.config import Config

from docs.answers import answer

HOW_TO_RUN = """

:::{note}
This is the lesson as it ran when this page was built: a live board is a still picture
here ({doc}`one that plays </start>`), and open exercises say "Not yet". To run it and
change it, open it with `make lab`.
:::
"""
# What a cell shows that begins so, as a page that plays (docs/playing.py).
PLAYING = {"RingStepper(n=4": "ring", "ServerStepper(n=3": "servers"}


def read(text: str) -> nbformat.NotebookNode:
    """Return the notebook with what a reader does, and how to run it."""
    notebook = nbformat.reads(text, as_version=4)  # type: ignore[no-untyped-call]
    assert isinstance(notebook, nbformat.NotebookNode)
    notebook.cells[0].source += HOW_TO_RUN
    play(notebook.cells)
    answer(notebook)
    return notebook


def play(cells: list[nbformat.NotebookNode]) -> None:
    """Let what cells show play in the page: in the text that follows them."""
    for place, cell in enumerate(cells):
        last = cell.source.rpartition("\n")[2]
        page = next((PLAYING[one] for one in PLAYING if last.startswith(one)), "")
        following = (one for one in cells[place:] if one.cell_type == "markdown")
        text = next(following, None) if cell.cell_type == "code" and page else None
        if text is not None:
            cell.metadata["tags"] = [*cell.metadata.get("tags", []), "remove-output"]
            frame = f'<iframe class="playing" src="../playing/{page}.html" '
            text.source = (
                f'{frame}title="Message by message"></iframe>\n\n{text.source}'
            )


def keep_what_has_run(cache: JupyterCacheAbstract, lessons: Path, folder: Path) -> None:
    """Put what lessons have shown into the cache, if a notebook in `folder` ran them.

    The tests run all lessons and leave them there for `.ci/run`.
    """
    notebooks = [
        nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
        for path in sorted(folder.glob("*.ipynb"))
    ]
    ran = {_code(one): one for one in notebooks}
    for path in sorted(lessons.rglob("*.ipynb")):
        lesson = read(path.read_text("utf-8"))
        if (found := ran.get(_code(lesson))) is None:
            continue
        for cell, shown in zip(lesson.cells, found.cells, strict=True):
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = (
                    shown.outputs,
                    shown.execution_count,
                )
        lesson.metadata["widgets"] = found.metadata.get("widgets", {})
        cache.cache_notebook_bundle(CacheBundleIn(lesson, str(path)), overwrite=True)


def _code(notebook: nbformat.NotebookNode) -> tuple[tuple[str, str], ...]:
    """Return the kind of each cell, and what it says if it is code."""
    return tuple(
        (cell.cell_type, cell.source if cell.cell_type == "code" else "")
        for cell in notebook.cells
    )


def setup(app: Sphinx) -> dict[str, Any]:
    """Look for what has run in the folder `KIT_LESSONS`, if it is set."""

    def keep(_: Sphinx, config: Config) -> None:
        if folder := os.environ.get("KIT_LESSONS"):
            cache = get_cache(config.nb_execution_cache_path)
            keep_what_has_run(cache, Path(app.srcdir) / "lessons", Path(folder))

    app.connect("config-inited", keep)
    return {"parallel_read_safe": True}
