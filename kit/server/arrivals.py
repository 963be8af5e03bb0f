"""Data links that other tasks have opened, until their training takes them.

The accepting side sends the last message of a handshake. So a link may be kept here
that the other side gave up at that moment, and has dialled again. To tell the two
apart, the other side sends a ping on the link that it keeps.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Final

from kit.errors import DeadlineExceededError, KitError
from kit.task import Task
from kit.wire.frame import FrameKind, Header
from kit.wire.link import Link

# A link without a ping may be the wrong one of two: try the other soon.
_PING_S: Final = 0.2
# A task dials again only when it has given a link up. More links, or from more tasks,
# are a mistake at the other end, and must not use up our descriptors.
_MOST_SAME: Final = 32
_MOST_KEYS: Final = 4096


def announce(link: Link, deadline_s: float, number: int = 0, n: int = 1) -> None:
    """Send the ping on a data link that was dialled here, and is kept.

    It is the one of this number, from 0, of `n` streams to that task.
    """
    link.send(kind=FrameKind.PING, deadline_s=deadline_s, tensor=n - 1, chunk=number)


class Arrivals:
    """The links that have arrived, by run and task; it owns them until taken."""

    def __init__(self) -> None:
        """Begin with none."""
        self._links: dict[tuple[str, Task], list[Link]] = {}
        self._changed = threading.Condition()
        self._is_closed = False

    def put(self, link: Link) -> None:
        """Keep a link; once this is closed, close it."""
        with self._changed:
            if self._is_closed:
                link.close()
                return
            key = link.run_id.hex(), link.peer
            same = self._links.setdefault(key, [])
            same.append(link)
            if len(same) > _MOST_SAME:
                same.pop(0).close()
            while len(self._links) > _MOST_KEYS:
                self._drop(next(iter(self._links)))
            self._changed.notify_all()

    def maybe_take(self, run: str, task: Task) -> tuple[Link, Header] | None:
        """Return the link of a task on which its ping arrives; wait a moment for it.

        The ping says which of several streams it is, see `announce`.
        """
        link = self._next(run, task)
        if link is None:
            return None
        try:
            ping, _ = link.recv(deadline_s=_PING_S)
        except DeadlineExceededError:
            self.put(link)  # behind the others; its ping may only be late
            return None
        except KitError:  # the other side has given it up
            link.close()
            return None
        return link, ping

    def keep_only(self, runs: Collection[str]) -> None:
        """Close the links of all other runs."""
        with self._changed:
            for key in [key for key in self._links if key[0] not in runs]:
                self._drop(key)

    def forget(self, run: str) -> None:
        """Close the links of a run."""
        with self._changed:
            for key in [key for key in self._links if key[0] == run]:
                self._drop(key)

    def close(self) -> None:
        """Close all links, and those that arrive from now on."""
        with self._changed:
            self._is_closed = True
            for key in list(self._links):
                self._drop(key)

    def _next(self, run: str, task: Task) -> Link | None:
        key = run, task
        with self._changed:
            self._changed.wait_for(lambda: self._links.get(key), _PING_S)
            return self._links[key].pop(0) if self._links.get(key) else None

    def _drop(self, key: tuple[str, Task]) -> None:
        for link in self._links.pop(key):
            link.close()
