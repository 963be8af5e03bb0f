"""Links to other tasks, kept open and lent to one run or one message at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kit.errors import PeerLost, UnavailableError, from_plain
from kit.graph.node import Edge
from kit.session.channel import recv_parcel, send_parcel
from kit.task import Task
from kit.wire.link import Link


class Peers:
    """The way to all tasks. `dial` opens a link; links that failed are not reused."""

    def __init__(self, dial: Callable[[Task], Link]) -> None:
        self._dial = dial
        self._idle: dict[Task, list[Link]] = {}
        self._out: set[Link] = set()
        self._lock = threading.Lock()
        self._is_closed = False

    def take(self, task: Task) -> Link:
        """Return an idle link to a task, or a new one; give it back with `put_back`.

        Raises `UnavailableError`, naming the task, when it does not answer.
        """
        with self._lock:
            idle = self._idle.get(task)
            link = idle.pop() if idle else None
        if link is None:
            try:
                link = self._dial(task)
            except UnavailableError as error:
                raise PeerLost(
                    f"{task} cannot be reached: {error.message}", task=str(task)
                ) from error
        with self._lock:
            self._out.add(link)
        return link

    def put_back(self, link: Link, *, is_clean: bool) -> None:
        """Return a link; one in the middle of a message is closed."""
        with self._lock:
            self._out.discard(link)
            if is_clean and not self._is_closed:
                self._idle.setdefault(link.peer, []).append(link)
                return
        link.close()

    @contextmanager
    def lent(self, task: Task) -> Iterator[Link]:
        """Give a link for a block; an error in the block closes it."""
        link = self.take(task)
        is_clean = False
        try:
            yield link
            is_clean = True
        finally:
            self.put_back(link, is_clean=is_clean)

    def ask(
        self, task: Task, meta: dict[str, Any], arrays: Any, deadline_s: float
    ) -> tuple[dict[str, Any], list[Any]]:
        """Ask a task one question; raises the error that it answers."""
        with self.lent(task) as link:
            send_parcel(link, meta, arrays, deadline_s)
            reply, found = recv_parcel(link, deadline_s)
        if "error" in reply:
            raise from_plain(reply["error"])
        return reply, found

    def put(
        self, task: Task, number: int, edge: Edge, value: Any, deadline_s: float
    ) -> None:
        """Push a tensor of a step to a task; nothing is answered."""
        meta = {"op": "put", "step": number, "edge": edge}
        arrays = [] if value is None else [value]
        with self.lent(task) as link:
            send_parcel(link, meta, arrays, deadline_s)

    def forget(self, task: Task) -> None:
        """Close the idle links to a task, which may have been restarted."""
        with self._lock:
            idle = self._idle.pop(task, [])
        for link in idle:
            link.close()

    def close(self) -> None:
        """Close all links, those that are lent out too."""
        with self._lock:
            self._is_closed = True
            links = [*self._out, *(one for idle in self._idle.values() for one in idle)]
            self._idle.clear()
        for link in links:
            link.close()
