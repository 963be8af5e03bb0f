"""What one task knows of a group: its call, its links, its messages, its failure.

The user's thread makes calls; the server's threads put messages, ask for the status
and end what has failed elsewhere. A failure ends a *generation*, the same on all tasks:
each raises it once, in the call that is under way or in the next one, and goes on with
the next generation. What has failed in an earlier cell is not raised in a later one.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from kit.errors import (
    AbortedError,
    FailedPreconditionError,
    KitError,
    PeerLost,
    from_plain,
    to_plain,
)
from kit.groups import scope
from kit.groups.calls import CallSeen, numbered
from kit.groups.generation import GroupLinks, GroupServices, Members
from kit.groups.history import CallHistory, CallNote
from kit.groups.mailbox import Mailbox
from kit.task import Task
from kit.trace.traffic import Meter, Phase, StepRow
from kit.wire.frame import Buffer
from kit.wire.shaping import LineIn, LineOut

_TELL_S, _CLOSE_S = 2.0, 1.0
_NO_LOSS = float("nan")
_WAIT = int(Phase.WAIT)  # an enum's member is slower to pack


class Talks(GroupServices, Protocol):
    """What the task's server does for a group, and how it asks the other tasks."""

    def ask(
        self,
        members: Members,
        rank: int,
        op: str,
        values: Mapping[str, Any],
        *,
        blob: Buffer = b"",
        deadline_s: float,
        for_messages: bool = False,
    ) -> tuple[dict[str, Any], bytearray]:
        """Ask another task about this group; raises `KitError`."""

    def let_go(self, state: GroupState) -> None:
        """Forget a group that nobody uses any more."""

    def stir(self) -> None:
        """Look at the groups now."""


@dataclass
class CallUnderWay:
    """What the user's thread is in."""

    number: int  # of the collective, in its generation; 0 for a message
    generation: int
    text: str
    where: tuple[str, int]
    since: float  # by the clock of deadlines
    source: int | None = None  # whose message it waits for, if it does; None: anyone's
    receives: bool = False
    tag: int | None = None
    begun: int = field(default_factory=time.monotonic_ns)

    @property
    def words(self) -> str:
        """The call with its number and line: `call 7, barrier() at ring.py, line 3`."""
        call = f"{numbered(self.number, self.generation)}, " if self.number else ""
        return f"{call}{self.seen.words}"

    @property
    def seen(self) -> CallSeen:
        """The call as errors show it."""
        return CallSeen(
            self.text, scope.words_for(*self.where) if self.where[0] else ""
        )


