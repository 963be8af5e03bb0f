"""Forks bare processes from one that has imported everything once.

    this process --starts, once--> fork server --forks--> process, process, ...

Importing what a task needs takes half a second of CPU, a fork some milliseconds: a
cluster of five processes opens and closes in 0.1 s instead of 2.4 s. Forking is safe
here because the fork server has one thread, including BLAS, and uses no GPU.

It is for processes that are not engines of a cluster: the tasks of tests and of
puzzles. The fork server of `multiprocessing` does not do: the whole process shares it
with other libraries, and it imports the main program again in each fork.

It runs until the process that started it closes its pipe, or dies.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
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
from typing import BinaryIO

from kit import machine
from kit.errors import PeerLost, ResourceExhaustedError

_LOST_STATUS = 255  # of a process whose fork server, its parent, has died
_KIT = str(Path(__file__).parents[1])


class Forked:
    """A process that was forked for us, with the methods of `subprocess.Popen`."""

    def __init__(self, pid: int, status: Connection) -> None:
        """Take the pid, and the pipe that will bring the exit status."""
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
            with self._status:
                self._returncode = _status(self._status)
        return self._returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
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
        """Take the name of a module that calls `serve` when it runs as a program."""
        self._program = program
        self._lock = threading.Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self._orders: Connection | None = None

    def fork(self, pipe: Connection, log: Path) -> Forked:
        """Return a new process with `pipe`; its output goes to `log`.

        Raises `ResourceExhaustedError` when the system refuses another process; those
        that there are go on.
        """
        status, theirs = Pipe(duplex=False)
        try:
            # An order is three messages, not to be mixed with another thread's.
            with self._lock, theirs, log.open("wb") as output:
                pid = self._order([pipe, theirs, output])
            return Forked(pid, status)
        except BaseException:
            status.close()
            raise

    def _order(self, files: Sequence[Connection | BinaryIO]) -> int:
        orders = self._started()
        try:
            for file in files:
                send_handle(orders, file.fileno(), None)
            reply = int(orders.recv_bytes())
        except (EOFError, OSError) as error:
            raise PeerLost(
                f"the fork server of the bare processes has ended ({self.end()}); "
                f"stderr says why. The next process starts another one."
            ) from error
        if reply < 0:
            refused = OSError(-reply, os.strerror(-reply))
            raise ResourceExhaustedError(machine.why_no_process(refused))
        return reply

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
        server, orders, self._server, self._orders = (
            *(self._server, self._orders),
            *(None, None),
        )
        if server is None or orders is None:
            return None
        orders.close()
        return server.wait()


def serve(fd: int, modules: Sequence[str]) -> Connection | None:
    """Fork as ordered until the pipe closes; in a fork, return the fork's pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for module in modules:
        with contextlib.suppress(ImportError):  # raised again where it is needed
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
                pid, pipe = _fork(orders, statuses)
            except EOFError:
                return None
            except OSError as error:
                # Refused: the processes that there are go on, with this one.
                _tell(orders, -(error.errno or errno.EAGAIN))
                continue
            if pid == 0:
                return Connection(pipe)
            _tell(orders, pid)


def _fork(
    orders: Connection, statuses: dict[int, tuple[int, Connection]]
) -> tuple[int, int]:
    """Take an order and fork; return the pid, 0 in the fork, and the fork's pipe.

    Raises `EOFError` at the end of orders, and `OSError` for a lack of processes,
    memory or descriptors.
    """
    pipe, status, log = _handles(orders)
    pid = -1
    try:
        pid = os.fork()
        if pid == 0:
            orders.close()
            _leave(statuses, log)
            os.close(status)
            return 0, pipe
        pidfd = os.pidfd_open(pid)
    except OSError:
        if pid > 0:  # a process that cannot be followed may not run
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(status)
        raise
    finally:
        # Or the other end would not notice when the fork ends.
        if pid != 0:
            os.close(pipe)
            os.close(log)
    statuses[pidfd] = pid, Connection(status, readable=False)  # till it is reported
    return pid, pipe


def _handles(orders: Connection) -> list[int]:
    """Return the three descriptors of an order, or none of them with `OSError`."""
    handles: list[int] = []
    lacking: OSError | None = None
    for _ in range(3):
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


def _report(pidfd: int, pid: int, status: Connection) -> None:
    """Reap a process that has ended, and report its status."""
    os.close(pidfd)
    with status:
        _tell(status, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _tell(status: Connection, number: int) -> None:
    with contextlib.suppress(OSError):  # the receiver is gone
        status.send_bytes(b"%d" % number)


def _leave(statuses: dict[int, tuple[int, Connection]], log: int) -> None:
    """Make a fork like a process started on its own, with its own log."""
    # The pipes of the others too: as long as this fork holds them, they do not close.
    for other, (_, end) in statuses.items():
        os.close(other)
        end.close()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    faulthandler.enable()  # the stacks of all threads at SIGABRT
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
