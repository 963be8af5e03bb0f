"""The memory and cores of the machine that this process may use.

A container sees the whole machine's memory and cores in the usual places, and is killed
or slowed down when it uses them. Its limits are those of the control groups (version 1
or 2) of the process, and of all groups that contain these.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kit.system import cpus

_ROOT = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")
_CPUS, _SHARED = Path("/sys/devices/system/cpu"), "topology/thread_siblings_list"
_MOST_DESCRIPTORS = 1 << 20
_MIB = 1 << 20
# Version 1 says "no limit" by a number near 2**63.
_NO_LIMIT = 1 << 60

# By the version of control groups: limit, usage, and the name of reclaimable memory.
_MEMORY = {
    2: ("memory.max", "memory.current", "inactive_file"),
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


@dataclass(frozen=True)
class MachineMemory:
    """How much memory may be used, and how much of it is free."""

    limit_mib: int
    available_mib: int
    is_contained: bool = False  # a control group allows less than the machine has

    @property
    def scope(self) -> str:
        """What has this limit, in words."""
        return "this container" if self.is_contained else "this machine"


@dataclass(frozen=True)
class Groups:
    """Where to read control groups: the mounted tree, and the file of memberships."""

    root: Path = _ROOT
    own: Path = _OWN

    def of(self, controller: str) -> Iterator[tuple[Path, int]]:
        """Yield the folders of a controller's groups, innermost first, and the version.

        Inside a container the path may be the one outside, which is not mounted here;
        then the container's own group is the root of the tree, the last in the list.
        """
        for line in _lines(self.own):
            _, controllers, path = line.split(":", 2)
            if not controllers:
                yield from _upwards(self.root, path, 2)
            elif controller in controllers.split(","):
                yield from _upwards(self.root / controller, path, 1)

    def memory(self) -> Iterator[tuple[int, int]]:
        """Yield the limit of each group that has one, and what is left of it, bytes."""
        for folder, kind in self.of("memory"):
            limit, usage, cache = _MEMORY[kind]
            allowed, used = _number(folder / limit), _number(folder / usage)
            if allowed is not None and used is not None and allowed < _NO_LIMIT:
                left = allowed - used + _cached(folder / "memory.stat", cache)
                yield allowed, min(allowed, max(0, left))

    def cores(self) -> Iterator[float]:
        """Yield how many cores each group that has a quota may keep busy."""
        for folder, kind in self.of("cpu"):
            if kind == 2:
                quota, _, period = _first(folder / "cpu.max").partition(" ")
            else:
                quota = _first(folder / "cpu.cfs_quota_us")
                period = _first(folder / "cpu.cfs_period_us")
            if quota.isdigit() and period.isdigit():
                yield int(quota) / int(period)


def memory(groups: Groups = Groups()) -> MachineMemory:
    """Return the memory for new processes: the machine's, or less in a container."""
    import psutil

    machine = psutil.virtual_memory()
    sizes = [*groups.memory(), (int(machine.total), int(machine.available))]
    limit = min(limit for limit, _ in sizes)
    left = min(left for _, left in sizes)
    return MachineMemory(limit // _MIB, left // _MIB, limit < int(machine.total))


def cores(groups: Groups = Groups()) -> int:
    """Return how many cores this process may keep busy, at least 1."""
    return max(1, int(min([len(cpus()), *groups.cores()])))


def physical_cores(groups: Groups = Groups(), folder: Path = _CPUS) -> int:
    """Return `cores`, with the hardware threads of one core counted once."""
    siblings = {_first(folder / f"cpu{n}" / _SHARED) or str(n) for n in cpus()}
    return max(1, int(min([len(siblings), *groups.cores()])))


# What the system says when it has no process, memory or descriptor left.
EXHAUSTED = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE}


