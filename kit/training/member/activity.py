"""What a member is doing at this moment, for those who ask why a training stands still.

Nothing is recorded for it on the way: a member's thread leaves where it is in a few
words of memory, and this reads them from another thread.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kit.training.member.member import Member

_LONG_NS = 500_000_000  # less is not worth finding the line of the step function
_CALLER = str(Path("kit", "training", "worker", "worker.py"))
_SOURCES = str(Path("kit", "training", "data", "sources.py"))


def activity(member: Member) -> dict[str, Any]:
    """Return what a member does, as plain data.

    `what` is one of starting, loading, computing, waiting, meeting (at a boundary
    between two steps), exchanging and over; `members` are those that it waits for,
    `since` nanoseconds of its clock (0: not known), `where` the line of the user's
    function that it is at, if it has been there for long.
    """
    what, at, since = "exchanging", "", 0
    members: tuple[int, ...] = ()
    context, meets = member.context, member.meets_since
    if context is None:
        what = "over" if member.is_over else "starting"
        return _plain(what, 0, (), member.step, "")
    # Each is read once: the member's thread goes on meanwhile.
    own, wait = context.own_part, context.endpoint.waits_for
    if wait is not None:
        what, since, members = "waiting", wait.since, wait.members
    elif meets:
        what, since = "meeting", meets
    elif begun := own.begun:
        loaded = own.loaded
        what, since = ("computing", loaded) if loaded else ("loading", begun)
        if time.monotonic_ns() - since > _LONG_NS:
            at = where(member.thread_number)
    return _plain(what, since, members, context.step, at)


def _plain(
    what: str, since: int, members: tuple[int, ...], step: int, where: str
) -> dict[str, Any]:
    names = ("what", "since", "members", "step", "where")
    return dict(zip(names, (what, since, list(members), step, where), strict=True))


def where(thread: int | None) -> str:
    """Return where the user's function is: its own line, and the innermost one.

    Empty for a thread that is in none.
    """
    inner: list[FrameType] = []
    frame = sys._current_frames().get(thread or -1)
    while frame is not None:
        if frame.f_code.co_filename.endswith((_CALLER, _SOURCES)):
            places = [_place(one) for one in (*inner[-1:], *inner[:1])]
            return ", in ".join(dict.fromkeys(places))
        inner.append(frame)
        frame = frame.f_back
    return ""  # it has come to an end meanwhile


def _place(frame: FrameType) -> str:
    file = Path(frame.f_code.co_filename).name
    return f"{frame.f_code.co_name} ({file}:{frame.f_lineno})"
