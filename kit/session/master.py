"""The master service of a task: sessions of clients, and the runs they ask for.

A session's graph only grows. For each kind of run a plan is made once, its segments are
registered with the tasks, and a run then is one message to each of them. The target's
own segment runs in the thread of the client's question.
"""

from __future__ import annotations

import itertools
import secrets
import threading
from collections.abc import Sequence
from typing import Any

from kit.errors import (
    AbortedError,
    CancelledError,
    FailedPreconditionError,
    InvalidArgumentError,
    KitError,
    LinkLost,
    PeerLost,
    to_plain,
)
from kit.graph.dtypes import Array
from kit.graph.node import Edge, Node
from kit.session import segment_text
from kit.session.channel import Channel, send_parcel
from kit.session.devices import Device
from kit.session.members import Members
from kit.session.plan import Plan, make_plan
from kit.session.step import Records, Step, Ways
from kit.session.worker import Worker
from kit.task import Task


class Master:
    """All sessions whose target is this task."""

    def __init__(self, worker: Worker, members: Members) -> None:
        """`members` knows the cluster's tasks and devices."""
        self.worker, self.members = worker, members
        self._sessions: dict[str, MasterSession] = {}
        self._lock = threading.Lock()

    def create(self, *, soft: bool = False, filters: Sequence[str] = ()) -> str:
        """Begin a session; returns its handle."""
        handle = secrets.token_hex(8)
        with self._lock:
            self._sessions[handle] = MasterSession(self, handle, soft, tuple(filters))
        return handle

    def session(self, handle: str) -> MasterSession:
        """Return a session; `AbortedError` when this task does not know it."""
        found = self._sessions.get(handle)
        if found is None:
            raise AbortedError(
                f"{self.worker.task} does not know session {handle}: it was restarted or "
                f"the session was reset. Make a new session.",
                task=str(self.worker.task),
            )
        return found

    def end(self, handle: str) -> None:
        """Close a session, whose runs under way are cancelled; unknown ones pass."""
        with self._lock:
            session = self._sessions.pop(handle, None)
        if session is not None:
            session.close()

    def reset(self, containers: Sequence[str], deadline_s: float) -> None:
        """Clear containers on all tasks and end all sessions of this master."""
        with self._lock:
            handles = list(self._sessions)
        for handle in handles:
            self.end(handle)
        for task in self.members.tasks:
            if task == self.worker.task:
                self.worker.reset(containers)
            else:
                self.members.ask(
                    task, {"op": "reset", "names": list(containers)}, deadline_s
                )

    def close(self) -> None:
        """End all sessions."""
        for handle in list(self._sessions):
            self.end(handle)


class MasterSession:
    """One client's graph and its plans."""

    def __init__(
        self, master: Master, handle: str, soft: bool, filters: tuple[str, ...]
    ) -> None:
        self.handle = handle
        self._worker, self._members = master.worker, master.members
        self._soft, self._filters = soft, filters
        self._nodes: dict[str, Node] = {}
        self._plans: list[Plan] = []
        self._known: dict[Any, int] = {}
        self._registered: set[tuple[int, Task]] = set()
        self._numbers = itertools.count(secrets.randbits(40) << 20)
        self._steps: dict[int, tuple[Step, set[Task]]] = {}
        self._met: set[Task] = set()
        self._lock = threading.Lock()
        self._is_closed = False

    def extend(self, version: int, nodes: Sequence[Node]) -> int:
        """Add nodes to a graph that has `version` of them; returns the new number."""
        with self._lock:
            if version != len(self._nodes):
                raise AbortedError(
                    f"the graph has {len(self._nodes)} nodes here and {version} at the "
                    f"client: it was extended by somebody else."
                )
            twice = [one.name for one in nodes if one.name in self._nodes]
            if twice:
                raise InvalidArgumentError(
                    f"the graph has a node {twice[0]!r} already."
                )
            self._nodes.update((one.name, one) for one in nodes)
            return len(self._nodes)

    def devices(self, deadline_s: float) -> list[Device]:
        """Return the devices that this session may use."""
        return self._members.devices(deadline_s, self._filters)

    def prepare(
        self,
        feeds: Sequence[Edge],
        fetches: Sequence[Edge],
        targets: Sequence[str],
        deadline_s: float,
    ) -> int:
        """Return the number of the plan for a kind of run."""
        kind = tuple(feeds), tuple(fetches), tuple(targets)
        devices = self.devices(deadline_s)
        with self._lock:
            if kind not in self._known:
                plan = make_plan(
                    len(self._plans),
                    self._nodes,
                    *kind,
                    devices=devices,
                    target=self._worker.task,
                    soft=self._soft,
                )
                self._plans.append(plan)
                self._known[kind] = plan.number
            plan = self._plans[self._known[kind]]
            for task in plan.segments:
                self._register(plan, task, deadline_s)
            return plan.number

    def run(
        self,
        number: int,
        feeds: Sequence[Array],
        deadline_s: float,
        *,
        traced: bool = False,
    ) -> tuple[list[Any], Records | None]:
        """Run a plan once; returns its fetches, and what a traced run noted."""
        if self._is_closed:
            raise FailedPreconditionError("the session is closed; make a new one.")
        plan, me = self._plans[number], self._worker.task
        ways = _MasterWays(self, plan, feeds, deadline_s, traced)
        step = Step(
            next(self._numbers),
            self.handle,
            me,
            ways,
            deadline_s,
            traced=traced,
            look=ways.look,
        )
        self._steps[step.number] = step, set(plan.segments)
        found: dict[Task, list[Any]] = {}
        is_clean = False
        try:
            ways.begin(step)
            if me in plan.segments:
                mine = [feeds[i] for i in plan.feed_of[me]]
                found[me] = self._worker.run(number, step, mine)
            found |= ways.finish(step)
            is_clean = True
        except KitError as error:
            raise self._first(error, step, ways) from error
        finally:
            self._steps.pop(step.number, None)
            ways.close(is_clean=is_clean)
        return [found[task][i] for task, i in plan.fetch_from], step.records

    def close(self) -> None:
        """Cancel what is under way and let all tasks forget the session."""
        self._is_closed = True
        for number in list(self._steps):
            self.cancel(number, CancelledError("Session::Close() ended this run."))
        self._worker.end_session(self.handle)
        for task in self._met:
            self._members.tell(task, {"op": "end", "session": self.handle})

    def cancel(self, number: int, error: KitError) -> None:
        """End a step on all tasks that take part."""
        entry = self._steps.get(number)
        if entry is None:
            return
        step, tasks = entry
        step.end(error)
        self._worker.cancel(number, error)
        message = {"op": "cancel", "step": number, "error": to_plain(error)}
        for task in tasks - {self._worker.task}:
            self._members.tell(task, message)

    def _first(self, error: KitError, step: Step, ways: _MasterWays) -> KitError:
        """Cancel the rest, and return the error that came first."""
        if step.error is not None and step.error is not error:
            error = step.error
        original = ways.original(error)
        cancelled = CancelledError(f"another task failed: {original.message}")
        self.cancel(step.number, cancelled)
        return original

    def _register(self, plan: Plan, task: Task, deadline_s: float) -> None:
        if (plan.number, task) in self._registered:
            return
        segment = plan.segments[task]
        if task == self._worker.task:
            self._worker.register(self.handle, plan.number, segment)
        else:
            plain, arrays = segment_text.to_plain(segment)
            meta = {"op": "register", "session": self.handle, "plan": plan.number}
            self._members.ask(task, {**meta, "segment": plain}, deadline_s, arrays)
            self._met.add(task)
        self._registered.add((plan.number, task))


