"""Why a call of a group does not end: others are asked where they are. Never a hang.

The server's thread looks while a call lasts. What it finds ends the group's generation
on this task, which tells the others:

    a task does not answer any more          lost, after `dead_after_s`
    a generation has ended there             what it ended with
    it left the cell, or runs another one    it never comes
    it is in another call of that number     both are named with their lines
    all that are waited for wait as well     a deadlock: who waits where
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kit.errors import (
    AbortedError,
    DeadlineExceededError,
    KitError,
    MemberMismatch,
    UnavailableError,
    from_plain,
)
from kit.groups import scope
from kit.groups.calls import CallSeen, Waiting, differ, numbered, stuck
from kit.groups.state import GroupState, lost_in

LOOK_S = 0.25  # how often a call that lasts is looked into
NOTICE_S = 10.0  # seconds until the tasks that have not come are named
_ASK_S = 1.0

Status = dict[str, Any]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@dataclass
class CallWatch:
    """Looks into the calls of one group, for one task."""

    state: GroupState
    say: Callable[[str], None] = _say
    clock: Callable[[], float] = time.monotonic
    _heard: dict[int, float] = field(default_factory=dict)
    _called: tuple[int, float] = (0, 0.0)
    _is_noticed: bool = False
    _known: set[int] = field(default_factory=set)  # whose end of the group was seen
    _deadlock: object = None

    def look(self) -> None:
        """Ask the others, if a call has lasted for a while."""
        state = self.state
        call = state.call
        if call is None or self.clock() - call.since < LOOK_S:
            return
        if self._called != (call.number, call.since):
            self._called, self._is_noticed = (call.number, call.since), False
            self._heard = dict.fromkeys(range(len(state.members.tasks)), call.since)
            self._deadlock = None
        generation = state.generation
        statuses = self.ask_all()
        if state.call is not call or state.generation != generation:
            return  # it has ended meanwhile: what was heard is about an older one
        error = self._judged(statuses)
        if error is not None:
            state.fail(generation, error, tell=True)

    def ask_all(self) -> list[Status]:
        """Return where each task is; empty for one that does not answer."""
        members, statuses = self.state.members, list[Status]()
        for rank in range(len(members.tasks)):
            if rank == members.me:
                statuses.append(self.state.status())
                continue
            try:
                status, _ = self.state.talks.ask(
                    members, rank, "group.look", {}, deadline_s=_ASK_S
                )
                self._heard[rank] = self.clock()
                statuses.append(status)
            except KitError as error:
                # One that refuses has ended: no need to wait for more.
                refused = isinstance(error, UnavailableError)
                statuses.append({"refused": error.message} if refused else {})
        return statuses

    def _judged(self, statuses: Sequence[Status]) -> KitError | None:
        judges = (
            self._lost,
            self._ended,
            self._differing,
            self._left,
            self._deadlocked,
        )
        for judge in judges:
            error = judge(statuses)
            if error is not None:
                return error
        self._notice(statuses)
        return self._late(statuses)

    # -- each judge returns an error or None -----------------------------------

    def _lost(self, statuses: Sequence[Status]) -> KitError | None:
        limits, now = self.state.members.settings, self.clock()
        call = self.state.call
        for rank, status in enumerate(statuses):
            if "known" in status:
                continue
            silent_s = now - self._heard.get(rank, now)
            limit_s = limits.suspect_after_s if "refused" in status else None
            if call is not None and silent_s > (limit_s or limits.dead_after_s):
                task = self.state.members.tasks[rank]
                return lost_in(call, task, self._why(status, silent_s))
        return None

    def _why(self, status: Status, silent_s: float) -> str:
        if "refused" in status:
            return "its process has ended, or nothing listens there"
        return f"it has not answered for {silent_s:.0f} s (stopped, or cut off)"

    def _ended(self, statuses: Sequence[Status]) -> KitError | None:
        generation = self.state.generation
        for rank, status in enumerate(statuses):
            failure = status.get("failure")
            if failure and failure[0] >= generation:
                return from_plain(failure[1])
            if status.get("generation", 0) > generation:
                task = self.state.members.tasks[rank].short
                return AbortedError(f"what was under way has ended on {task}.")
        return None

    def _differing(self, statuses: Sequence[Status]) -> KitError | None:
        number = self.state.number
        calls = self.calls_of(statuses, number)
        texts = {self._comparable(call) for call in calls.values()}
        call = numbered(number, self.state.generation)
        return MemberMismatch(differ(call, calls)) if len(texts) > 1 else None

    def _comparable(self, seen: CallSeen) -> str:
        what, _, _ = seen.text.partition("(")
        return what if what in OWN_VALUES else seen.text

    def calls_of(self, statuses: Sequence[Status], number: int) -> dict[str, CallSeen]:
        """Return the call of each task that is in the collective of this number."""
        calls = {}
        for task, status in zip(self.state.members.tasks, statuses, strict=True):
            call = status.get("call")
            if call and number and self._number(status) == call["number"] == number:
                calls[task.short] = CallSeen(call["text"], call["line"])
        return calls

    def _number(self, status: Status) -> int:
        """Return the newest call of a task; 0 if it is in an older generation."""
        is_old = status.get("generation", 0) < self.state.generation
        return 0 if is_old else int(status.get("number", 0))

    def _left(self, statuses: Sequence[Status]) -> KitError | None:
        mine, call = scope.now(), self.state.call
        if call is None:
            return None
        lasts_s = self.clock() - call.since
        gone = {}
        for rank, status in self._missing(statuses):
            how = ""
            if status["known"]:
                self._known.add(rank)
            elif rank in self._known:
                how = "has let go of this group"
            if mine is None or how:
                pass
            elif status.get("scope") == mine.id:
                how = status.get("left", "")
                how = f"left the cell: {how}" if how else ""
            elif lasts_s > NOTICE_S:
                how = "does not run this cell"
            if how:
                gone[self.state.members.tasks[rank]] = how
        if not gone:
            return None
        parts = "; ".join(f"{task.short} {how}" for task, how in gone.items())
        task = next(iter(gone))
        return AbortedError(
            f"{self._own()} waits in vain: {parts}. All tasks of the group have to "
            f"make this call. The group can be used again.",
            task=str(task),
        )

    def _missing(self, statuses: Sequence[Status]) -> list[tuple[int, Status]]:
        """Return the tasks that our call waits for."""
        state = self.state
        call, me = state.call, state.members.me
        if call is None:
            return []
        pairs = enumerate(statuses)
        others = [(n, status) for n, status in pairs if n != me and "known" in status]
        if call.receives:
            if call.source is not None:
                return [(n, status) for n, status in others if n == call.source]
            # From anyone: it is in vain only when nobody is left.
            alive = [status for _, status in others if not status.get("left")]
            return [] if alive else others
        return [
            (n, status) for n, status in others if self._number(status) < call.number
        ]

    def _deadlocked(self, statuses: Sequence[Status]) -> KitError | None:
        waits = [self._waiting(rank, statuses) for rank in range(len(statuses))]
        members = stuck(waits)
        state = self.state
        if state.members.me not in members:
            self._deadlock = None
            return None
        # Twice the same: what was under way between two tasks has arrived by then.
        key = tuple(
            (statuses[n]["number"], statuses[n]["call"]["text"]) for n in members
        )
        if self._deadlock != (members, key):
            self._deadlock = members, key
            return None
        parts = []
        for rank in members:
            call = statuses[rank]["call"]
            seen = CallSeen(call["text"], call["line"])
            parts.append(f"{state.members.tasks[rank].short} is in {seen.words}")
        return AbortedError(
            f"deadlock: {'; '.join(parts)}. Each waits for another, so none goes on. "
            f"Every receive needs a send that comes before it."
        )

    def _waiting(self, rank: int, statuses: Sequence[Status]) -> Waiting | None:
        status = statuses[rank]
        call = status.get("call")
        if not call or status.get("sending"):
            return None
        others = [n for n in range(len(statuses)) if n != rank]
        if call["receives"]:
            if not call["waits"]:
                return None
            source = call["source"]
            return Waiting(tuple(others), True) if source < 0 else Waiting((source,))
        if not call["number"]:
            return None  # a send, which waits for nobody's call
        late = [n for n in others if self._number(statuses[n]) < call["number"]]
        return Waiting(tuple(late)) if late else None

    def _notice(self, statuses: Sequence[Status]) -> None:
        call = self.state.call
        if call is None or self._is_noticed:
            return
        if self.clock() - call.since < NOTICE_S:
            return
        names = []
        for rank, status in self._missing(statuses):
            where = status.get("line") or "not in its program yet"
            inside = status.get("call")
            if inside:
                where = CallSeen(inside["text"], inside["line"]).words
            names.append(f"{self.state.members.tasks[rank].short} ({where})")
        if names:
            self._is_noticed = True
            self.say(f"{self._own()} has waited {NOTICE_S:g} s for {', '.join(names)}.")

    def _late(self, statuses: Sequence[Status]) -> KitError | None:
        call, limit_s = self.state.call, self.state.members.timeout_s
        if call is None or self.clock() - call.since < limit_s:
            return None
        names = [self.state.members.tasks[n].short for n, _ in self._missing(statuses)]
        return DeadlineExceededError(
            f"{self._own()} waited {limit_s:g} s for {', '.join(names) or 'data'}; "
            f"allow more with kit.group(timeout_s=...)."
        )

    def _own(self) -> str:
        call = self.state.call
        return "a call" if call is None else call.words


# Calls in which each task may give a value of its own form.
OWN_VALUES = ("broadcast", "scatter", "gather", "all_gather", "all_to_all")
