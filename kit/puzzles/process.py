"""A process that plays tasks of puzzles, one after the other; the far end of a pipe.

It gets a program, its arrays and one end of a link to each other task, runs the program
in its main thread, and reports each event through the pipe at once. A second thread
receives what comes over the links: with full buffers, two tasks that send to each other
before they receive would block for ever, and the judge could not see why.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle
from typing import Any, Final

import cloudpickle
import numpy as np

from kit.errors import KitError
from kit.groups.values import name_of
from kit.puzzles.events import Ended, Event, Failed, Printed
from kit.puzzles.task import Array, Piece, PuzzleTask
from kit.task import Task
from kit.wire.frame import Bounds
from kit.wire.handshake.messages import Role
from kit.wire.link import MAX_BODY, Link
from kit.wire.sockets import Socket, SocketStream

_MOST_MEMORY: Final = 2**30  # beyond it numpy raises MemoryError
_MOST_PRINTED: Final = 2_000  # characters
_SEND_S: Final = 30.0  # longer than a try of the default length
OVER: Final = b"over"
_BOUNDS: Final = Bounds(cluster=0, max_length=MAX_BODY)


@dataclass(frozen=True)
class Assignment:
    """One task of a try: what its process needs to play it."""

    rank: int
    names: tuple[str, ...]
    function: bytes  # by cloudpickle
    arrays: dict[str, Array]
    pieces: Mapping[str, Piece]
    wanted: tuple[str, ...]  # the arrays to hand in at the end


class _Over(BaseException):
    """The try was ended. An `except Exception` of the learner does not catch this."""


class LinksOfTask:
    """The links of a task, what has arrived over them, and the order to end.

    A thread receives everything until that order comes through the pipe.
    """

    def __init__(
        self,
        rank: int,
        names: tuple[str, ...],
        fds: Mapping[int, int],
        pipe: Connection,
    ) -> None:
        self._links = {
            other: Link(
                SocketStream(Socket(fileno=fd), "unix", names[other]),
                local=Task("task", rank),
                peer=Task("task", other),
                role=Role.DATA,  # does not read ahead: `poll` misses nothing
                bounds=_BOUNDS,
            )
            for other, fd in fds.items()
        }
        self._pipe = pipe
        self._news = threading.Condition()
        # Bodies, not arrays: memory is held from when the program has received it, and
        # freed with the last array that refers to it. Nothing here may refer to one.
        self._come: dict[int, list[tuple[dict[str, Any], bytearray]]]
        self._come = {other: [] for other in fds}
        self._n_come, self._n_seen = 0, 0
        self._is_over = False
        self.waited_s = 0.0
        self._thread = threading.Thread(None, self._take_in, "kit-puzzle-links")
        self._thread.start()

    def send(self, to: int, name: str, number: int, array: Array) -> None:
        """See `kit.puzzles.task.Links`, as for the next two."""
        about = {"name": name, "number": number, "dtype": name_of(array.dtype)}
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self._links[to].send_message(
            {**about, "shape": list(array.shape)}, flat.data, deadline_s=_SEND_S
        )

    def taken(self, source: int, name: str) -> tuple[str, int, Array] | None:
        """See `send`."""
        with self._news:
            # What comes between here and the next `wait` makes that return at once.
            self._n_seen = self._n_come
            come = self._come[source]
            names = [about["name"] for about, _ in come]
            if not (name in names if name else names):
                return None
            about, body = come.pop(names.index(name) if name else 0)
        array = np.frombuffer(body, about["dtype"]).reshape(about["shape"])
        return about["name"], about["number"], array

    def wait(self) -> None:
        """See `send`; raises `_Over` when the try has been ended."""
        begin = time.perf_counter()
        with self._news:
            is_there = self._news.wait_for(
                lambda: self._n_come > self._n_seen or self._is_over, _SEND_S
            )
        self.waited_s += time.perf_counter() - begin
        if self._is_over or not is_there:
            raise _Over

    def close(self) -> None:
        """Close the links when the order to end has come."""
        # The thread reads the order from the pipe; before that, `host` must not read.
        self._thread.join()
        for link in self._links.values():
            link.close()

    def _take_in(self) -> None:
        poll, open_links = select.poll(), dict(self._links)
        places = {link.fileno(): other for other, link in self._links.items()}
        for fd in (*places, self._pipe.fileno()):
            poll.register(fd, select.POLLIN)
        while True:
            for fd, _ in poll.poll():
                if fd == self._pipe.fileno():
                    self._end()
                    return
                if not self._take_from(places[fd], open_links[places[fd]]):
                    poll.unregister(fd)  # at its end it would be readable for ever

    def _take_from(self, other: int, link: Link) -> bool:
        """Receive the message that has begun; return whether the link is still open."""
        try:
            about, body = link.recv_message(deadline_s=_SEND_S)
        except KitError:
            return False  # the process at the other end was ended
        with self._news:
            self._come[other].append((about, body))
            self._n_come += 1
            self._news.notify()
        return True

    def _end(self) -> None:
        try:
            self._pipe.recv_bytes()
        except (EOFError, OSError):
            # The judge is gone. The program may be in an endless loop, so its thread
            # cannot be asked to end.
            os._exit(1)
        with self._news:
            self._is_over = True
            self._news.notify()


class _Output:
    """What the program prints, reported line by line, up to a limit."""

    def __init__(self, report: Any) -> None:
        self._report, self._left = report, _MOST_PRINTED

    def write(self, text: str) -> int:
        """Report a piece of text."""
        if text and self._left > 0:
            self._report(Printed(text[: self._left]))
            self._left -= len(text)
        return len(text)

    def flush(self) -> None:
        """Do nothing: all is reported at once."""


class _Reporter:
    """Reports events up to the last one, and not the memory that Python frees after it.

    An array is reported as freed when its last reference goes. Those that are left at
    the end go with the frame of the function, and the program has not freed them.
    """

    def __init__(self, pipe: Connection) -> None:
        self._pipe, self._is_open = pipe, True

    def __call__(self, event: Event) -> None:
        if self._is_open:
            self._pipe.send_bytes(cloudpickle.dumps((event, None)))

    def last(self, event: Event, result: Mapping[str, Array] | None = None) -> None:
        """Report the end, with the arrays that the puzzle asks for."""
        self._is_open = False
        self._pipe.send_bytes(cloudpickle.dumps((event, result)))


def play(pipe: Connection, order: Assignment, fds: Mapping[int, int]) -> None:
    """Run a program, report what it does, and hand in what it holds at the end."""
    report = _Reporter(pipe)
    links = LinksOfTask(order.rank, order.names, fds, pipe)
    task = PuzzleTask(order.rank, order.names, links, order.pieces, report)
    function: Any = None
    try:
        function = cloudpickle.loads(order.function)
        # Moved, not copied: a second reference would keep an array that is freed alive.
        for name in list(order.arrays):
            task.keep(name, order.arrays.pop(name))
        with contextlib.redirect_stdout(_Output(report)):
            function(task)
        result = {name: task[name] for name in order.wanted if name in task}
        report.last(Ended(links.waited_s), result)
    except _Over:
        report.last(Ended(links.waited_s))
    except BaseException as error:  # whatever it is: the next try needs this process
        report.last(_failure(error, function))
    finally:
        links.close()


def _failure(error: BaseException, function: Any) -> Failed:
    """Return what to report of an error: its text, and the line of the function."""
    code, line = getattr(function, "__code__", None), 0
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code is code:
            line = trace.tb_lineno - code.co_firstlineno + 1
        trace = trace.tb_next
    message = error.message if isinstance(error, KitError) else str(error)
    return Failed(type(error).__name__, message, line)


def host(pipe: Connection) -> None:
    """Play what comes through the pipe, until it closes."""
    # First of all: a program may import modules from beside the notebook.
    sys.path[:] = cloudpickle.loads(pipe.recv_bytes())
    resource.setrlimit(resource.RLIMIT_DATA, (_MOST_MEMORY, _MOST_MEMORY))
    while True:
        try:
            order: Assignment = cloudpickle.loads(pipe.recv_bytes())
            others = [k for k in range(len(order.names)) if k != order.rank]
            fds = {other: recv_handle(pipe) for other in others}
        except (EOFError, OSError):
            return
        play(pipe, order, fds)
        pipe.send_bytes(cloudpickle.dumps((None, None)))  # ready for the next one
