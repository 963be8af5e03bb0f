"""The record of every process that belongs to a cluster, and the watch over them.

`Processes` lives in the cluster's loop thread. It knows the roots (what was started by
hand), finds their descendants, tells the keeper, and calls back when a watched process
ends. It never looks a process up by name.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from kit.cluster import keeper, left_behind
from kit.cluster.keeper import Process

_STOP_S = 5.0


class Keeper:
    """The kernel's end of the keeper process: tells it the record, ends it.

    The record is in the cluster's folder too, under `jobs`, for other notebooks.
    """

    def __init__(self, folder: Path, lease_s: float, jobs: str = "") -> None:
        self._folder, self._jobs = folder, jobs
        self._child = subprocess.Popen(
            [sys.executable, "-I", "-S", keeper.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )
        self._tell(
            {
                "kernel": keeper.find(os.getpid()),
                "lease_s": lease_s,
                "folder": str(folder),
            }
        )

    @property
    def pid(self) -> int:
        """The keeper's process id."""
        return self._child.pid

    def update(self, processes: Iterable[Process]) -> None:
        """Tell the whole record anew."""
        known = sorted(processes)
        self._tell({"processes": known})
        left_behind.record(self._folder, self._jobs, self.pid, known)

    def stop(self) -> None:
        """Let the keeper go, and wait until it has gone."""
        self._tell({"stop": True})
        with contextlib.suppress(OSError):
            if self._child.stdin is not None:
                self._child.stdin.close()
        try:
            self._child.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait(_STOP_S)

    def _tell(self, line: dict[str, object]) -> None:
        # A killed keeper takes the protection with it, but must not disturb anything.
        with contextlib.suppress(OSError, ValueError):
            if self._child.stdin is not None:
                self._child.stdin.write(json.dumps(line).encode() + b"\n")
                self._child.stdin.flush()


class Processes:
    """What this cluster started; call it from the cluster's loop only."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._loop = asyncio.get_running_loop()
        self._known: set[Process] = set()
        self._watched: set[int] = set()

    @property
    def known(self) -> frozenset[Process]:
        """Every process seen so far that still belonged to us at the last look."""
        return frozenset(self._known)

    def add(self, pid: int) -> Process | None:
        """Record a process just started; None when it has ended already."""
        process = keeper.find(pid)
        if process is not None:
            self._known.add(process)
            self._keeper.update(self._known)
        return process

    def refresh(self) -> None:
        """Look for new descendants and forget the dead; some milliseconds."""
        found = keeper.descendants(self._known)
        if found != self._known:
            self._known = found
            self._keeper.update(found)

    def on_end(self, process: Process, callback: Callable[[], object]) -> None:
        """Call back in the loop as soon as the process ends, at once if it has."""
        fd = keeper.open_pidfd(process)
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
        """Stop watching: what ends from now on ends because we end it."""
        for fd in list(self._watched):
            self._forget(fd)

    def end(self, grace_s: float) -> set[Process]:
        """End all of them and their descendants; return what could not be ended.

        Blocks for a little more than `grace_s` at most. It uses no thread, because none
        can be started any more when this runs at the interpreter's exit.
        """
        self.unwatch()
        self._known = keeper.end(self._known, grace_s)
        return self._known


def why(status: int | None) -> str:
    """Say in words how a process ended: its exit status, negative for a signal.

    >>> why(-9)
    'killed by signal 9 (SIGKILL), probably out of memory or killed by hand'
    >>> why(3)
    'exited with status 3'
    """
    if status is None:
        return "ended, nobody knows how"
    if status >= 0:
        return f"exited with status {status}"
    name = signal.Signals(-status).name if -status in set(signal.Signals) else "unknown"
    hint = ", probably out of memory or killed by hand" if -status == 9 else ""
    return f"killed by signal {-status} ({name}){hint}"
