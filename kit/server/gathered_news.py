"""The news of a training's other members, gathered by one of them for an observer.

An observer has a link to the coordinator alone, and says with each question of which
members it wants to hear. All of them are asked at once. A late answer is passed on with
the answer to a later question, so a member that is stopped delays no other's news.
Those that cannot be asked are named: the observer dials them itself, and finds out why.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kit.errors import KitError
from kit.wire.link import Link

MOST_ROWS: Final = 20_000  # of each kind in one member's answer

_WAIT_S: Final = 0.05  # for the answers of all
_LATE_S: Final = 1.0  # then the observer had better ask that member itself
# The rest waits for the next question: with one more answer, and that of the gathering
# member itself, it must fit into a frame.
_MOST_BYTES: Final = 4 * 2**20

Wanted = Sequence[tuple[int, list[int]]]  # a member, and the cursors of its logs


@dataclass
class _Way:
    link: Link
    asked: int = 0  # when, by this machine's clock (ns); 0: no answer is due


class GatheredNews:
    """The links to those that one observer wants to hear of. For one thread."""

    def __init__(self) -> None:
        """Dial nobody yet."""
        self._ways: dict[tuple[str, int], _Way] = {}

    def ask(self, run: str, wanted: Wanted, dial: Callable[[int], Link]) -> None:
        """Ask members for their news, unless they have been asked already."""
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
                    way.link.send_message(message, deadline_s=_LATE_S)
            except KitError:
                self._drop(key)

    def take(self, run: str, wanted: Wanted) -> tuple[dict[str, Any], bytes]:
        """Return what has been answered, after a short wait, and who cannot be asked.

        "others" has of each answer the member, when it was asked and heard (ns, by the
        clock here), the size of its part of the blob, and the answer itself.
        """
        give_up = time.monotonic() + _WAIT_S
        due = {member for member, _ in wanted}
        others, blob = list[list[Any]](), bytearray()
        unreached = [member for member in due if (run, member) not in self._ways]
        due.difference_update(unreached)
        while due and (ready := self._ready(run, due, give_up)):
            for member in ready:
                if len(blob) >= _MOST_BYTES:
                    return {"others": others, "unreached": unreached}, bytes(blob)
                due.discard(member)
                way = self._ways[run, member]
                try:
                    reply, part = way.link.recv_message(deadline_s=_LATE_S)
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
            if now - self._ways[run, member].asked > _LATE_S * 1e9:
                self._drop((run, member))
                unreached.append(member)
        return {"others": others, "unreached": unreached}, bytes(blob)

    def _ready(self, run: str, due: set[int], give_up: float) -> list[int]:
        """Return those that have begun to answer or are gone, longest asked first."""
        ways = {member: self._ways[run, member] for member in due}
        poll = select.poll()
        for way in ways.values():
            poll.register(way.link.fileno(), select.POLLIN)
        wait_s = max(0.0, give_up - time.monotonic())
        ready = {fd for fd, _ in poll.poll(1000 * wait_s)}
        found = [one for one, way in ways.items() if way.link.fileno() in ready]
        return sorted(found, key=lambda one: ways[one].asked)

    def _drop(self, key: tuple[str, int]) -> None:
        way = self._ways.pop(key, None)
        if way is not None:
            way.link.close()

    def close(self) -> None:
        """Close the links."""
        for key in list(self._ways):
            self._drop(key)
