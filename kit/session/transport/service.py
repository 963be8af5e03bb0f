"""What a task does for sessions: its master and worker service, and their links.

from clients    RUN    create extend prepare close devices cluster_reset
from masters    SEGMENT    status register end reset
from peers      TENSOR, which is not answered
from both       join, at the beginning of a link: the task is one of another cluster
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from kit.arithmetic import here
from kit.errors import (
    CancelledError,
    DeadlineExceededError,
    InvalidArgumentError,
    KitError,
    ProtocolError,
    UnimplementedError,
    to_plain,
)
from kit.graph.node import UNREADABLE
from kit.graph.node import from_plain as nodes_from_plain
from kit.message_fields import (
    Fields,
    anything,
    check,
    flag,
    list_of,
    row_of,
    seconds,
    shown,
    table_of,
    text,
    whole,
)
from kit.session.client.feeds_on_tasks import join_feeds
from kit.session.client.options import SessionCluster, SessionOptions
from kit.session.master.cluster_tasks import ClusterTasks
from kit.session.master.master import Master
from kit.session.master.partition import Segment
from kit.session.master.plan import RunSignature
from kit.session.transport import shared_tensors
from kit.session.transport.message import Act, Message, ask, good, recv, send
from kit.session.transport.peers import Dial, Peers
from kit.session.transport.watch import Watch
from kit.session.worker.step import Records, Step
from kit.session.worker.task_runtime import TaskRuntime
from kit.session.worker.worker import ParticipantWays, Worker
from kit.task import Task
from kit.wire.link import Link

_IDLE_S = 3600.0
_ANSWER_S = 60.0  # a client that does not read holds this thread no longer

_log = logging.getLogger("kit.session")

Meta = dict[str, Any]
Answer = tuple[Meta, list[Any]]

_NUMBER: Final = whole(0)
_SESSION: Final = {"session": _NUMBER}
_JOIN: Final = "join"

# Opens a link, as a task, to an address within a number of seconds.
DialAs = Callable[[Task, str, float], Link]


def join(link: Link, cluster: SessionCluster, deadline_s: float) -> Link:
    """Let the other end of a new link be a task of a session's cluster; return it.

    Raises as `ask` does, and what it answers; the link is closed then.
    """
    try:
        good(ask(link, {"op": _JOIN, **cluster.to_plain()}, deadline_s))
    except BaseException:
        link.close()
        raise
    link.peer = cluster.task
    return link


class Graphs:
    """Both services of one task, and the threads that answer on their links."""

    def __init__(
        self,
        me: Task,
        dial: Dial,
        tasks: Callable[[], Sequence[Task]],
        dial_as: DialAs,
        n_cpus: int = 1,
    ) -> None:
        """`dial` opens a link to a task; `tasks` is called whenever they are needed.

        `dial_as` opens one to a task of a cluster that a session brings.
        """
        self.runtime, self._dial_as = TaskRuntime(me, n_cpus=n_cpus), dial_as
        self.master = _master(self.runtime, dial, tasks)
        self.worker = self.master.worker
        self._service = Service(self.master, self._joined)
        self.parts: dict[SessionCluster, _Part] = {}
        self.links: set[Link] = set()
        self._threads: set[threading.Thread] = set()
        self._lock = threading.Lock()
        self._is_closed = False

    def take(self, link: Link) -> None:
        """Answer on a link, in its own thread, until the other end closes it."""
        name = f"kit-session-{link.peer.short}"
        thread = threading.Thread(
            target=self._serve, args=(link,), name=name, daemon=True
        )
        with self._lock:
            if self._is_closed:
                link.close()
                return
            self.links.add(link)
            self._threads.add(thread)
            thread.start()  # under the lock: `close` joins none that has not started

    def close(self, deadline_s: float) -> None:
        """End all sessions and runs, and wait for the threads."""
        with self._lock:
            masters = [self.master, *(part.master for part in self.parts.values())]
        # Sessions first: tasks hear of their end over links that the worker closes.
        for master in masters:
            master.close()
        for master in masters:
            master.worker.close()
        with self._lock:
            self._is_closed = True
            links, threads = list(self.links), list(self._threads)
        for link in links:
            link.close()
        for thread in threads:
            thread.join(deadline_s)

    @contextmanager
    def _joined(self, cluster: SessionCluster) -> Iterator[Service]:
        """Lend the service of a task of another cluster: kept while it has sessions."""
        with self._lock:
            part = self.parts.get(cluster)
            if part is None:
                part = self.parts[cluster] = _Part(self._master_in(cluster))
            part.n_links += 1
        try:
            yield Service(part.master)
        finally:
            worker = part.master.worker
            with self._lock:
                part.n_links -= 1
                is_over = not (part.n_links or len(part.master) or worker.n_sessions)
                if is_over:
                    self.parts.pop(cluster, None)
            if is_over:  # not `Worker.close`: the variables belong to the server
                worker.peers.close()
                worker.watch.close()

    def _master_in(self, cluster: SessionCluster) -> Master:
        where = dict(cluster.addresses)

        def dial(task: Task, deadline_s: float) -> Link:
            link = self._dial_as(cluster.task, where[task], deadline_s)
            return join(link, cluster.seen_by(task), deadline_s)

        return _master(self.runtime.named(cluster.task), dial, lambda: list(where))

    def _serve(self, link: Link) -> None:
        try:
            self._service.serve(link)
        finally:
            with self._lock:
                self.links.discard(link)
                self._threads.discard(threading.current_thread())


def _master(
    runtime: TaskRuntime, dial: Dial, tasks: Callable[[], Sequence[Task]]
) -> Master:
    watch = Watch()
    worker = Worker(runtime, Peers(dial, watch), watch)
    return Master(worker, ClusterTasks(worker, tasks))


@dataclass
class _Part:
    """A server's part in a cluster that a session has brought."""

    master: Master
    n_links: int = 0


