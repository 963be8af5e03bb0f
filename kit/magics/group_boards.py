"""The boards of the groups that a cell uses: below it, and live if it takes a while.

What draws them is the view `group` of the group of entry points `kit.views`; without
one, and in a terminal, each group is one plain line.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from kit.cluster.cells.groups import CellGroups, WatchedGroup
from kit.training.client.run import view

_FIRST_S, _EVERY_S = 0.7, 1.0  # until groups are looked for, and between two looks
_MOST = 4  # boards of one cell


class GroupBoards:
    """Shows the groups of one cell as they come."""

    def __init__(
        self, groups: CellGroups, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._groups, self._clock = groups, clock
        self._due = clock() + _FIRST_S
        self._lines: list[
            WatchedGroup
        ] = []  # that are told in the end, without a board
        self._n_shown = 0

    def look(self) -> None:
        """Show boards of groups that are new; call it while the cell runs."""
        if self._clock() >= self._due:
            self._show_new()
            # When the answers have come: slow tasks are not asked all the time.
            self._due = self._clock() + _EVERY_S

    def close(self) -> None:
        """Show the rest: the cell is over."""
        self._show_new()
        self._groups.close()
        for group in self._lines:
            print(group.look().words)

    def _show_new(self) -> None:
        for group in self._groups.new():
            show = view("group") if self._n_shown < _MOST else None
            if show is None:
                self._lines.append(group)
                continue
            try:
                show(group)
            except NotImplementedError:  # a terminal
                self._lines.append(group)
            else:
                self._n_shown += 1
