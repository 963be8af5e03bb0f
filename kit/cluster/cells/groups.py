"""What the groups of a cell have done so far, asked of the servers of their tasks.

The notebook asks while the cell runs, and once more when it is over. Servers answer in
threads of their own, so a task that computes, or waits in a call, answers too.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kit.errors import KitError
from kit.groups.replay import GivenValue, ReplayedCall, replayed
from kit.groups.traffic import GroupAccount, GroupTraffic, heard, joined, traffic_in
from kit.server.directory import Directory
from kit.task import Task
from kit.trace.clock import ClockOffset
from kit.trace.trace import Trace
from kit.wire.handshake.messages import Role
from kit.wire.rpc import Caller

_CLIENT = Task("client", 0)
_ASK_S = 2.0
_MOST_LIVE = 3_000  # rows of each table and task that are asked for while a cell runs


class TaskServers:
    """Links to the servers of some tasks, opened when they are needed."""

    def __init__(self, directory: Callable[[], Directory]) -> None:
        self._directory = directory
        self._callers: dict[Task, Caller] = {}
        self._guard = threading.Lock()  # boards ask in threads of their own
        self._is_closed = False

    def ask(self, task: Task, op: str, values: dict[str, Any]) -> Any:
        """Return answer and blob; None if a task does not answer, or knows nothing."""
        with suppress(KitError):
            return self._caller(task).call(op, _ASK_S, values)
        return None

    def _caller(self, task: Task) -> Caller:
        with self._guard:
            caller = self._callers.get(task)
            if caller is None or (caller.is_closed and not self._is_closed):
                link = self._directory().dial(
                    task, _CLIENT, Role.OBSERVER, deadline_s=_ASK_S
                )
                caller = self._callers[task] = Caller(link)
            return caller

    def close(self) -> None:
        """Close the links."""
        with self._guard:
            self._is_closed = True
            for caller in self._callers.values():
                caller.close()


@dataclass
class GroupLook:
    """One group, as it was when its tasks were asked last.

    Attributes
    ----------
    trace : Trace
        Its newest rows; its totals are exact.
    traffic : GroupTraffic
        Measured bytes of each link beside the formula.
    doing : dict of str to str
        The call in which a task is now, by its short name.
    lost : tuple of str
        The tasks that do not answer.
    calls : tuple of ReplayedCall
        When the cell is over: the newest calls whose numbers are kept, once more.
    """

    trace: Trace
    traffic: GroupTraffic
    doing: dict[str, str] = field(default_factory=dict)
    lost: tuple[str, ...] = ()
    calls: tuple[ReplayedCall, ...] = ()

    @property
    def words(self) -> str:
        """The group in one plain line.

        >>> GroupLook(Trace(("worker:0", "worker:1"), calls=()), GroupTraffic(())).words
        'Group of worker:0, worker:1: no call, 0 bytes.'
        """
        trace, traffic = self.trace, self.traffic
        n_calls = max((row.last for row in trace.calls or ()), default=0)
        n_messages = int((trace.receipts["bytes"] >= 0).sum())
        parts = [f"{n_calls:,} call{'s' * (n_calls != 1)}"] * bool(n_calls)
        if n_messages:
            parts.append(f"{n_messages:,} message{'s' * (n_messages != 1)}")
        same = ", as by formula" if traffic.measured == traffic.formula else ""
        if not same:
            same = f" (formula {traffic.formula:,})"
        n_bytes = f"{traffic.measured:,} bytes{same if traffic.formula else ''}"
        what = ", ".join([*(parts or ["no call"]), n_bytes])
        return f"Group of {', '.join(trace.names)}: {what}."


class WatchedGroup:
    """A group that tasks have used in a cell; asks them what it has done.

    Attributes
    ----------
    tasks : tuple of Task
        Its tasks, by rank.
    is_over : bool
        Whether the cell has ended, so that nothing more comes.
    has_moved : bool
        Whether anything came to its end in the cell; a call that failed is no such.
    """

    def __init__(self, servers: TaskServers, plain: dict[str, Any]) -> None:
        self.id = str(plain["group"])
        self.tasks = tuple(Task.parse(name) for name in plain["tasks"])
        self.is_over, self.has_moved = False, False
        self._servers = servers
        self._last: GroupLook | None = None
        self._link, self._insecure = str(plain["link"]), bool(plain["insecure"])
        self._hosts = tuple(map(int, plain["hosts"]))

    def look(self) -> GroupLook:
        """Ask all tasks, and return what they have counted; in the end the last."""
        return self._last or self._asked()

    def end(self) -> None:
        """Ask once more, for all that is kept: the cell is over."""
        last = self._asked(most=None)
        last.calls = self._replayed(last.trace)
        self._last, self.is_over = last, True

    def _asked(self, most: int | None = _MOST_LIVE) -> GroupLook:
        accounts, lost = list[GroupAccount](), list[str]()
        values: dict[str, Any] = {"group": self.id, "details": True}
        if most is not None:
            values["most"] = most
        for task in self.tasks:
            asked = time.monotonic_ns()
            answer = self._servers.ask(task, "group.account", values)
            if answer is None:
                lost.append(task.short)
                accounts.append(GroupAccount({}, b"", ClockOffset()))
            else:
                mine, blob = answer
                accounts.append(GroupAccount(mine, blob, heard(asked, mine)))
        statuses = [account.status for account in accounts]
        by = next((n for n, status in enumerate(statuses) if status), 0)
        names = [task.short for task in self.tasks]
        doing = {
            name: status["doing"]
            for name, status in zip(names, statuses, strict=True)
            if status.get("doing")
        }
        long = [str(task) for task in self.tasks]
        return GroupLook(
            joined(long, self._link, accounts, self._insecure),
            traffic_in(names, statuses, by),
            doing,
            tuple(lost),
        )

    def _replayed(self, trace: Trace) -> tuple[ReplayedCall, ...]:
        """Return the newest calls of which all tasks have kept what they gave."""
        kept: list[dict[tuple[int, int], _Kept]] = []
        for task in self.tasks:
            answer = self._servers.ask(task, "group.inputs", {"group": self.id})
            if answer is None:
                return ()
            kept.append(_kept_in(*answer))
        before = [row.first_step for row in sorted(trace.epochs)]
        calls = list[ReplayedCall]()
        for key in sorted(set.intersection(*map(set, kept))):
            plain = [item[key] for item in kept]
            number = before[key[0]] + key[1] if key[0] < len(before) else key[1]
            row = next(
                (r for r in trace.calls or () if r.first <= number <= r.last), None
            )
            call = replayed(
                number,
                trace.names,
                plain[0].what,
                plain[0].options,
                [item.value for item in plain],
                row.words if row is not None else "",
                self._hosts,
            )
            if call is not None:
                calls.append(call)
        return tuple(calls)


class _Kept(NamedTuple):
    """What one task gave to a call."""

    what: str
    options: dict[str, Any]
    value: GivenValue


def _kept_in(status: dict[str, Any], blob: bytes) -> dict[tuple[int, int], _Kept]:
    """Return by generation and number what a task gave to its newest calls."""
    calls, at = {}, 0
    for call in status["inputs"]:
        data = bytes(blob[at : at + call["n_bytes"]])
        at += call["n_bytes"]
        value = GivenValue(call["form"], data)
        key = call["generation"], call["number"]
        calls[key] = _Kept(call["what"], call["options"], value)
    return calls


class CellGroups:
    """The groups that one cell uses, as they come."""

    def __init__(
        self, directory: Callable[[], Directory], tasks: Sequence[Task], cell: str
    ) -> None:
        self._servers = TaskServers(directory)
        self._tasks, self._cell = tuple(tasks), cell
        self._groups: dict[str, WatchedGroup] = {}

    def new(self) -> list[WatchedGroup]:
        """Return the groups that were not known before."""
        groups = []
        for task in self._tasks:
            answer = self._servers.ask(task, "group.used", {"scope": self._cell})
            for plain in answer[0]["groups"] if answer else ():
                if plain["group"] not in self._groups:
                    group = WatchedGroup(self._servers, plain)
                    self._groups[group.id] = group
                    groups.append(group)
                self._groups[plain["group"]].has_moved |= bool(plain["has_moved"])
        return groups

    def close(self) -> None:
        """Ask the groups for the last time: the cell is over."""
        for group in self._groups.values():
            group.end()
        self._servers.close()
