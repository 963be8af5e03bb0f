"""Read a lesson for the site: predictions are locked in, solutions run unseen.

A lesson cannot be run from its first cell to its last as it is: a cell that would give
an answer away wants a prediction first, and solutions are text. Who runs one without a
reader (the site, a test) puts in what a reader would do.
"""

from __future__ import annotations

import re
from typing import Final

import nbformat
from nbformat.v4 import new_code_cell

HOW_TO_RUN = """

:::{note}
This is the lesson as it ran when this page was built: a live board is a still picture
here, and open exercises say "Not yet". To run and change it, open it with `make lab`.
:::
"""
_SOLUTION: Final = re.compile(r"```python\n(.*)\n```", re.S)


def read(text: str) -> nbformat.NotebookNode:
    """Return the notebook with what a reader does, and how to run it."""
    notebook = nbformat.reads(text, as_version=4)  # type: ignore[no-untyped-call]
    assert isinstance(notebook, nbformat.NotebookNode)
    notebook.cells[0].source += HOW_TO_RUN
    answer(notebook)
    return notebook


def answer(notebook: nbformat.NotebookNode) -> None:
    """Add cells that lock the examples of predictions in and run the solutions.

    Their ids are those of the cells that they belong to, with "-answer" behind.
    """
    cells = []
    for cell in notebook.cells:
        cells.append(cell)
        tags = cell.metadata.get("tags", [])
        if "prediction" in tags:
            source = "\n".join(cell.metadata["example"])
        elif "solution" in tags:
            found = _SOLUTION.search(cell.source)
            assert found is not None, f"the solution {cell.id} has no code"
            source = found[1]
        else:
            continue
        added = new_code_cell(source, metadata={"tags": ["remove-cell"]})  # type: ignore[no-untyped-call]
        added.id = f"{cell.id}-answer"
        cells.append(added)
    notebook.cells = cells
