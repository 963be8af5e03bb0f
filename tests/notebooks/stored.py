"""A notebook as it lies in its file, read without Jupyter, which loads for seconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class Stored(dict[str, Any]):
    """A notebook, or a part of it; its entries are attributes too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def read(path: Path) -> Stored:
    """Return a notebook whose sources are texts, though stored as lists of lines."""
    result: Stored = json.loads(path.read_text("utf-8"), object_hook=Stored)
    for cell in result.cells:
        cell["source"] = "".join(cell["source"])
    return result
