"""Which checkpoints and drafts lie in a folder, told by their names alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from kit.checkpoint.refusing import refused

_WHOLE = re.compile(r"step-(0|[1-9]\d*)(?:\.([2-9]|[1-9]\d+))?", re.ASCII)
_DRAFT = re.compile(r"step-\d+(?:\.\d+)?\.tmp-[0-9a-f]+", re.ASCII)


class Place(NamedTuple):
    """A checkpoint of a folder by its name; the greatest is the newest."""

    step: int
    turn: int  # 1, or higher when the step was saved more than once

    @property
    def name(self) -> str:
        """The name of its folder.

        >>> Place(400, 1).name, Place(400, 2).name
        ('step-400', 'step-400.2')
        """
        return f"step-{self.step}" + (f".{self.turn}" if self.turn > 1 else "")


def places(folder: Path) -> list[Place]:
    """Return all checkpoints, damaged or not, oldest first; none without a folder.

    Raises as `refused` does when the folder cannot be read.
    """
    found = [_WHOLE.fullmatch(name) for name in _names(folder)]
    return sorted(Place(int(one[1]), int(one[2] or 1)) for one in found if one)


def next_place(folder: Path, step: int) -> Place:
    """Return where a step is saved next: no name is used twice."""
    turns = [place.turn for place in places(folder) if place.step == step]
    return Place(step, max(turns, default=0) + 1)


def drafts(folder: Path) -> list[Path]:
    """Return all drafts, those that somebody left included."""
    return [folder / name for name in _names(folder) if _DRAFT.fullmatch(name)]


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []
    except OSError as exc:
        raise refused(folder, exc) from exc
