"""The record of every process that belongs to a cluster, and the watch over them.

`Processes` belongs to the cluster's loop thread. It knows the roots (processes that we
started), finds their descendants, keeps the reaper informed, and calls back when a
watched process ends. It never looks up a process by name.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import psutil

from kit import machine
from kit.cluster.processes import left_behind, reaper
from kit.cluster.processes.reaper import Process, ProcessRecord
from kit.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    KitError,
    PermissionDeniedError,
    StartFailed,
)

# How long the reaper may take to answer, and then the processes that it did not end.
MARGIN_S = 0.5
_LAST_GRACE_S = 0.5
_LAST_KILL_S = 0.5
_CHECK_S = 0.01
_COMMAND_LETTERS = 80  # of a command that is shown


def check_system() -> None:
    """Raise `FailedPreconditionError` where a cluster's processes cannot be followed.

    They are watched by pidfd, found by /proc and forked by a process that adopts
    orphans: only Linux has these.
    """
    if not hasattr(os, "pidfd_open"):
        raise FailedPreconditionError(
            f"kit.Cluster follows its processes by what only Linux has, and this is "
            f"{sys.platform}: open the repository in its devcontainer or on Binder, or "
            f"have kit.attach('HOST:PORT', ...) join a cluster that runs elsewhere."
        )


class ReaperHandle:
    """The kernel's end of the reaper process: sends it the record, orders the end.

    The record is also in the cluster's folder, with `jobs`, for other notebooks.
    """

    def __init__(self, folder: Path, lease_s: float, jobs: str = "") -> None:
        self._folder, self._jobs = folder, jobs
        kernel = reaper.find(os.getpid())
        assert kernel is not None, "we are running"
        self._record = ProcessRecord(kernel, lease_s, str(folder))
        self._unsent = b""
        # What the last `end` could not end.
        self.survivors: frozenset[Process] = frozenset()
        self._child = subprocess.Popen(
            [sys.executable, "-I", "-S", reaper.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
            bufsize=0,
        )
        assert self._child.stdin is not None, "it was asked for"
        self._pipe = self._child.stdin
        # Otherwise a reaper that does not read, because a signal has stopped it, would
        # block us as soon as the pipe is full.
        os.set_blocking(self._pipe.fileno(), False)
        self._tell({"kernel": kernel, "lease_s": lease_s, "folder": str(folder)})

    @property
    def pid(self) -> int:
        """The reaper's process id."""
        return self._child.pid

    def update(self, processes: Iterable[Process]) -> None:
        """Send the whole record again."""
        self._record.processes = set(processes)
        self._tell({"processes": sorted(self._record.processes)})
        self._write()

    def at_end(self, command: list[str]) -> None:
        """Have a command run at the end, whichever process brings that about."""
        self._record.at_end.append(command)
        self._tell({"at_end": self._record.at_end})
        self._write()

    def _write(self) -> None:
        record = self._record
        left_behind.record(
            self._folder, self._jobs, self.pid, record.processes, record.at_end
        )

    def end(self, grace_s: float, at_once: Process | None = None) -> bool:
        """End all recorded processes, remove the folder, and end the reaper.

        The process `at_once` gets no grace. The reaper does the rest, since it has
        descriptors and memory when this process has run out of them; without a reaper
        this process does it. Returns whether all have ended. Blocks for less than
        `grace_s` and 5 seconds. It uses no thread, because none can be started while
        the interpreter exits. Repeatable.
        """
        record = self._record
        with contextlib.suppress(OSError, MemoryError):
            # Those that cannot be ended are orphans then, and nobody would find them.
            record.processes |= reaper.descendants(record.processes, record.folder)
            self._tell({"processes": sorted(record.processes)})
        self._tell({"end": grace_s})
        self._child.send_signal(signal.SIGCONT)  # it may have been stopped
        with contextlib.suppress(OSError, MemoryError):  # then it ends like the others
            if at_once is not None:
                reaper.send(at_once, signal.SIGKILL)
        self._wait(grace_s + reaper.KILL_S + MARGIN_S)
        self._child.kill()
        self._wait(MARGIN_S)
        self._pipe.close()
        self.survivors = frozenset()
        if self._child.returncode == 0:
            return True
        record.grace_s = min(grace_s, _LAST_GRACE_S)
        try:
            self.survivors = frozenset(reaper.clean_up(record, _LAST_KILL_S))
        except OSError:  # out of descriptors here too
            self.survivors = frozenset(record.processes)
        return not self.survivors

    def _wait(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while self._child.poll() is None and time.monotonic() < deadline:
            self._send()
            time.sleep(_CHECK_S)

    def _tell(self, line: dict[str, object]) -> None:
        self._unsent += json.dumps(line).encode() + b"\n"
        self._send()

    def _send(self) -> None:
        # Without a reaper there is no protection, but everything else must go on.
        with contextlib.suppress(OSError, ValueError):
            while self._unsent:
                n_sent = os.write(self._pipe.fileno(), self._unsent)
                self._unsent = self._unsent[n_sent:]


class Processes:
    """The processes of this cluster; for the cluster's loop only."""

    def __init__(self, reaper: ReaperHandle) -> None:
        self._reaper = reaper
        self._loop = asyncio.get_running_loop()
        self._known: set[Process] = set()
        self._watched: set[int] = set()

    @property
    def members(self) -> frozenset[Process]:
        """The processes that belonged to the cluster when it was last refreshed."""
        return frozenset(self._known)

    def add(self, *processes: Process) -> None:
        """Record processes that were started."""
        if not self._known.issuperset(processes):
            self._known.update(processes)
            self._reaper.update(self._known)

    def note(self, pid: int) -> Process:
        """Record a process that was started, and return it.

        With a start time of 0, which matches no process, if it has ended already.
        """
        process = reaper.find(pid) or Process(pid, 0)
        self.add(process)
        return process

    def at_end(self, command: list[str]) -> None:
        """Have a command run at the end, whichever process brings that about."""
        self._reaper.at_end(command)

    def refresh(self) -> None:
        """Find new descendants and forget dead processes; takes some milliseconds."""
        try:
            processes = reaper.descendants(self._known)
        except OSError:  # out of descriptors; the next refresh may get some
            return
        if processes != self._known:
            self._known = processes
            self._reaper.update(processes)

    def on_end(self, process: Process, callback: Callable[[], object]) -> None:
        """Call back in the loop as soon as the process ends, at once if it has."""
        fd = reaper.open_pidfd(process)
        if fd is None:
            self._loop.call_soon(callback)
            return
        self._watched.add(fd)
        self._loop.add_reader(fd, self._ended, fd, callback)

    def _ended(self, fd: int, callback: Callable[[], object]) -> None:
        self._forget(fd)
        callback()

    def _forget(self, fd: int) -> None:
        self._watched.discard(fd)
        self._loop.remove_reader(fd)
        os.close(fd)

    def unwatch(self) -> None:
        """Stop watching: from now on processes end because we end them."""
        for fd in list(self._watched):
            self._forget(fd)


def described(process: Process) -> str:
    """Say which process it is: its pid, its command and its user."""
    try:
        seen = psutil.Process(process.pid)
        command, user = " ".join(seen.cmdline()) or seen.name(), seen.username()
    except psutil.Error:
        return f"pid {process.pid}"
    shown = "".join(letter if letter.isprintable() else "?" for letter in command)
    return f"pid {process.pid} ({shown[:_COMMAND_LETTERS]}, user {user})"


def not_started(error: Exception) -> Exception:
    """Return the error of a start for a lack of resources, any other as it is."""
    number = getattr(error, "errno", None)
    if number not in machine.EXHAUSTED:
        return error
    why = machine.why_no_process(OSError(number, os.strerror(number)))
    return StartFailed(f"the cluster did not start: {why}")


def still_running(left: Sequence[Process], stop_s: float) -> KitError:
    """Return the error for processes that have outlived a stop of so many seconds."""
    foreign = [process for process in left if _is_of_another_user(process)]
    if foreign:
        pids = " ".join(str(process.pid) for process in foreign)
        return PermissionDeniedError(
            f"the cluster has ended, but for what its tasks have started as another "
            f"user, which you may not end: "
            f"{', '.join(map(described, foreign))}. End it with: sudo kill {pids}"
        )
    pids = ",".join(str(process.pid) for process in left)
    return DeadlineExceededError(
        f"some processes of the cluster have not ended {stop_s:g} s after the stop "
        f"began, though they were killed ({', '.join(map(described, left))}): see ps "
        f"-o pid,stat,wchan -p {pids}. Call stop() again when the system has let go of "
        f"them."
    )


def _is_of_another_user(process: Process) -> bool:
    try:
        reaper.send(process, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def why(status: int | None) -> str:
    """Say in words how a process ended: its exit status, negative for a signal.

    >>> why(-9)
    'killed by signal 9 (SIGKILL), probably out of memory or killed by hand'
    >>> why(3)
    'exited with status 3'
    """
    if status is None:
        return "ended, it is not known how"
    if status >= 0:
        return f"exited with status {status}"
    name = signal.Signals(-status).name if -status in set(signal.Signals) else "unknown"
    hint = ", probably out of memory or killed by hand" if -status == 9 else ""
    return f"killed by signal {-status} ({name}){hint}"
