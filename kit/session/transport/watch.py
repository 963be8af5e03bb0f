"""Notice the end of links that no thread reads at the moment.

A run reads one link at a time, for as long as its deadline allows, because that is the
quickest way. Meanwhile another task may die, or its client may go away. The kernel can
report that for all links together; one thread of each task waits for nothing else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from weakref import WeakValueDictionary

from kit.system import HangUps, has_hung_up
from kit.wire.link import Link


def has_ended(link: Link) -> bool:
    """Whether the other end of a link has closed it, or has died."""
    fd = link.fileno()
    if fd < 0:
        return True
    return has_hung_up(fd)


class Watch:
    """Calls back when a link ends. Its thread begins with the first link."""

    def __init__(self) -> None:
        # Without a lock: whoever pops a call makes it, so it is made once.
        self._calls: dict[Link, Callable[[], None]] = {}
        self._links: WeakValueDictionary[int, Link] = WeakValueDictionary()
        self._ends: HangUps | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._is_closed = False

    def add(self, link: Link) -> None:
        """Watch a link until it is closed."""
        with self._lock:
            if self._is_closed:
                return
            if self._ends is None:
                self._ends = HangUps()
                self._thread = threading.Thread(
                    target=self._wait, args=(self._ends,), name="kit-watch", daemon=True
                )
                self._thread.start()
            fd = link.fileno()
            self._links[fd] = link
            with suppress(OSError, ValueError):  # it has just been closed
                self._ends.add(fd)

    def during(self, link: Link, call: Callable[[], None]) -> None:
        """Call back, mostly in another thread, if a link ends before `forget`."""
        self._calls[link] = call
        if has_ended(link):  # its one report may have come before the line above
            self._tell(link)

    def forget(self, link: Link) -> None:
        """Do not call back for a link any more."""
        self._calls.pop(link, None)

    def close(self) -> None:
        """End the thread."""
        with self._lock:
            self._is_closed = True
            ends, self._ends = self._ends, None
        if ends is None or self._thread is None:
            return
        ends.wake()
        self._thread.join()  # before its descriptors close: their numbers are reused
        ends.close()

    def _wait(self, ends: HangUps) -> None:
        while not self._is_closed:
            for fd in ends.wait():
                link = self._links.get(fd)
                # By now the number may belong to a newer link, which has not ended.
                if link is not None and has_ended(link):
                    self._tell(link)

    def _tell(self, link: Link) -> None:
        call = self._calls.pop(link, None)
        if call is not None:
            call()
