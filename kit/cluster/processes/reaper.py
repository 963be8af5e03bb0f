"""The process that ends all others of a cluster: on order, or when the kernel dies.

    kernel --(stdin: one JSON line for each change)--> reaper
    reaper watches the kernel by pidfd; kernel gone -> lease -> all others end too

The order is a line too, so a kernel without memory or descriptors can still give it.
The reaper runs as a script (`python -I -S reaper.py`), so it imports the standard
library only, starts in some 20 ms and survives whatever happens to the package. It
never kills by name: a process is a pid together with its start time. It ends the
recorded processes, those with the cluster's mark in their environment, even if their
parents are gone, and the descendants of all these. The reaper of another folder among
them (of a host that is this machine too) it does not end but waits for: that one has
orphans to end that only it knows, and its folder to remove. One of another user (a
task's sudo) it cannot end: it ends all others. It restarts nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

# The variable of the environment that marks a cluster's processes, by its folder.
MARK = "PSRING_CLUSTER"
_STATE, _PARENT, _STARTED = 0, 1, 19  # fields of /proc/PID/stat, after the name
_GRACE_S = 2.0
KILL_S = 2.0
_CHECK_S = 0.01
_COMMAND_S = 2.0


class Process(NamedTuple):
    """One process, for ever: a pid is reused, a pid with a start time is not."""

    pid: int
    started: int  # clock ticks after boot

    @property
    def is_running(self) -> bool:
        """Whether exactly this process is still running (a zombie is not)."""
        return find(self.pid) == self

    @property
    def is_stopped(self) -> bool:
        """Whether exactly this process is stopped until it gets a SIGCONT."""
        fields = _stat(self.pid)
        is_same = fields is not None and int(fields[_STARTED]) == self.started
        return fields is not None and is_same and fields[_STATE] == "T"


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat after the name, None without a process.

    So for one of another user where /proc is mounted with hidepid. Raises OSError if
    this cannot be known, mostly for lack of a descriptor.
    """
    try:
        # Below task/, as in `kit.machine.started`, whose number is compared with this.
        text = Path(f"/proc/{pid}/task/{pid}/stat").read_text("utf-8", "replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    # The name may have spaces and brackets in it: the last bracket ends it.
    return text[text.rindex(")") + 2 :].split()


def find(pid: int) -> Process | None:
    """Return the running process that has this pid now, or None; some 20 us."""
    fields = _stat(pid)
    if fields is None or fields[_STATE] in "ZX":
        return None
    return Process(pid, int(fields[_STARTED]))


def _has_mark(pid: int, folder: str) -> bool:
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False
    return f"{MARK}={folder}".encode() in variables


def descendants(roots: Iterable[Process], folder: str = "") -> set[Process]:
    """Return the running processes of `roots` and all their running descendants.

    With the folder of a cluster, processes with its mark are roots too.
    """
    marked: list[Process] = []
    parents: dict[int, list[Process]] = {}
    for entry in Path("/proc").iterdir():
        fields = _stat(int(entry.name)) if entry.name.isdigit() else None
        if fields is not None and fields[_STATE] not in "ZX":
            child = Process(int(entry.name), int(fields[_STARTED]))
            parents.setdefault(int(fields[_PARENT]), []).append(child)
            if folder and child.pid != os.getpid() and _has_mark(child.pid, folder):
                marked.append(child)
    result: set[Process] = set()
    waiting = marked + [root for root in roots if root.is_running]
    while waiting:
        process = waiting.pop()
        if process not in result:
            result.add(process)
            waiting.extend(parents.get(process.pid, ()))
    return result


def _watches_another(pid: int, folder: str) -> bool:
    """Whether a process is the reaper of another folder."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return os.fsencode(__file__) in words and not _has_mark(pid, folder)


def open_pidfd(process: Process) -> int | None:
    """Return a pidfd of exactly this process, or None when it is gone."""
    try:
        fd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return None
    try:
        # Only now is the pid pinned: check that it is still the same process.
        is_same = process.is_running
    except OSError:
        os.close(fd)
        raise
    if is_same:
        return fd
    os.close(fd)
    return None


def send(process: Process, number: int) -> bool:
    """Send a signal to exactly this process; False when it is gone already.

    Raises `PermissionError` if it belongs to another user, such as root's by sudo, and
    `OSError` without a descriptor for it.
    """
    fd = open_pidfd(process)
    if fd is None:
        return False
    try:
        signal.pidfd_send_signal(fd, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(fd)
    return True


def _signal_all(processes: Iterable[Process], number: int) -> set[Process]:
    """Signal each that may be signalled; return the others, those of other users.

    Nothing about one process keeps the signal from the next.
    """
    refused = set()
    for process in processes:
        try:
            send(process, number)
        except PermissionError:
            refused.add(process)
        except OSError:  # out of descriptors, perhaps only for a moment
            continue
    return refused


def wait_gone(processes: Iterable[Process], timeout_s: float) -> set[Process]:
    """Wait until they are gone; return those that are not after `timeout_s`.

    It polls: a pidfd for each might need more descriptors than are left.
    """
    deadline = time.monotonic() + timeout_s
    left = {process for process in processes if process.is_running}
    while left and time.monotonic() < deadline:
        time.sleep(_CHECK_S)
        left = {process for process in left if process.is_running}
    return left


def end(
    processes: Iterable[Process],
    grace_s: float = _GRACE_S,
    *,
    kill_s: float = KILL_S,
    folder: str = "",
) -> set[Process]:
    """Terminate, and after `grace_s` kill; return the processes that survive.

    These are those of other users, which this one may not end, and what the system
    cannot kill. All `descendants` are ended. They are looked up again after the grace,
    so that a child born meanwhile ends too.
    """
    family = descendants(processes, folder)
    watching = {p for p in family if folder and _watches_another(p.pid, folder)}
    family -= watching
    ours = family - _signal_all(family, signal.SIGTERM)
    _signal_all(ours, signal.SIGCONT)  # a stopped one would not get the SIGTERM
    wait_gone(ours, grace_s)
    family |= descendants(family, folder) - watching
    refused = _signal_all(family, signal.SIGKILL)
    left = wait_gone(family - refused, kill_s)
    wait_gone(watching, kill_s)
    return left | {process for process in refused if process.is_running}


def end_one(process: Process, grace_s: float, kill_s: float = KILL_S) -> bool:
    """End one process and none of its children; returns whether it has ended."""
    for number, patience_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, kill_s)):
        refused = _signal_all([process], number)
        if not wait_gone([process], 0 if refused else patience_s):
            return True
    return False


@dataclass
class ProcessRecord:
    """What the kernel has reported: its pid, the processes it started, its folder."""

    kernel: Process
    lease_s: float
    folder: str
    processes: set[Process] = field(default_factory=set)
    at_end: list[list[str]] = field(default_factory=list)
    grace_s: float = _GRACE_S
    is_over: bool = False

    @classmethod
    def from_line(cls, line: str) -> ProcessRecord:
        """Read the first line; raises ValueError or KeyError if it is not one."""
        plain = json.loads(line)
        kernel = Process(*plain["kernel"])
        return cls(kernel, float(plain["lease_s"]), str(plain["folder"]))

    def update(self, line: str) -> None:
        """Apply a later line: `processes`, `at_end` or `end`.

        `{"processes": [[pid, started]...]}` are those that there are now; `{"at_end":
        [command...]}` are commands to run at the end; `{"end": grace_s}` is the order
        to end them all.
        """
        plain = json.loads(line)
        self.processes = {Process(*p) for p in plain.get("processes", self.processes)}
        self.at_end = plain.get("at_end", self.at_end)
        self.is_over = "end" in plain
        self.grace_s = float(plain.get("end", self.grace_s))


def watch(record: ProcessRecord, source: int) -> float:
    """Follow the kernel until it orders the end or dies.

    Returns after how many seconds the end is due: at once, or after the lease.

    The end of stdin says nothing: a fork of the kernel may keep it open, and the kernel
    may close it early. Only the pidfd shows that the kernel is dead.
    """
    kernel = open_pidfd(record.kernel)
    poller, rest = select.poll(), b""
    poller.register(source, select.POLLIN)
    if kernel is not None:
        poller.register(kernel, select.POLLIN)
    while not record.is_over:
        # What was sent before the death is read first: it may be the order to end now.
        ready = [fd for fd, _ in poller.poll(None if kernel is not None else 0)]
        if source in ready:
            data = os.read(source, 1 << 16)
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                record.update(line.decode())
            if not data:  # or `poll` would return at once for ever
                poller.unregister(source)
        elif kernel is None or kernel in ready:
            return record.lease_s
    return 0.0


def run_all(commands: Iterable[Sequence[str]]) -> None:
    """Run commands at the same time, and wait for them for some seconds.

    A failure does not stop the others. What takes longer goes on by itself, such as the
    cancelling of a job by a busy queue, which would keep the job otherwise.
    """
    running = []
    for command in commands:
        with contextlib.suppress(OSError):
            running.append(
                subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            )
    give_up_at = time.monotonic() + _COMMAND_S
    for process in running:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, give_up_at - time.monotonic()))


def clean_up(record: ProcessRecord, kill_s: float = KILL_S) -> set[Process]:
    """End the recorded processes, remove the folder; return those that survive."""
    run_all(record.at_end)
    left = end(record.processes, record.grace_s, kill_s=kill_s, folder=record.folder)
    folder = Path(record.folder)
    with contextlib.suppress(OSError):
        # A last check against a damaged record: only a folder that we made is removed.
        if folder.name.startswith("psring-") and folder.lstat().st_uid == os.getuid():
            shutil.rmtree(folder, ignore_errors=True)
    return left


def main() -> None:
    """Read the record from stdin and keep watch; the status is 0 if all have ended."""
    source = sys.stdin.fileno()
    first = bytearray()
    while not first.endswith(b"\n"):
        byte = os.read(source, 1)
        if not byte:
            return
        first += byte
    record = ProcessRecord.from_line(first.decode())
    # Ctrl-C in a terminal is meant for the kernel, which then ends us in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    time.sleep(watch(record, source))
    sys.exit(1 if clean_up(record) else 0)


if __name__ == "__main__":
    main()
