"""Read a lesson for the site: solutions are folded, and it says how to run it."""

from __future__ import annotations

import nbformat

HOW_TO_RUN = """

:::{note}
This is the lesson as it ran when this page was built: a live board is a still picture
here, and open exercises say "Not yet". To run and change it, open it with `make lab`.
:::
"""


def read(text: str) -> nbformat.NotebookNode:
    """Return the notebook, its solutions as cells that a reader opens."""
    notebook = nbformat.reads(text, as_version=4)  # type: ignore[no-untyped-call]
    assert isinstance(notebook, nbformat.NotebookNode)
    notebook.cells[0].source += HOW_TO_RUN
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        if "solution" in tags:
            cell.metadata["tags"] = [*tags, "hide-cell"]
    return notebook