class GroupState:
    """See the module's docstring."""

    def __init__(self, members: Members, talks: Talks, mailbox: Mailbox) -> None:
        self.members, self.talks, self.mailbox = members, talks, mailbox
        limits = members.settings
        rows = limits.trace_rows
        self.meter = Meter(members.me, limit=rows, trace=limits.trace)
        self.formula: Counter[tuple[int, int, int]] = Counter()
        self.history = CallHistory(members.me)
        self.used_in = ""  # the newest cell that began a call
        self._left: list[list[int]] = []  # messages that lay there at the end
        self.moved_in = ""  # the newest one in which there is anything to be shown
        self.number = 0  # of collectives begun in this generation, and completed
        self.done = 0
        self.call: CallUnderWay | None = None
        self.generation = 0
        self.n_messages_sending = 0
        self.thread = threading.get_ident()
        self.is_closed = False
        # The failure of a generation, for the next call if it was not raised yet.
        self.failure: tuple[int, KitError] | None = None
        self._is_raised = True
        self._failed_in: scope.Scope | None = None
        self._met_in = scope.now()  # the cell in which the others' failures were heard
        self.untold: list[tuple[int, KitError]] = []
        self._links: GroupLinks | None = None
        self._lock, self._using = threading.Lock(), threading.Lock()
        self.line_out: LineOut | None = None
        self.line_in: LineIn | None = None
        if members.link.is_shaped:
            self.line_out = LineOut(members.link, lambda: 0.5)
            self.line_in = LineIn(members.link)

    # -- calls, by the user's thread ------------------------------------------

    @contextmanager
    def in_call(self, call: CallUnderWay) -> Iterator[None]:
        """Be in a call in a block; what it raises ends the generation everywhere."""
        if not self._using.acquire(blocking=False):
            now = self.call
            raise FailedPreconditionError(
                f"this group is in {now.text if now else 'a call'} in another thread; "
                f"make a group for each: kit.group() in each thread, in the same order "
                f"on all tasks."
            )
        try:
            self.thread = threading.get_ident()
            self._hear_of_earlier_cells()
            self._check_usable()
        except BaseException:
            self._using.release()  # this call was not begun, so it ends nothing
            raise
        try:
            self.call = call
            yield
        except BaseException as error:
            if call.receives:
                self._note_in_vain(call)
            raise self._failed_with(error, call) from error.__cause__
        finally:
            self.call = None
            self._using.release()

    def _note_in_vain(self, call: CallUnderWay) -> None:
        now = time.monotonic_ns()
        self.moved_in = self.used_in
        times = 0, 0, call.begun, now
        self.meter.span(Phase.WAIT, self.number, call.begun, now)
        tag, line = call.tag or 0, call.where[1]
        self.history.asked_for(call.source, tag, self.generation + 1, line, times)

    def links(self) -> GroupLinks:
        """Return the links of this generation, opened."""
        with self._lock:
            if self._links is None:
                self._links = GroupLinks(
                    self.members, self.generation, self.talks, self.meter
                )
                if self.failure is not None and self.failure[0] >= self.generation:
                    self._links.abort(self.failure[1])
            links = self._links
        if not links.is_open:
            links.open()
        return links

    def check(self) -> None:
        """Raise what this generation has failed with elsewhere."""
        failure = self.failure
        if failure is not None and failure[0] >= self.generation:
            raise failure[1]

    def use(self) -> scope.Scope | None:
        """Note that this cell uses the group; returns the cell."""
        here = scope.now()
        if here is not None:
            self.used_in = here.id
        return here

    def shows(self) -> None:
        """Note that there is something of this cell to be shown."""
        if (here := self.use()) is not None:
            self.moved_in = here.id

    def _hear_of_earlier_cells(self) -> None:
        """Take over what failed elsewhere before this cell: nobody may have told us."""
        here = self.use()
        if here is None or here is self._met_in:
            return
        self._met_in = here
        for rank in range(len(self.members.tasks)):
            status = self.look_at(rank) if rank != self.members.me else {}
            failure = status.get("failure")
            if failure and status.get("failed_in") != here.id:
                self.fail(failure[0], from_plain(failure[1]))
                self._is_raised = True

    def completed(
        self, call: CallUnderWay, note: CallNote, met: int, waited: int
    ) -> None:
        """Note a collective that is done; all were in it at `met` (ns)."""
        self.done = call.number
        self.history.called(note)
        self.moved_in = self.used_in
        if not self.meter.trace:
            return
        me, number, epoch = self.members.me, call.number, note.generation + 1
        end = time.monotonic_ns()
        self.meter.span(_WAIT, number, call.begun, met)
        waited += met - call.begun
        row = StepRow(me, number, epoch, _NO_LOSS, 1, call.begun, end, 0, waited, 0)
        self.meter.stepped(row)

    def look_at(self, rank: int) -> dict[str, Any]:
        """Ask another task where it is; empty if it does not answer."""
        try:
            at: tuple[Any, ...] = self.members, rank, "group.look", {}
            return self.talks.ask(*at, deadline_s=_TELL_S)[0]
        except KitError:
            return {}

    def _explained(self, lost: PeerLost, call: CallUnderWay) -> KitError:
        """Return why a link was closed: a task that answers is not lost."""
        tasks = {str(task): rank for rank, task in enumerate(self.members.tasks)}
        if lost.task not in tasks:
            return lost
        rank = tasks[lost.task]
        status, task = self.look_at(rank), self.members.tasks[rank]
        failure = status.get("failure")
        if failure and failure[0] >= self.generation:
            return from_plain(failure[1])
        if not status:
            return lost_in(call, task, "its process has ended, or was killed")
        if not status["known"]:
            return lost_in(call, task, "it has let go of this group")
        return AbortedError(f"what was under way has ended on {task.short}.")

    def _check_usable(self) -> None:
        if self.is_closed:
            raise FailedPreconditionError(
                "this group was closed; make another one with kit.group()."
            )
        failure = self.failure
        if failure is None or failure[0] < self.generation:
            return
        is_old = self._failed_in is not scope.now()
        lost = isinstance(failure[1], PeerLost)
        was_raised = self._is_raised
        if not lost:
            self._begin_anew()
        if lost or not (was_raised or is_old):
            raise _again(failure[1])

    def _failed_with(self, error: BaseException, call: CallUnderWay) -> BaseException:
        """End the generation; returns what the user's call raises."""
        heard = self.failure
        if isinstance(error, PeerLost) and (
            heard is None or heard[0] < self.generation
        ):
            error = self._explained(error, call)
        if heard is not None and heard[0] >= self.generation:
            # Another task's failure explains ours: our links end because of it.
            shown: BaseException = heard[1]
            if not isinstance(error, Exception):
                shown = error
        else:
            shown = error
            self.fail(self.generation, self._with_cause(error, call), tell=True)
        self._is_raised = True
        if not isinstance(shown, PeerLost):
            self._begin_anew()
        else:
            self._close_links()
        return _again(shown) if isinstance(shown, KitError) else shown

    def _with_cause(self, error: BaseException, call: CallUnderWay) -> KitError:
        """Return what the other tasks are told of an error here."""
        if isinstance(error, KitError) and not call_is_wrong(error):
            return error
        me = self.members.tasks[self.members.me].short
        what = call.words if call.number else call.text
        if isinstance(error, KeyboardInterrupt):
            text = f"{me} was interrupted in {what}. The group can be used again."
        else:
            text = f"{me} failed in {what}: {type(error).__name__}: {error}"
        return AbortedError(text, task=str(self.members.tasks[self.members.me]))

    def _begin_anew(self) -> None:
        self._close_links()
        with self._lock:
            failure = self.failure
            assert failure is not None
            self.generation = failure[0] + 1
            self.number = self.done = 0
        self.mailbox.drop_before(self.generation)

    def _close_links(self) -> None:
        with self._lock:
            links, self._links = self._links, None
        if links is not None:
            links.close()

    # -- by any thread ---------------------------------------------------------

    def fail(self, generation: int, error: KitError, *, tell: bool = False) -> None:
        """End a generation; the first error counts. `tell` the other tasks."""
        with self._lock:
            if generation < self.generation:
                return
            if self.failure is not None and self.failure[0] >= generation:
                return
            self.failure = generation, error
            self._is_raised, self._failed_in = False, scope.now()
            links = self._links
            if tell:
                self.untold.append((generation, error))
        if links is not None:
            links.abort(error)
        self.mailbox.wake()
        if tell:
            self.talks.stir()

    def tell(self) -> None:
        """Tell the other tasks what has failed here; waits for their answers."""
        with self._lock:
            untold, self.untold = self.untold, []
        for generation, error in untold:
            values = {"generation": generation, "error": to_plain(error)}
            for rank in range(len(self.members.tasks)):
                if rank != self.members.me:
                    try:
                        self.talks.ask(
                            *(self.members, rank, "group.end", values),
                            deadline_s=_TELL_S,
                        )
                    except KitError:
                        continue  # its own look at us finds out

    def status(self) -> dict[str, Any]:
        """Return where this task is, as plain data."""
        call, failure, here = self.call, self.failure, scope.now()
        status: dict[str, Any] = {
            "known": True,
            "generation": self.generation,
            "number": self.number,
            "done": self.done,
            "sending": self.n_messages_sending,
            "call": None,
            "scope": here.id if here is not None else "",
            "left": here.left if here is not None else "",
            "line": scope.user_line(self.thread),
            "failure": None,
            "failed_in": "",
        }
        if call is not None:
            seen, waits = call.seen, False
            if call.receives:
                at = self.generation, call.source, call.tag
                waits = self.mailbox.find(*at) is None
            status["call"] = {
                "number": call.number,
                "text": seen.text,
                "line": seen.line,
                "for_s": time.monotonic() - call.since,
                "receives": call.receives,
                "source": -1 if call.source is None else call.source,
                "waits": waits,
            }
        if failure is not None:
            status["failure"] = [failure[0], to_plain(failure[1])]
            was = self._failed_in
            status["failed_in"] = was.id if was is not None else ""
        return status

    def close(self) -> None:
        """Let go of everything; called again it does nothing."""
        if self.is_closed:
            return
        self.is_closed = True
        # A thread that is in a call closes the links itself when it has failed.
        if self._using.acquire(timeout=_CLOSE_S):
            self._close_links()
            self._using.release()
        # Its account is kept for a while, but not what nobody will ask for.
        self._left = [parcel.to_plain() for parcel in self.mailbox.empty()]
        self.talks.let_go(self)

    def unread(self) -> list[list[int]]:
        """Return the messages that nobody has asked for, without their content."""
        return [*self._left, *(parcel.to_plain() for parcel in self.mailbox.kept)]


def lost_in(call: CallUnderWay, task: Task, why: str) -> PeerLost:
    """Return the error for a task that is lost while others wait for it in a call."""
    return PeerLost(
        f"{task.short} is lost: {why}. It was waited for in {call.words}. Restart it, "
        f"and make a new group.",
        task=str(task),
    )


def call_is_wrong(error: KitError) -> bool:
    """Whether an error is about one task's own arguments: others hear another one."""
    return type(error).__name__ in ("InvalidArgumentError", "UnimplementedError")


def _again(error: Any) -> Any:
    """Return an error to raise: a new one, or it would collect all tracebacks."""
    return from_plain(to_plain(error)) if isinstance(error, KitError) else error
