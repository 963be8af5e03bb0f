"""Who looks at a task's trainings: the observers that have dialled, and those to come.

An observer learns of the end of a training a moment after it. What is known of one is
kept so long for those who look at it.
"""

from __future__ import annotations

import threading

from kit.server.gathered_news import GatheredNews
from kit.task import Task
from kit.wire.link import Link


class Watchers:
    """The observers of one task. Only `see_off` waits, and it keeps nobody else out."""

    def __init__(self) -> None:
        """Begin with none."""
        self._links: dict[Link, GatheredNews] = {}
        self._to_come: set[tuple[str, Task]] = set()
        self._changed = threading.Condition()

    def expect(self, run: str, task: Task) -> None:
        """Note that a task will watch a run and may not have dialled yet."""
        with self._changed:
            self._to_come.add((run, task))

    def opened(self, link: Link) -> None:
        """Note a new link of an observer."""
        with self._changed:
            self._links[link] = GatheredNews()
            self._to_come.discard((link.run_id.hex(), link.peer))

    def closed(self, link: Link) -> None:
        """Take the end of a link; others than observers' are not known here."""
        with self._changed:
            gathered = self._links.pop(link, None)
            self._changed.notify_all()
        if gathered is not None:
            gathered.close()

    def gathered_for(self, link: Link) -> GatheredNews | None:
        """Return what gathers news for an observer at the other end of a link."""
        with self._changed:
            return self._links.get(link)

    def see_off(self, run: str, limit_s: float, *, is_done: bool) -> None:
        """Wait until nobody looks at a run that is over, but not longer than `limit_s`.

        Those to come are waited for if it `is_done`: of a failed one they know enough.
        """

        def are_gone() -> bool:
            if is_done and any(one == run for one, _ in self._to_come):
                return False
            return all(link.run_id.hex() != run for link in self._links)

        with self._changed:
            self._changed.wait_for(are_gone, limit_s)
            self._to_come = {one for one in self._to_come if one[0] != run}
