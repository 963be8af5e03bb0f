"""Follows a group that a cell uses, for its board (see `widgets.board.follower`)."""

from __future__ import annotations

import time
from collections.abc import Callable

from kit.cluster.cells.groups import WatchedGroup
from widgets.board import group_moment
from widgets.board.follower import Beat, Follower


class GroupFollower(Follower):
    """Follows one group while its cell runs."""

    def __init__(
        self, group: WatchedGroup, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(group, f"kit-board-{group.id[:8]}", clock)
        self._group = group

    @property
    def is_over(self) -> bool:
        """See `Follower`."""
        return self._group.is_over

    def look(self) -> Beat:
        """Return the present state; asks all tasks."""
        with self._looking:
            is_last = self._group.is_over  # asked first: what comes now is complete
            now = self._group.look()
            lost = {name: f"{name} does not answer." for name in now.lost}
            return group_moment.beat(
                now.trace,
                is_last=is_last,
                traffic=now.traffic,
                doing=now.doing,
                lost=lost,
                calls=now.calls,
            )
