"""All puzzles by name, in the order of the notebooks. Pure."""

from __future__ import annotations

from kit.errors import NotFoundError
from kit.puzzles.catalogue.collectives import COLLECTIVES
from kit.puzzles.catalogue.data_parallel import DATA_PARALLEL
from kit.puzzles.catalogue.model_parallel import MODEL_PARALLEL
from kit.puzzles.puzzle import Puzzle

_ALL = (*COLLECTIVES, *DATA_PARALLEL, *MODEL_PARALLEL)
PUZZLES: dict[str, Puzzle] = {puzzle.name: puzzle for puzzle in _ALL}


def find(name: str) -> Puzzle:
    """Return a puzzle of the catalogue.

    Parameters
    ----------
    name : str
        Its name, a key of `PUZZLES`.

    Returns
    -------
    Puzzle
        The puzzle; as the last line of a cell it shows its goal and its targets.

    Raises
    ------
    NotFoundError
        There is no such puzzle; the message has the names of all.

    Examples
    --------
    >>> find("broadcast").n
    4
    """
    if name not in PUZZLES:
        raise NotFoundError(
            f"there is no puzzle {name!r}; there are {', '.join(PUZZLES)}."
        )
    return PUZZLES[name]
