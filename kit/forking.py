"""Forks processes from one that has imported everything once.

    who orders --starts--> fork server --forks--> process, process, ...
               <---pipe--->

Importing what a task needs takes half a second of CPU, a fork some milliseconds: a
cluster of five processes opens and closes in 0.1 s instead of 2.4 s. Forking is safe
here because the fork server has no thread, event loop or GPU of its own; those of the
BLAS expect forks.

    order     0                       a process with this number; what else it needs
                                      to know goes before or after, as its program says
    answer    Forked(0, process)      or Refused(0, "...")
    later     Ended(0, process, -9)   its status (negative: the signal)

`Forking` is the far end of the pipe, of engines (`kit.cluster.processes.fork_server`)
and of bare processes, the tasks of tests and of puzzles. `ForkServer` is the near end
for those. The fork server of `multiprocessing` does not do: the whole process shares it
with other libraries, and it imports the main program again in each fork.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import faulthandler
import gc
import importlib
import io
import itertools
import os
import resource
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import recv_handle, send_handle
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from kit import machine
from kit.errors import PeerLost, ResourceExhaustedError

_LOST_STATUS = 255  # of a process whose fork server, its parent, has died
_KIT = str(Path(__file__).parents[1])


class Forked(NamedTuple):
    """A process was forked."""

    number: int
    process: Any


class Refused(NamedTuple):
    """A process was not forked, and why."""

    number: int
    why: str


class Ended(NamedTuple):
    """A process has ended."""

    number: int
    process: Any
    status: int


def received(pipe: Connection) -> Iterator[Any]:
    """Yield what has come through a pipe; raises EOFError if that is its end."""
    with contextlib.suppress(ConnectionError):
        while pipe.poll():
            yield pipe.recv()
        return
    raise EOFError


class Child(NamedTuple):
    """A process that was forked here; `pidfd` becomes readable when it ends."""

    number: int
    process: Any
    pidfd: int


class Forking:
    """The far end: this process's forks, by pid, and the news of them.

    A lack of processes, memory or descriptors refuses the process that needs them. The
    others go on: they hold the state. `find` makes of a pid what the news call it.
    """

    def __init__(self, pipe: Connection, find: Callable[[int], Any] = int) -> None:
        self.pipe, self._find = pipe, find
        self.children: dict[int, Child] = {}

    def fork(self, number: int, handles: Sequence[int] = ()) -> bool:
        """Start a process; True in it, which has the handles, False in the server."""
        pid, refusal = -1, None
        try:
            with warnings.catch_warnings():
                # The only other threads are those of the BLAS, which expects forks.
                warnings.simplefilter("ignore", DeprecationWarning)
                pid = os.fork()
            if pid == 0:
                for child in self.children.values():
                    os.close(child.pidfd)
                return True
            self.children[pid] = Child(number, self._find(pid), os.pidfd_open(pid))
        except OSError as error:
            refusal = error
            if pid > 0:  # a process that cannot be followed may not run
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        # Or the other end would not notice when the fork ends.
        for handle in handles:
            os.close(handle)
        if refusal is not None:
            self.refuse(number, refusal)
        else:
            self.tell(Forked(number, self.children[pid].process))
        return False

    def refuse(self, number: int, error: OSError) -> None:
        """Say that there is no such process, and what the system has said."""
        self.tell(Refused(number, machine.why_no_process(error)))

    def wait(self, *others: Any, timeout_s: float | None = None) -> list[int]:
        """Wait for an end, or `others` to be readable; report and return the ends.

        Also of the orphans that this process adopts: nobody else would reap them.
        """
        wait([*others, *(child.pidfd for child in self.children.values())], timeout_s)
        ended = []
        with contextlib.suppress(ChildProcessError):
            while (end := os.waitpid(-1, os.WNOHANG))[0]:
                if child := self.children.pop(end[0], None):
                    os.close(child.pidfd)
                    status = os.waitstatus_to_exitcode(end[1])
                    self.tell(Ended(child.number, child.process, status))
                    ended.append(child.number)
        return ended

    def tell(self, news: Forked | Refused | Ended) -> None:
        """Send news through the pipe."""
        with contextlib.suppress(OSError):  # nobody is there to hear it
            self.pipe.send(news)


def preload(modules: Sequence[str]) -> list[str]:
    """Import ahead; return a line for each that fails, as it will where it is used."""
    failures = []
    for name in modules:
        try:
            importlib.import_module(name)
        except Exception as error:
            failures.append(f"not preloaded: {name}: {type(error).__name__}: {error}\n")
    gc.collect()
    gc.freeze()  # else the first collection in each process would copy all pages
    return failures


def leave() -> None:
    """End this fork as an interpreter ends, but for taking itself apart.

    That would write to all memory that it shares with the fork server, and so copy it:
    it took five times as long as the fork. Threads that are no daemons are waited for,
    exit handlers run, and files that are open are flushed.
    """
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    # Those from before the fork are frozen, and so not among the objects.
    for item in (sys.__stdout__, sys.__stderr__, *gc.get_objects()):
        if issubclass(type(item), io.IOBase):
            with contextlib.suppress(Exception):  # closed, or its reader is gone
                item.flush()
    os._exit(0)


# --------------------------------------------------------------------------------------
# Bare processes: each has a pipe, and a log.


class BareProcess:
    """A process that was forked for us, with the methods of `subprocess.Popen`."""

    def __init__(self, pid: int, status: Callable[[], int]) -> None:
        """Take the pid, and what asks for the exit status once it has ended."""
        self.pid = pid
        self._status = status
        self._returncode: int | None = None
        try:
            # It becomes readable as soon as the process is dead, reaped or not.
            self._pidfd: int | None = os.pidfd_open(pid)
        except ProcessLookupError:  # dead and reaped already
            self._pidfd = None

    def poll(self) -> int | None:
        """Return the exit status, such as `-SIGKILL`; None while the process runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self._returncode

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait for the end and return the exit status; raises `TimeoutExpired`."""
        if self._returncode is None:
            if self._pidfd is not None:
                if not wait([self._pidfd], timeout_s):
                    raise subprocess.TimeoutExpired(str(self.pid), timeout_s or 0)
                os.close(self._pidfd)
                self._pidfd = None
            self._returncode = self._status()
        return self._returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None and self._pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)


class ForkServer:
    """The near end, for bare processes; it starts with the first fork.

    The fork server runs until the process that started it closes its pipe, or dies.
    """

    def __init__(self, program: str) -> None:
        """Take the name of a module that calls `serve` when it runs as a program."""
        self._program = program
        self._lock = threading.Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self._orders: Connection | None = None
        self._numbers = itertools.count()
        self._statuses: dict[int, int] = {}

    def fork(self, pipe: Connection, log: Path) -> BareProcess:
        """Return a new process with `pipe`; its output goes to `log`.

        Raises `ResourceExhaustedError` when the system refuses another process; those
        that there are go on.
        """
        # An order is three messages, not to be mixed with another thread's.
        with self._lock, log.open("wb") as output:
            orders, number = self._started(), next(self._numbers)
            answer = self._order(orders, number, [pipe, output])
        if isinstance(answer, Refused):
            raise ResourceExhaustedError(answer.why)
        return BareProcess(answer.process, lambda: self._status(orders, number))

    def _order(
        self, orders: Connection, number: int, files: Sequence[Connection | BinaryIO]
    ) -> Forked | Refused:
        try:
            orders.send(number)
            for file in files:
                send_handle(orders, file.fileno(), None)
            while (answer := self._news(orders)) is None or answer.number != number:
                pass
        except (EOFError, OSError) as error:
            raise PeerLost(
                f"the fork server of the bare processes has ended ({self.end()}); "
                f"stderr says why. The next process starts another one."
            ) from error
        return answer

    def _news(self, orders: Connection) -> Forked | Refused | None:
        """Return the answer to the order under way; keep a status and return None."""
        news: Forked | Refused | Ended = orders.recv()
        if not isinstance(news, Ended):
            return news
        self._statuses[news.number] = news.status
        return None

    def _status(self, orders: Connection, number: int) -> int:
        """Return the status of a process that has ended."""
        with self._lock, contextlib.suppress(EOFError, OSError):
            while number not in self._statuses:
                self._news(orders)
        return self._statuses.pop(number, _LOST_STATUS)

    @property
    def fds(self) -> frozenset[int]:
        """The descriptors that it keeps open while this process runs."""
        return frozenset([self._orders.fileno()] if self._orders is not None else [])

    def _started(self) -> Connection:
        if self._orders is None:
            path = os.pathsep.join(filter(None, [_KIT, os.environ.get("PYTHONPATH")]))
            self._orders, theirs = Pipe()
            with theirs:
                self._server = subprocess.Popen(
                    [sys.executable, "-m", self._program, str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
                )
            atexit.register(self.end)
        return self._orders

    def end(self) -> int | None:
        """End the fork server, if there is one; returns its exit status.

        Each process that it has forked goes on until its own pipe closes.
        """
        atexit.unregister(self.end)
        server, orders = self._server, self._orders
        self._server = self._orders = None
        if server is None or orders is None:
            return None
        orders.close()
        return server.wait()


def serve(fd: int, modules: Sequence[str]) -> Connection | None:
    """Fork as ordered until the pipe closes; in a fork, return the fork's pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    preload(modules)
    orders = Connection(fd)
    forking = Forking(orders)
    while True:
        forking.wait(orders)
        try:
            for number in received(orders):
                try:
                    pipe, log = _handles(orders)
                except OSError as error:
                    forking.refuse(number, error)
                    continue
                if forking.fork(number, [pipe, log]):
                    orders.close()
                    _leave(log)
                    return Connection(pipe)
        except EOFError:
            return None


def _handles(orders: Connection) -> list[int]:
    """Return the two descriptors of an order, or none of them with `OSError`."""
    handles: list[int] = []
    lacking: OSError | None = None
    for _ in range(2):
        try:
            handles.append(recv_handle(orders))
        except RuntimeError:  # it came without its descriptor: there was none left
            lacking = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        except OSError as error:  # none is left to receive it with; the byte waits
            lacking = error
            os.read(orders.fileno(), 1)
    if lacking is not None:
        for handle in handles:
            os.close(handle)
        raise lacking
    return handles


def _leave(log: int) -> None:
    """Make a fork like a process started on its own, with its own log."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    faulthandler.enable()  # the stacks of all threads at SIGABRT
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
