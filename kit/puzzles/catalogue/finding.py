"""All puzzles by name, in the order in which one meets them. Pure."""

from __future__ import annotations

from kit.errors import NotFoundError
from kit.puzzles.catalogue.collectives import COLLECTIVES
from kit.puzzles.catalogue.data_parallel import DATA_PARALLEL
from kit.puzzles.catalogue.model_parallel import MODEL_PARALLEL
from kit.puzzles.puzzle import Puzzle

_ALL = (*COLLECTIVES, *DATA_PARALLEL, *MODEL_PARALLEL)
PUZZLES: dict[str, Puzzle] = {puzzle.name: puzzle for puzzle in _ALL}


def find(name: str) -> Puzzle:
    """Return a puzzle; raises `NotFoundError` with all names for another one.

    >>> find("broadcast").n
    4
    """
    if name not in PUZZLES:
        raise NotFoundError(
            f"there is no puzzle {name!r}; there are {', '.join(PUZZLES)}."
        )
    return PUZZLES[name]