def why_no_process(error: OSError, groups: Groups = Groups()) -> str:
    """Say in sentences why the system refused a process, and what to do about it.

    The limit is named with its value: fork(2) only says that there is one.
    """
    refused = f"{os.uname().nodename} gave it no process: {error.strerror}"
    if error.errno == errno.ENOMEM:
        had = memory(groups)
        return (
            f"{refused} ({had.available_mib} of {had.limit_mib} MiB of {had.scope} are "
            f"free). End what needs memory there, then try again."
        )
    if error.errno in (errno.EMFILE, errno.ENFILE):
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return (
            f"{refused} (ulimit -n is {soft}). Close files or end processes there, "
            f"then try again."
        )
    limits = [
        f"the control group {folder} may have {most} processes and threads, and has "
        f"{_number(folder / 'pids.current')}: pids.max, --pids-limit of docker, "
        f"TasksMax of systemd"
        for folder, _ in groups.of("pids")
        if (most := _number(folder / "pids.max")) is not None
    ]
    of_user, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if of_user != resource.RLIM_INFINITY:
        limits.append(
            f"user {os.getuid()} may have {of_user} processes and threads: ulimit -u"
        )
    most_threads = _first(Path("/proc/sys/kernel/threads-max"))
    limits.append(f"the system may have {most_threads}: sysctl kernel.threads-max")
    return (
        f"{refused}. The limits there are: {'; '.join(limits)}. End processes there or "
        f"raise the limit, then try again."
    )


def raise_descriptors(needed: int | None = None) -> int:
    """Raise the limit on open files, for this process and its children; return it.

    The soft limit is raised to `needed`, or as far as the hard limit allows.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return sys.maxsize
    most = sys.maxsize if hard == resource.RLIM_INFINITY else hard
    wanted = min(most, _MOST_DESCRIPTORS if needed is None else needed)
    if wanted > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(soft, wanted)


def open_descriptors() -> int:
    """Return how many files and sockets this process has open."""
    import psutil

    return psutil.Process().num_fds()


def used_mib(pid: int) -> float | None:
    """Return the memory of a process, None for one that is gone; some 2 ms.

    Pages that several processes share are divided among them, so the sum over the forks
    of one process is the memory that they really use.
    """
    import psutil

    try:
        used = psutil.Process(pid).memory_full_info()
        # Where no share is known, what is the process's alone.
        return float(getattr(used, "pss", used.uss)) / _MIB
    except psutil.Error:
        return None


def started(pid: int) -> int | None:
    """Return when a process began, in clock ticks after boot; None if it is gone.

    A pid is reused, a pid with this number is not.
    """
    try:
        # Below task/: qemu's user mode makes up what /proc/PID/stat says of itself.
        text = Path(f"/proc/{pid}/task/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    # The name may have spaces and brackets in it: the last bracket ends it (proc(5)).
    return int(text[text.rindex(")") + 2 :].split()[19])


def run_delay_ns() -> int | None:
    """Return how long this thread has waited so far for a free core, ready to run.

    In nanoseconds, as the scheduler counts them; None if the kernel does not report it.
    Takes some 20 us.
    """
    try:
        file = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
    except OSError:
        return None
    try:
        fields = os.read(file, 100).split()
    finally:
        os.close(file)
    return int(fields[1]) if len(fields) > 1 else None


def give_back_freed() -> None:
    """Return freed memory of this process to the system, if its C library can.

    Without it, memory freed between blocks in use stays with the process.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it
    if trim is not None:
        trim(0)


def _upwards(root: Path, path: str, kind: int) -> Iterator[tuple[Path, int]]:
    parts = [part for part in path.split("/") if part not in ("", "..")]
    for length in range(len(parts), -1, -1):
        yield root.joinpath(*parts[:length]), kind


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _first(path: Path) -> str:
    return next(iter(_lines(path)), "")


def _number(path: Path) -> int | None:
    text = _first(path)
    return int(text) if text.isdigit() else None


def _cached(stat: Path, name: str) -> int:
    """Bytes of file cache that the kernel gives back before it refuses memory."""
    pairs = (line.partition(" ") for line in _lines(stat))
    return next((int(number) for key, _, number in pairs if key == name), 0)