# Lends the service of a server as a task of another cluster.
Joined = Callable[[SessionCluster], AbstractContextManager["Service"]]


class Question(NamedTuple):
    """What a question may carry, and what answers it."""

    fields: Fields
    answer: Callable[[Link, Message], Meta]


class Service:
    """Both services of one task, at the end of their links."""

    def __init__(self, master: Master, joined: Joined | None = None) -> None:
        """Without `joined` it refuses to be a task of a cluster that a session has."""
        self._master, self._worker, self._joined = master, master.worker, joined
        limit, names = {"deadline_s": seconds()}, {"names": list_of(text(1000))}
        edges, texts = list_of(row_of(text(), whole(0))), list_of(text())
        kind = {"feeds": edges, "fetches": edges, "targets": texts, "done": texts}
        self.questions = {
            "create": Question({"options": anything()}, self._create),
            "extend": Question(
                {**_SESSION, "version": whole(0), "nodes": list_of(anything(), 2**24)},
                self._extend,
            ),
            "prepare": Question({**_SESSION, **kind, **limit}, self._prepare),
            "close": Question(_SESSION, self._close),
            "devices": Question({**_SESSION, **limit}, self._devices),
            "waits": Question(_SESSION, self._waits),
            "cluster_reset": Question({**names, **limit}, self._cluster_reset),
            "status": Question({}, self._status),
            "register": Question(
                {
                    **_SESSION,
                    "incarnation": whole(0),
                    "isolated": flag(),
                    "segment": table_of(anything()),
                },
                self._register,
            ),
            "wait_of": Question({"step": whole(0)}, self._wait_of),
            "end": Question(_SESSION, self._end),
            "reset": Question(names, self._reset),
        }
        self._acts: dict[int, Callable[[Link, Message], Answer | None]] = {
            Act.ASK: self._ask,
            Act.RUN: self._run,
            Act.SEGMENT: self._segment,
        }

    def serve(self, link: Link) -> None:
        """Answer until the other end closes the link, which is closed then."""
        self._worker.watch.add(link)
        try:
            while self._one(link, _next(link)):
                pass
        except (KitError, MemoryError):
            pass  # it has ended or cannot be read; the other end learns by its closing
        finally:
            shared_tensors.end(link)
            self._master.left(link)

    def _one(self, link: Link, message: Message) -> bool:
        """Answer one message; return whether the link is good for another."""
        if message.act == Act.TENSOR:
            if "sent" in message.meta:
                message.meta["came"] = time.monotonic()
                if link.transport != "unix":  # by the clock of another machine
                    message.meta["sent"] = message.meta["came"]
            self._worker.rendezvous.put(message.step, message.number, message)
            return True
        try:
            if message.act not in self._acts:
                raise ProtocolError(f"a message of kind {message.act} came unasked.")
            reply = self._acts[message.act](link, message)
            if reply is not None:
                meta, arrays = reply
                send(link, Act.DONE, deadline_s=_ANSWER_S, meta=meta, arrays=arrays)
        except Exception as error:
            is_good = self._fail(link, error)
            # The end of the link wakes a master that waits for another task meanwhile.
            return is_good and message.act != Act.SEGMENT
        return True

    def _fail(self, link: Link, error: Exception) -> bool:
        if not isinstance(error, KitError):
            _log.error("%s: a message failed", self._worker.task, exc_info=error)
        plain = {"error": to_plain(error)}
        try:
            send(link, Act.FAILED, deadline_s=_ANSWER_S, meta=plain)
        except KitError:
            return False
        return True

    def _run(self, link: Link, message: Message) -> Answer:
        self._master.used(message.step, link)
        session = self._master.session(message.step)
        arrays, records = session.run(
            message.number,
            join_feeds(message.arrays, message.meta),
            message.limit_s,
            traced="traced" in message.meta,
            client=link,
        )
        return _notes(records), arrays

    def _segment(self, link: Link, message: Message) -> Answer:
        worker = self._worker
        # Whose session it is follows from the link, whose other end is authenticated,
        # and from the upper half of the number. So no task can run segments of a
        # session that has another master.
        step = Step(
            message.step,
            (link.peer, message.step >> 32),
            worker.task,
            ParticipantWays(worker, link.peer, link),
            message.limit_s,  # seconds, not a time: the clocks of two machines differ
            traced="traced" in message.meta,
        )
        gone = CancelledError(f"{link.peer} ended this run.")
        worker.watch.during(link, partial(worker.abort, step, gone))
        try:
            feeds = join_feeds(message.arrays, message.meta)
            arrays = worker.run(message.number, step, feeds)
        finally:
            worker.watch.forget(link)
        return _notes(step.records), arrays

    def _ask(self, link: Link, message: Message) -> Answer | None:
        op = message.meta.pop("op", "")
        if op == shared_tensors.OP:
            # The answer goes out here, as descriptors must follow it on the stream.
            send(link, Act.DONE, deadline_s=_ANSWER_S)
            shared_tensors.answer(link, _ANSWER_S)
            return None
        if op == _JOIN and self._joined is not None:
            with self._joined(SessionCluster.from_plain(message.meta)) as service:
                send(link, Act.DONE, deadline_s=_ANSWER_S)
                service.serve(link)  # until the link ends
            return None
        question = self.questions.get(op) if isinstance(op, str) else None
        if question is None:
            raise UnimplementedError(
                f"{self._worker.task} does not answer {shown(op)}."
            )
        values = check(op, question.fields, message.meta)
        try:
            reply = question.answer(link, message._replace(meta=values))
        except UNREADABLE as exc:  # only ops know what their attributes may be
            raise InvalidArgumentError(
                f"the question {op!r} is wrong: {exc!r}"
            ) from exc
        if isinstance(number := reply.get("session"), int):
            self._master.used(number, link)
        return reply, []

    def _create(self, link: Link, message: Message) -> Meta:
        options = SessionOptions.from_plain(message.meta["options"])
        self._master.check_room(link)
        return {"session": self._master.create(options)}

    def _extend(self, _: Link, message: Message) -> Meta:
        session = self._master.session(message.meta["session"])
        nodes = nodes_from_plain(message.meta["nodes"], message.arrays)
        return {"version": session.extend(message.meta["version"], nodes)}

    def _prepare(self, _: Link, message: Message) -> Meta:
        meta = message.meta
        kind = RunSignature(
            tuple(meta["feeds"]),
            tuple(meta["fetches"]),
            tuple(meta["targets"]),
            tuple(meta["done"]),
        )
        session = self._master.session(meta["session"])
        return {"plan": session.prepare(kind, meta["deadline_s"])}

    def _close(self, _: Link, message: Message) -> Meta:
        self._master.end(message.meta["session"])
        return {}

    def _devices(self, _: Link, message: Message) -> Meta:
        session = self._master.session(message.meta["session"])
        devices_of = session.devices(message.meta["deadline_s"])
        return {
            "devices": [
                [task.short, device.type, device.index, incarnation]
                for task, (devices, incarnation) in devices_of.items()
                for device in devices
            ]
        }

    def _waits(self, _: Link, message: Message) -> Meta:
        return {"waits": self._master.session(message.meta["session"]).waits()}

    def _wait_of(self, link: Link, message: Message) -> Meta:
        number = message.meta["step"]
        return {"wait": self._worker.wait_of(number, (link.peer, number >> 32))}

    def _cluster_reset(self, _: Link, message: Message) -> Meta:
        self._master.reset(message.meta["names"], message.meta["deadline_s"])
        return {}

    def _status(self, _: Link, __: Message) -> Meta:
        devices = [
            [device.type, device.index] for device in self._worker.runtime.devices
        ]
        return {
            "devices": devices,
            "incarnation": self._worker.incarnation,
            "arithmetic": here().to_plain(),
        }

    def _register(self, link: Link, message: Message) -> Meta:
        meta = message.meta
        self._worker.check_incarnation(meta["incarnation"])
        plain, me = meta["segment"], self._worker.task
        segment = Segment.from_plain(plain, message.arrays, me)
        session, isolated = (link.peer, meta["session"]), meta["isolated"]
        return {"token": self._worker.register(session, segment, isolated=isolated)}

    def _end(self, link: Link, message: Message) -> Meta:
        self._worker.end_session((link.peer, message.meta["session"]))
        return {}

    def _reset(self, _: Link, message: Message) -> Meta:
        self._worker.reset(message.meta["names"])
        return {}


def _next(link: Link) -> Message:
    """Return the next message; a client may be silent for hours."""
    while True:
        with suppress(DeadlineExceededError):
            return recv(link, _IDLE_S)


def _notes(records: Records | None) -> Meta:
    if records is None:
        return {}
    return {"nodes": records.nodes, "moves": records.transfers}
