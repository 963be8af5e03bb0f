"""Links to other tasks, kept open and lent to one run or one message at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from kit.errors import (
    DeadlineExceededError,
    KitError,
    LinkLost,
    PeerLost,
    UnavailableError,
)
from kit.graph.dtypes import Array
from kit.session.transport import shared_tensors
from kit.session.transport.message import Act, Message, ask, begin_lending, good, send
from kit.session.transport.watch import Watch, has_ended
from kit.session.worker.step import Step
from kit.task import Task
from kit.wire.link import Link

# Opens a link to a task within a number of seconds.
Dial = Callable[[Task, float], Link]


class Peers:
    """The way to all tasks. Links that failed, or have ended, are not used again."""

    def __init__(
        self, dial: Dial, watch: Watch | None = None, *, name: str | None = None
    ) -> None:
        """`watch` is given all links; without it, none notices their end early.

        `name` replaces the task in errors, for a client whose links all lead to one.
        """
        self._dial, self.watch, self._name = dial, watch, name
        self._idle: dict[Task, list[Link]] = {}
        self._out: dict[Link, Task] = {}
        self._lock = threading.Lock()
        self._is_closed = False

    def take(self, task: Task, deadline_s: float) -> Link:
        """Return an idle link to a task, or a new one; give it back with `put_back`.

        Raises `PeerLost` or `DeadlineExceededError`, naming the task, when it does not
        answer.
        """
        while True:
            with self._lock:
                # The one used last: the longer one was idle, the likelier it was cut.
                idle = self._idle.get(task)
                link = idle.pop() if idle else None
            if link is None:
                link = self._new(task, deadline_s)
            elif has_ended(link):  # a write to it might succeed, and be lost
                shared_tensors.end(link)
                continue
            # In one go: either `close` finds the link in `_out`, or it is noticed here.
            with self._lock:
                self._out[link] = task
                is_closed = self._is_closed
            if is_closed:
                self.put_back(link, is_clean=False)
                raise UnavailableError(f"the way to {task} was closed on this side.")
            return link

    def put_back(self, link: Link, *, is_clean: bool) -> None:
        """Return a link; one in the middle of a message is closed."""
        with self._lock:
            task = self._out.pop(link, None)
            if is_clean and task is not None and not self._is_closed:
                self._idle.setdefault(task, []).append(link)
                return
        shared_tensors.end(link)

    @contextmanager
    def lent(self, task: Task, deadline_s: float) -> Iterator[Link]:
        """Lend a link to a block; an error in the block closes it.

        `LinkLost` becomes `PeerLost`, naming the task.
        """
        link = self.take(task, deadline_s)
        is_clean = False
        try:
            yield link
            is_clean = True
        except LinkLost as error:
            peer = str(link.peer)
            raise PeerLost(f"{peer} was lost: {error.message}", task=peer) from error
        finally:
            self.put_back(link, is_clean=is_clean)

    def ask(
        self,
        task: Task,
        meta: Mapping[str, Any],
        deadline_s: float,
        arrays: Sequence[Array] = (),
    ) -> Message:
        """Ask a task one question; raises the error that it answers."""
        with self.lent(task, deadline_s) as link:
            answer = ask(link, meta, deadline_s, arrays)
        return good(answer)

    def push(
        self, step: Step, task: Task, number: int, meta: Mapping[str, Any], value: Any
    ) -> None:
        """Send a tensor of a step to a task, which keeps it until it is asked for."""
        arrays = () if value is None else (value,)
        with self.lent(task, step.left_s) as link:
            step.hold(link)  # or a peer that does not read could outlast the run
            try:
                begin_lending(link, arrays, step.left_s)
                send(
                    link,
                    Act.TENSOR,
                    deadline_s=step.left_s,
                    number=number,
                    step=step.number,
                    meta=meta,
                    arrays=arrays,
                )
            finally:
                step.release(link)

    def close(self) -> None:
        """Close all links, those that are lent out too."""
        with self._lock:
            self._is_closed = True
            links = [
                *self._out,
                *(item for idle in self._idle.values() for item in idle),
            ]
            self._idle.clear()
        for link in links:
            shared_tensors.end(link)

    def _new(self, task: Task, deadline_s: float) -> Link:
        try:
            link = self._dial(task, max(0.001, deadline_s))
        except UnavailableError as error:
            raise self._unreached(PeerLost, task, error) from error
        except DeadlineExceededError as error:
            raise self._unreached(DeadlineExceededError, task, error) from error
        if self.watch is not None:
            self.watch.add(link)
        return link

    def _unreached(self, kind: type[KitError], task: Task, error: KitError) -> KitError:
        name = self._name or str(task)
        return kind(f"{name} cannot be reached: {error.message}", task=error.task)
