"""When a cell shows its groups: once something came to its end, also while it lasts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kit.magics.on_magics import GroupBoards


class Cell:
    """Groups that the tasks of a cell have used; stands in for `CellGroups`."""

    def __init__(self) -> None:
        look = SimpleNamespace(words="Group of worker:0: 1 call, 8 bytes.")
        self.group: Any = SimpleNamespace(tasks=("worker:0",), has_moved=False)
        self.group.look = lambda: look
        self._new = [self.group]

    def new(self) -> list[Any]:
        new, self._new = self._new, []
        return new

    def close(self) -> None:
        """Do nothing."""


def lasting(cell: Any) -> GroupBoards:
    """Return the boards of a cell that has lasted for a while."""
    now = [0.0]
    boards = GroupBoards(cell, clock=lambda: now[0])
    now[0] = 5.0
    boards.look()
    now[0] = 10.0
    return boards


def test_cell_that_lasts_and_completes_no_call_shows_no_group(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lasting(Cell()).close()

    assert capsys.readouterr().out == ""


def test_call_that_is_completed_after_a_while_shows_its_group_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cell = Cell()
    boards = lasting(cell)
    cell.group.has_moved = True

    boards.look()
    boards.close()

    assert capsys.readouterr().out == "Group of worker:0: 1 call, 8 bytes.\n"