class _MasterWays(Ways):
    """The channels of one step, and how tensors move over them."""

    def __init__(
        self,
        session: MasterSession,
        plan: Plan,
        feeds: Sequence[Array],
        deadline_s: float,
        traced: bool,
    ) -> None:
        self._session, self._plan, self._feeds = session, plan, feeds
        self._deadline_s, self._traced = deadline_s, traced
        self._me, self._peers = session._worker.task, session._worker.peers
        self._channels: dict[Task, Channel] = {}

    def begin(self, step: Step) -> None:
        """Tell every other task to run its segment."""
        plan = self._plan
        for task in plan.segments:
            if task == self._me:
                continue
            channel = Channel(self._peers.take(task))
            self._channels[task] = channel
            meta = {
                "op": "segment",
                "session": step.session,
                "plan": plan.number,
                "step": step.number,
                "deadline_s": self._deadline_s,
            }
            if self._traced:
                meta["traced"] = True
            feeds = [self._feeds[i] for i in plan.feed_of[task]]
            self._naming(task, send_parcel, channel.link, meta, feeds, step.left_s)

    def send(self, step: Step, edge: Edge, to: Task, value: Any) -> None:
        """Send a tensor of our own segment."""
        channel = self._channels[to]
        self._naming(to, channel.send_tensor, edge, value, step.left_s)

    def receive(self, step: Step, edge: Edge, source: Task) -> Any:
        """Return a tensor that our own segment needs."""
        return self._naming(source, self._channels[source].receive, step, edge)

    def look(self) -> None:
        """While something waits: see whether another task has failed."""
        for task, channel in self._channels.items():
            if not channel.is_answered:
                self._naming(task, channel.peek)
            failure = channel.failure()
            if failure is not None:
                raise failure

    def finish(self, step: Step) -> dict[Task, list[Any]]:
        """Wait for all other tasks; returns their fetches."""
        found = {}
        for task, channel in self._channels.items():
            meta, arrays = self._naming(task, channel.answer, step)
            found[task] = arrays
            if step.records is not None:
                step.records.nodes += [tuple(one) for one in meta.get("nodes", [])]
                step.records.transfers += [tuple(one) for one in meta.get("moves", [])]
        for channel in self._channels.values():
            channel.settle(step.left_s)
        return found

    def original(self, error: KitError) -> KitError:
        """Return the error that caused the others, as far as it is known."""
        for channel in self._channels.values():
            failure = channel.failure()
            if failure is not None and not isinstance(failure, CancelledError):
                return failure
        return error

    def close(self, *, is_clean: bool) -> None:
        """Give the channels back; one whose run has not ended is of no more use."""
        for channel in self._channels.values():
            self._peers.put_back(
                channel.link, is_clean=is_clean and channel.is_answered
            )

    def _naming(self, task: Task, call: Any, *args: Any) -> Any:
        try:
            return call(*args)
        except LinkLost as error:
            self._peers.forget(task)
            raise PeerLost(
                f"{task} was lost while it ran its part: {error.message} Its variables "
                f"are lost with it; start it again, make a new session, and initialise "
                f"or restore.",
                task=str(task),
            ) from error
