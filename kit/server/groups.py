"""A task's groups: their links and messages, and what other tasks ask about them.

group.look      where is this task: its call and line, or how it left the cell
group.end       what was under way has failed elsewhere
group.put       a message for this task
group.account   what it has counted
group.used      which groups have made calls in a cell
group.inputs    the numbers that were given to the newest calls, if they are few
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

from kit.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    KitError,
    NotFoundError,
)
from kit.groups import messages, scope
from kit.groups.generation import Members
from kit.groups.group import TaskGroup
from kit.groups.mailbox import Mailbox, Parcel
from kit.groups.state import GroupState
from kit.groups.traffic import account
from kit.groups.values import size_of, unpacked
from kit.groups.watch import LOOK_S, CallWatch
from kit.message_fields import ERROR, flag, optional, read_as, text, whole
from kit.server.arrivals import Arrivals
from kit.server.data_links import open_streams
from kit.server.directory import Directory
from kit.task import Task
from kit.wire.frame import Buffer, Header, cluster_number
from kit.wire.handshake.messages import Role
from kit.wire.link import Link
from kit.wire.rpc import Answer, Caller, Handler
from kit.wire.shaping import LinkSettings
from kit.wire.stream import Stream

_MOST_UNKNOWN = 256  # groups whose messages have come before this task has made them
_MOST_ENDED = 4  # groups that nobody holds any more, whose account is kept
_END_S = 3.0
_GROUP: Final = {"group": text(200), "generation": whole(0)}
FORM: Final = read_as(text(), lambda form: unpacked(form.encode()))
Way = tuple[str, int, bool]  # group, rank, and whether messages go there


class TaskGroups:
    """The groups of one server's task; the `Talks` of their states."""

    def __init__(self, me: Task, directory: Callable[[], Directory]) -> None:
        """Make none; `directory` is called when it is needed."""
        self.task, self._directory = me, directory
        self._states: dict[str, GroupState] = {}
        self._watches: dict[str, CallWatch] = {}
        self._mailboxes: OrderedDict[str, Mailbox] = OrderedDict()
        self._ended: OrderedDict[str, GroupState] = OrderedDict()
        self._made: dict[tuple[Any, ...], int] = {}
        self._arrivals = Arrivals()
        self._callers: dict[Way, Caller] = {}
        self._guard = threading.RLock()
        self._stirred = threading.Event()
        self._watcher: threading.Thread | None = None
        self._is_closed = False

    # -- made ------------------------------------------------------------------

    def make(
        self, tasks: Sequence[Task], link: str | None, timeout_s: float
    ) -> TaskGroup:
        """Return the group of these tasks that is next in this cell or program."""
        where = scope.now()
        own = where.id if where is not None else ""
        key = own, tuple(tasks)
        with self._guard:
            number = self._made[key] = self._made.get(key, 0) + 1
        names = ",".join(task.short for task in tasks)
        return self._group(f"{own}/{names}/{number}", tuple(tasks), link, timeout_s)

    def _group(
        self, name: str, tasks: tuple[Task, ...], link: str | None, timeout_s: float
    ) -> TaskGroup:
        if self.task not in tasks:
            names = ", ".join(task.short for task in tasks)
            raise InvalidArgumentError(
                f"{self.task.short} is not in this group of {names}; call kit.group() "
                f"on its tasks alone.",
                task=str(self.task),
            )
        directory = self._directory()
        hosts = directory.hosts(tasks)
        distinct = list(dict.fromkeys(hosts))
        settings = LinkSettings.parse(link)
        members = Members(
            uuid5(NAMESPACE_URL, f"{name}/{settings}").hex,
            tasks,
            tasks.index(self.task),
            tuple(distinct.index(host) for host in hosts),
            settings,
            directory.settings,
            timeout_s,
        )
        with self._guard:
            if self._is_closed:
                raise FailedPreconditionError(
                    f"the server of {self.task} was stopped; make another one."
                )
            box = self._mailboxes.pop(members.id, None) or Mailbox()
            state = GroupState(members, self, box)
            messages.count_kept(state)
            watch = CallWatch(state)
            self._states[members.id], self._watches[members.id] = state, watch
            if self._watcher is None:
                self._watcher = threading.Thread(
                    target=self._watch, name=f"kit-group-{self.task.short}", daemon=True
                )
                self._watcher.start()

        def make(more: str, fewer: tuple[Task, ...]) -> TaskGroup:
            return self._group(more, fewer, link, timeout_s)

        return TaskGroup(state, watch, make)

    def let_go(self, state: GroupState) -> None:
        """See `Talks`. What the newest of them have counted is kept."""
        name = state.members.id
        with self._guard:
            if self._states.get(name) is state:
                del self._states[name], self._watches[name]
                self._ended.pop(name, None)
                self._ended[name] = state
                while len(self._ended) > _MOST_ENDED:
                    self._ended.popitem(last=False)
            ways = [way for way in self._callers if way[0] == name]
            callers = [self._callers.pop(way) for way in ways]
        for caller in callers:
            caller.close()
        self.stir()

    def close(self) -> None:
        """End all groups; no other can be made."""
        with self._guard:
            self._is_closed = True
            states, watcher = list(self._states.values()), self._watcher
        for state in states:
            error = FailedPreconditionError(f"the server of {self.task} was stopped.")
            state.fail(state.generation, error)
            state.close()
        self._arrivals.close()
        self.stir()
        if watcher is not None and watcher is not threading.current_thread():
            watcher.join(_END_S)

    # -- links: the `GroupServices` of a generation ---------------------------------

    @property
    def cluster_number(self) -> int:
        """See `GroupServices`."""
        return cluster_number(self._directory().credentials.cluster_id)

    def streams(
        self,
        run: str,
        tasks: Sequence[Task],
        check: Callable[[], None],
        dialled: Sequence[int],
        awaited: Sequence[int],
        deadline: float,
    ) -> dict[int, Stream]:
        """See `GroupServices`."""
        directory = self._directory()

        def dial(peer: int) -> Link:
            at = tasks[peer], self.task, Role.GROUP, run
            return directory.reach(*at, deadline=deadline, check=check)

        def arrived(peer: int) -> tuple[Link, Header]:
            while (arrival := self._arrivals.maybe_take(run, tasks[peer])) is None:
                check()
                if time.monotonic() > deadline:
                    raise DeadlineExceededError(
                        f"{tasks[peer].short} did not come to this call of the group.",
                        task=str(tasks[peer]),
                    )
            return arrival

        settings = directory.settings
        how = settings.connect_deadline_s, settings.transport, settings.streams
        return open_streams(dialled, awaited, dial, arrived, *how)

    def take_data_link(self, link: Link) -> None:
        """Keep a data link until its group asks for it."""
        self._arrivals.put(link)

    def forget(self, run: str) -> None:
        """See `GroupServices`."""
        self._arrivals.forget(run)

    # -- questions to other tasks ----------------------------------------------

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
        """See `Talks`. Messages have a link of their own: they may be large."""
        way = members.id, rank, for_messages
        with self._guard:
            caller = self._callers.get(way)
        if caller is None or caller.is_closed:
            link = self._directory().dial(
                members.tasks[rank],
                self.task,
                Role.CONTROL,
                members.id,
                deadline_s=deadline_s,
            )
            own = Caller(link)
            with self._guard:
                caller = self._callers.get(way)
                # Else another thread has opened one meanwhile.
                if caller is None or caller.is_closed:
                    caller = own
                    if members.id in self._states:
                        self._callers[way] = own
                is_kept = self._callers.get(way) is own
            if not is_kept:  # nobody else would close it
                own.close()
        return caller.call(op, deadline_s, {"group": members.id, **values}, blob=blob)

    def stir(self) -> None:
        """See `Talks`."""
        self._stirred.set()

    def _watch(self) -> None:
        while not self._is_closed:
            self._stirred.wait(LOOK_S)
            self._stirred.clear()
            with self._guard:
                watches = list(self._watches.values())
            if not watches:
                with self._guard:
                    if not self._watches:
                        self._watcher = None
                        return
            for watch in watches:
                with suppress(KitError):
                    watch.state.tell()
                    watch.look()

    # -- answers ---------------------------------------------------------------

    def handlers(self, peer: Task) -> dict[str, Handler]:
        """Return what answers the questions of another task."""
        put = {"source": whole(0), "tag": whole(0), "form": FORM, "hold": whole(0)}
        put["sent"] = whole(0)
        return {
            "group.look": Handler({"group": text(200)}, self._look),
            "group.end": Handler({**_GROUP, "error": ERROR}, self._end),
            "group.put": Handler(
                {**_GROUP, **put}, lambda values, blob: self._put(peer, values, blob)
            ),
            "group.account": Handler(
                {
                    "group": text(200),
                    "details": flag(),
                    "most": optional(whole(1)),
                },
                self._account,
            ),
            "group.used": Handler({"scope": text(200)}, self._used),
            "group.inputs": Handler({"group": text(200)}, self._inputs),
        }

    def _state(self, name: str) -> GroupState | None:
        with self._guard:
            return self._states.get(name)

    def _look(self, values: dict[str, Any], _: bytearray) -> Answer:
        state = self._state(values["group"])
        if state is not None:
            return state.status(), b""
        here = scope.now()
        reply = {"known": False, "scope": "", "left": ""}
        if here is not None:
            reply |= {"scope": here.id, "left": here.left}
        return reply, b""

    def _end(self, values: dict[str, Any], _: bytearray) -> Answer:
        state = self._state(values["group"])
        if state is not None:
            state.fail(values["generation"], values["error"])
        return {}, b""

    def _put(self, peer: Task, values: dict[str, Any], blob: bytearray) -> Answer:
        name = values["group"]
        if size_of(values["form"]) != len(blob):
            raise InvalidArgumentError(
                f"{peer.short} has sent {len(blob):,} bytes for a message of "
                f"{size_of(values['form']):,}."
            )
        with self._guard:  # it may be made just now
            state = self._states.get(name)
            if state is None:
                now = time.monotonic_ns()
                at = values["generation"], values["source"], values["tag"]
                box = self._mailboxes.setdefault(name, Mailbox())
                box.put(Parcel(*at, values["form"], blob, now, now + values["hold"]))
                while len(self._mailboxes) > _MOST_UNKNOWN:
                    self._mailboxes.popitem(last=False)
                return {}, b""
        tasks, source = state.members.tasks, values["source"]
        if source >= len(tasks) or tasks[source] != peer:
            raise InvalidArgumentError(
                f"{peer.short} is not rank {source} of this group."
            )
        messages.put(state, values, blob)
        return {}, b""

    def _account(self, values: dict[str, Any], _: bytearray) -> Answer:
        state = self._counted(values["group"])
        return account(state, details=values["details"], most=values.get("most"))

    def _counted(self, name: str) -> GroupState:
        """Return a group, also one that nobody holds any more."""
        with self._guard:
            state = self._states.get(name) or self._ended.get(name)
        if state is None:
            raise NotFoundError(f"{self.task.short} has no such group any more.")
        return state

    def _used(self, values: dict[str, Any], _: bytearray) -> Answer:
        """Say which groups have made calls in a cell, in the order of their making."""
        with self._guard:
            states = [*self._ended.values(), *self._states.values()]
        groups = [
            {
                "group": state.members.id,
                "tasks": [task.short for task in state.members.tasks],
                "link": str(state.members.link),
                "insecure": state.members.settings.insecure,
                "hosts": list(state.members.hosts),
                "has_moved": state.moved_in == values["scope"],
            }
            for state in states
            if state.used_in == values["scope"]
        ]
        return {"groups": groups}, b""

    def _inputs(self, values: dict[str, Any], _: bytearray) -> Answer:
        """Return the small inputs that are kept of a group's newest calls."""
        inputs = self._counted(values["group"]).history.inputs
        kept = [(value.to_plain(), value.data) for value in list(inputs.values())]
        plain = [{**about, "n_bytes": len(data)} for about, data in kept]
        return {"inputs": plain}, b"".join(data for _, data in kept)
