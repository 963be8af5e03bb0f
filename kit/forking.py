"""Forks bare processes from one that has imported everything once.

    this process --starts, once--> fork server --forks--> process, process, ...

To import what a task needs takes half a second of CPU, to fork some milliseconds: a
cluster of five processes opens and closes in 0.1 s instead of 2.4 s. Forking is safe
here because the fork server has one thread, BLAS included, and uses no GPU.

For what is not a cluster's engine: the tasks of tests and those of puzzles. It is not
`multiprocessing`'s fork server: that one belongs to the whole process, whatever uses it
first, and imports the main program again in each fork.

It lives until the process that started it closes its pipe, be it by its death.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import gc
import importlib
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import recv_handle, send_handle
from pathlib import Path

from kit.errors import PeerLost

_LOST_STATUS = 255  # of a process whose fork server has died: nobody knows it
_KIT = str(Path(__file__).parents[1])


class Forked:
    """A process that was forked for us; asked as one of `subprocess` is."""

    def __init__(self, pid: int, status: Connection) -> None:
        """Take the pid, and the pipe through which the exit status will come."""
        self.pid = pid
        self._status = status
        self._returncode: int | None = None
        try:
            # It can be read as soon as the process is dead, reaped or not yet.
            self._pidfd: int | None = os.pidfd_open(pid)
        except ProcessLookupError:  # dead and reaped already
            self._pidfd = None

    def poll(self) -> int | None:
        """Return the exit status, `-SIGKILL` of a killed one; None while it lives."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self._returncode

    def wait(self, timeout_s: float | None = None) -> int:
        """Return the exit status when it has ended; raises `TimeoutExpired`."""
        if self._returncode is None:
            if self._pidfd is not None:
                if not wait([self._pidfd], timeout_s):
                    raise subprocess.TimeoutExpired(str(self.pid), timeout_s or 0)
                os.close(self._pidfd)
                self._pidfd = None
            with self._status:
                self._returncode = _status(self._status)
        return self._returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, if it lives."""
        if self.poll() is None and self._pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)


def _status(pipe: Connection) -> int:
    try:
        return int(pipe.recv_bytes())
    except EOFError:
        return _LOST_STATUS


class ForkServer:
    """The fork server of this process; it starts with the first fork."""

    def __init__(self, program: str) -> None:
        """Take the module that calls `serve` when it is run as a program."""
        self._program = program
        self._lock = threading.Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self._orders: Connection | None = None

    def fork(self, pipe: Connection, log: Path) -> Forked:
        """Return a new process with `pipe`; what it prints goes to `log`."""
        status, theirs = Pipe(duplex=False)
        with self._lock:
            orders = self._started()
            try:
                with theirs, log.open("wb") as output:
                    for file in (pipe, theirs, output):
                        send_handle(orders, file.fileno(), None)
                return Forked(int(status.recv_bytes()), status)
            except (EOFError, OSError) as error:
                raise PeerLost(
                    f"the fork server of the bare processes has ended ({self.end()}); "
                    f"stderr says why. The next process starts another one."
                ) from error

    @property
    def fds(self) -> frozenset[int]:
        """The descriptors that it holds as long as this process lives."""
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
        """Let the fork server end, if there is one; returns its exit status.

        What it has forked goes on until its own pipe closes.
        """
        atexit.unregister(self.end)
        server, orders, self._server, self._orders = (
            *(self._server, self._orders),
            *(None, None),
        )
        if server is None or orders is None:
            return None
        orders.close()
        return server.wait()


def serve(fd: int, modules: Sequence[str]) -> Connection | None:
    """Fork on order until nobody orders any more; in a fork, return its pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for module in modules:
        with contextlib.suppress(ImportError):  # it fails again where it is needed
            importlib.import_module(module)
    gc.collect()
    gc.freeze()  # else the first collection in each process would copy all pages
    orders = Connection(fd)
    statuses: dict[int, tuple[int, Connection]] = {}  # by the process's pidfd
    while True:
        for ready in wait([orders, *statuses]):
            if isinstance(ready, int):
                _report(ready, *statuses.pop(ready))
                continue
            try:
                pipe, status, log = (recv_handle(orders) for _ in range(3))
            except EOFError:
                return None
            pid = os.fork()
            if pid == 0:
                orders.close()
                _leave(statuses, log)
                os.close(status)
                return Connection(pipe)
            os.close(pipe)  # else it would not be closed when its process ends
            os.close(log)
            end = Connection(status, readable=False)
            _tell(end, pid)
            statuses[os.pidfd_open(pid)] = pid, end  # a zombie until it is reported


def _report(pidfd: int, pid: int, status: Connection) -> None:
    """Reap a process that has ended, and tell how."""
    os.close(pidfd)
    with status:
        _tell(status, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _tell(status: Connection, number: int) -> None:
    with contextlib.suppress(OSError):  # nobody wants to know
        status.send_bytes(b"%d" % number)


def _leave(statuses: dict[int, tuple[int, Connection]], log: int) -> None:
    """Be as a process that was started by itself, with a log of its own."""
    for other, (_, end) in statuses.items():
        os.close(other)
        end.close()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    faulthandler.enable()  # the stacks of all threads at SIGABRT
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
