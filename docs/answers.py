"""Do in a lesson what its reader does: lock predictions in, run the solutions.

A lesson cannot be run from its first cell to its last as it is: a cell that would give
an answer away wants a prediction first, and solutions are text. The site and the tests
run lessons without a reader.
"""

from __future__ import annotations

import re
from typing import Final

import nbformat
from nbformat.v4 import new_code_cell

_SOLUTION: Final = re.compile(r"```python\n(.*)\n```", re.S)


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
