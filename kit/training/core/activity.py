"""What a member is doing at this moment, for those who ask why a training stands still.

Nothing is recorded for it on the way: a member's thread leaves where it is in a few
words of memory, and this reads them from another thread.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from kit.errors import AbortedError, DeadlineExceededError, KitError
from kit.frames import frames_of

if TYPE_CHECKING:
    from kit.training.core.member import Member


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
    context, meets, step = member.context, member.meets_since, member.step
    # Each is read once: the member's thread goes on meanwhile.
    if context is None:
        what = "over" if member.is_over else "starting"
    elif (wait := context.endpoint.waits_for) is not None:
        what, since, members = "waiting", wait.since, wait.members
    elif meets:
        what, since = "meeting", meets
    elif begun := context.own_part.begun:
        loaded = context.own_part.loaded
        what, since = ("computing", loaded) if loaded else ("loading", begun)
        if time.monotonic_ns() - since > _LONG_NS:
            at = where(member.thread_number)
    about = {"what": what, "since": since, "members": [*members]}
    return {**about, "step": step, "where": at}


def where(thread: int | None) -> str:
    """Return where the user's function is: its own line, and the innermost one.

    Empty for a thread that is in none.
    """
    frames = frames_of(thread or -1)
    for n, frame in enumerate(frames):
        if frame.f_code.co_filename.endswith((_CALLER, _SOURCES)):
            places = [_line(item) for item in (*frames[:n][-1:], *frames[:n][:1])]
            return ", in ".join(dict.fromkeys(places))
    return ""  # it has come to an end meanwhile


def _line(frame: FrameType) -> str:
    file = Path(frame.f_code.co_filename).name
    return f"{frame.f_code.co_name} ({file}:{frame.f_lineno})"


# --------------------------------------------------------------------------------------
# Ends a step that does not come to its end, and frees its thread if that can be done.
#
# The heart of a member looks here now and then. Where the training has ended and the
# user's function goes on, it is interrupted as by Ctrl-C. What does not heed that, such
# as a wait in C, makes the member *stuck*: its task is of use again with a new process.


# The part of `stop_deadline_s` in which the user's function must return after the end.
_FOR_THE_THREAD = 0.4


class OwnPartWatch:
    """Looks how long a member's own part of a step takes, from one thread alone.

    It does not hold the member, which holds it: in a circle the step function and the
    data would stay in memory after a training, until the garbage collector comes.

    Attributes:
        is_stuck: whether the user's function has not heeded the end of the training.
    """

    def __init__(self) -> None:
        """Begin to look at a member that has not begun yet."""
        self.is_stuck = False
        # What is counted is the time between two looks, each bounded: a process that
        # was stopped meanwhile is not to blame for what the clock says.
        self._looked = time.monotonic()
        self._begun, self._taken_s, self._ended_s = 0, 0.0, 0.0

    def look(self, member: Member, fail: Callable[[KitError], None]) -> None:
        """End by `fail` a step that takes too long, and one that outlives its end."""
        now = time.monotonic()
        limits, context = member.job.settings, member.context
        passed_s = min(now - self._looked, limits.suspect_after_s)
        begun = context.own_part.begun if context is not None else 0
        self._taken_s = self._taken_s + passed_s if begun == self._begun else 0.0
        self._begun, self._looked = begun, now
        is_late = self._taken_s > limits.step_deadline_s
        if not begun:
            return
        if member.error is None:
            if is_late:
                fail(self._late(member))
            return
        self._ended_s += passed_s
        is_out = self._ended_s > _FOR_THE_THREAD * limits.stop_deadline_s
        # A long step that another member's failure has ended may come to its end.
        if is_out and (is_late or isinstance(member.error, AbortedError)):
            self.is_stuck = True
        elif where(member.thread_number):
            # Before it leaves the place at which it was when the training ended.
            member.last_doing = member.last_doing or activity(member)
            interrupt(member.thread_number)

    def _late(self, member: Member) -> DeadlineExceededError:
        task, step, at = member.task, member.step, where(member.thread_number)
        return DeadlineExceededError(
            f"{task}: step {step} has not come to its end in {self._taken_s:.0f} s"
            f"{f', it is at {at}' if at else ''}. See what it waits for there, or "
            f"allow a step more with kit.settings(step_deadline_s=...), now "
            f"{member.job.settings.step_deadline_s:g}.",
            task=str(task),
            step=step,
        )


def interrupt(thread: int | None) -> None:
    """Raise KeyboardInterrupt in a thread, when it is at its next line of Python."""
    if thread is not None:
        raised = ctypes.py_object(KeyboardInterrupt)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised)
