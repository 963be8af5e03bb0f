"""The boards of the groups that a cell uses: below it, and live if it takes a while.

What draws them is the view `group` of the group of entry points `kit.views`; without
one, and in a terminal, each group is one plain line.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from warnings import warn

from kit.cluster.cells.groups import CellGroups, WatchedGroup
from kit.trace.waits import waits_in
from kit.training.client.run import view

_FIRST_S, _EVERY_S = 0.7, 1.0  # until groups are looked for, and between two looks
_MOST, _MOST_LINES = 4, 12  # boards of one cell, and lines without them


class GroupBoards:
    """Shows the groups of one cell as they come."""

    def __init__(
        self,
        groups: CellGroups,
        *,
        shows_messages: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """With `shows_messages`, boards begin with the messages from task to task."""
        self._groups, self._clock = groups, clock
        self._shows_messages = shows_messages
        self._due = clock() + _FIRST_S
        self._lines: list[
            WatchedGroup
        ] = []  # that are told in the end, without a board
        self._n_shown = 0

    def look(self) -> None:
        """Show boards of groups that are new; call it while the cell runs."""
        if self._clock() >= self._due:
            for group in self._groups.new():
                self._show(group)
            # When the answers have come: slow tasks are not asked all the time.
            self._due = self._clock() + _EVERY_S

    def close(self) -> None:
        """Show the rest: the cell is over."""
        new = self._groups.new()
        self._groups.close()
        for group in new:
            if group.has_moved:  # else an error says what there is to say
                self._show(group)
        for group in self._lines:
            now = group.look()
            print(now.words)
            if self._shows_messages:
                for wait in waits_in(now.trace)[:_MOST_LINES]:
                    print(wait.words)

    def _show(self, group: WatchedGroup) -> None:
        has_room = self._n_shown < _MOST and len(group.tasks) > 1
        show = view("group") if has_room else None
        if show is None:
            self._lines.append(group)
            return
        try:
            show(group, shows_messages=self._shows_messages)
        except Exception as error:  # a picture must not fail the user's cell
            self._lines.append(group)
            if not isinstance(error, NotImplementedError):  # in a terminal
                warn(f"the board of a group cannot be drawn: {error}", stacklevel=2)
        else:
            self._n_shown += 1
