"""The observers of a task's trainings, and the news that it gathers for them.

An observer learns of the end of a training a moment late, so what is known of one is
kept for that long.

An observer has a link to the coordinator alone, and says with each question of which
members it wants to hear. All of them are asked at once. A late answer is passed on with
the answer to a later question, so a stopped member does not delay the others' news.
Members that cannot be asked are named: the observer dials them itself, and finds out
why.
"""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kit.errors import KitError
from kit.task import Task
from kit.wire.link import Link

MOST_ROWS: Final = 20_000  # of each kind in one member's answer

_WAIT_S: Final = 0.05  # for the answers of all
LATE_S: Final = 1.0  # then the observer had better ask that member itself
# The rest waits for the next question: with one more answer, and that of the gathering
# member itself, it must fit into a frame.
MOST_BYTES: Final = 4 * 2**20

Wanted = Sequence[tuple[int, list[int]]]  # a member, and the cursors of its logs


class Watchers:
    """The observers of one task. Only `see_off` waits; others can go on meanwhile."""

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
        """Note the end of a link; those of non-observers are ignored."""
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
        """Wait until nobody observes a run that is over, but not longer than `limit_s`.

        Observers to come are waited for only if it `is_done`: of a failure they hear
        from their own member.
        """

        def are_gone() -> bool:
            if is_done and any(to_come == run for to_come, _ in self._to_come):
                return False
            return all(link.run_id.hex() != run for link in self._links)

        with self._changed:
            self._changed.wait_for(are_gone, limit_s)
            self._to_come = {to_come for to_come in self._to_come if to_come[0] != run}


@dataclass
class _Way:
    link: Link
    asked: int = 0  # when (ns, by this machine's clock); 0: no answer is due


class GatheredNews:
    """The links to the members of which one observer wants news. For one thread."""

    def __init__(self) -> None:
        """Dial nobody yet."""
        self._ways: dict[tuple[str, int], _Way] = {}

    def ask(self, run: str, wanted: Wanted, dial: Callable[[int], Link]) -> None:
        """Ask members for their news, unless an answer is due already."""
        question = {"op": "run.poll", "run": run, "most": MOST_ROWS}
        for member, cursors in wanted:
            key = run, member
            try:
                way = self._ways.get(key)
                if way is None:
                    way = self._ways[key] = _Way(dial(member))
                if not way.asked:
                    way.asked = time.monotonic_ns()
                    message = {**question, "cursors": cursors}
                    way.link.send_message(message, deadline_s=LATE_S)
            except KitError:
                self._drop(key)

    def take(self, run: str, wanted: Wanted) -> tuple[dict[str, Any], bytes]:
        """Return the answers that arrive within a short wait, and who cannot be asked.

        Each entry of "others" is the member, when it was asked and when it answered
        (ns, by the clock here), the size of its part of the blob, and the answer.
        """
        give_up = time.monotonic() + _WAIT_S
        due = {member for member, _ in wanted}
        others, blob = list[list[Any]](), bytearray()
        unreached = [member for member in due if (run, member) not in self._ways]
        due.difference_update(unreached)
        while due and (ready := self._ready(run, due, give_up)):
            for member in ready:
                if len(blob) >= MOST_BYTES:
                    return {"others": others, "unreached": unreached}, bytes(blob)
                due.discard(member)
                way = self._ways[run, member]
                try:
                    reply, part = way.link.recv_message(deadline_s=LATE_S)
                except KitError:
                    reply, part = {"failed": True}, bytearray()
                    self._drop((run, member))
                if reply.get("failed"):
                    unreached.append(member)
                else:
                    heard = time.monotonic_ns()
                    others.append([member, way.asked, heard, len(part), reply])
                    blob += part
                way.asked = 0
        now = time.monotonic_ns()
        for member in due:
            if now - self._ways[run, member].asked > LATE_S * 1e9:
                self._drop((run, member))
                unreached.append(member)
        return {"others": others, "unreached": unreached}, bytes(blob)

    def _ready(self, run: str, due: set[int], give_up: float) -> list[int]:
        """Return members that have begun to answer or are gone, longest asked first.

        So a member whose answer did not fit into the last frame is first in the next.
        """
        ways = {member: self._ways[run, member] for member in due}
        poll = select.poll()
        for way in ways.values():
            poll.register(way.link.fileno(), select.POLLIN)
        wait_s = max(0.0, give_up - time.monotonic())
        ready = {fd for fd, _ in poll.poll(1000 * wait_s)}
        readable = [
            watcher for watcher, way in ways.items() if way.link.fileno() in ready
        ]
        return sorted(readable, key=lambda watcher: ways[watcher].asked)

    def _drop(self, key: tuple[str, int]) -> None:
        way = self._ways.pop(key, None)
        if way is not None:
            way.link.close()

    def close(self) -> None:
        """Close the links."""
        for key in list(self._ways):
            self._drop(key)
