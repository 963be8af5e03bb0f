"""Whether a cluster fits into the available memory and open files.

Pure: the caller asks `kit.machine` what is available. It estimates the processes
themselves, not what a training will allocate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kit.cluster.options import as_arguments
from kit.errors import NotEnoughMemory, ResourceExhaustedError
from kit.machine import MachineMemory

# Measured as proportional set sizes with 4 engines on x86-64 Linux, Python 3.11,
# ipyparallel 9.2, numpy 2.4: 26 MiB an engine, 13 a nanny, 65 for the rest. They are
# forks of one process, so most pages are shared, until the engines' own work unshares
# them; hence about twice the measured values.
ENGINE_MIB = 40
NANNY_MIB = 20
SHARED_MIB = 160  # the controller, its heart beat, the fork server, the reaper


class _Files(NamedTuple):
    """Open files of a process: some, and some more for each task of the cluster."""

    first: int
    a_task: int

    def needed(self, n_tasks: int) -> int:
        """Return how many they are in a cluster of that size."""
        return self.first + self.a_task * n_tasks


# Measured with `benchmarks.growth`; the controller has most, 77 and 6 an engine. A mesh
# takes 4 of a task for each other one.
_CONTROLLER, _TASK = _Files(256, 8), _Files(128, 4)
# What a start opens in the process that starts the cluster: 32 and one a task.
_CLIENT = _Files(48, 2)


def need_descriptors(n_tasks: int) -> int:
    """Return how many open files any one process of a cluster may need."""
    return _CONTROLLER.needed(n_tasks)


def check_descriptors(n_tasks: int, limit: int, host: str = "") -> None:
    """Raise `ResourceExhaustedError` if a process may not open enough files.

    The process is the controller here, or a task on the `host` if that is given.

    >>> check_descriptors(64, 1024)
    """
    files = _TASK if host else _CONTROLLER
    if (need := files.needed(n_tasks)) > limit:
        most = max(0, (limit - files.first) // files.a_task)
        raise ResourceExhaustedError(
            f"a cluster of {n_tasks} tasks needs up to {need:,} open files in one "
            f"process, and {limit:,} are allowed {f'on {host}' if host else 'here'} "
            f"(ulimit -Hn), enough for {most} tasks. Have the limit raised, or start "
            f"fewer."
        )


def check_free_descriptors(n_tasks: int, limit: int, n_open: int) -> None:
    """Raise `ResourceExhaustedError` if this process has too few left for a start.

    ZeroMQ ends the whole process when it gets none.

    >>> check_free_descriptors(4, limit=1024, n_open=100)
    """
    if (need := _CLIENT.needed(n_tasks)) > limit - n_open:
        raise ResourceExhaustedError(
            f"to start a cluster of {n_tasks} tasks this process opens up to {need} "
            f"files, and {n_open:,} of the {limit:,} that it may have are open already "
            f"(ulimit -Hn). Close some, or have the limit raised."
        )


def need_mib(n_engines: int) -> int:
    """Return the estimated need of a cluster of `n_engines`.

    >>> need_mib(4) - need_mib(3) == ENGINE_MIB + NANNY_MIB
    True
    """
    return SHARED_MIB + n_engines * (ENGINE_MIB + NANNY_MIB)


def engines_that_fit(available_mib: int) -> int:
    """Return how many engines fit into `available_mib`.

    >>> engines_that_fit(need_mib(3)), engines_that_fit(0)
    (3, 0)
    """
    return max(0, (available_mib - SHARED_MIB) // (ENGINE_MIB + NANNY_MIB))


def check(jobs: Mapping[str, int], memory: MachineMemory, freed_mib: float = 0) -> None:
    """Raise `NotEnoughMemory` if a cluster of these jobs does not fit.

    `freed_mib` is memory that will be free in addition when it starts.

    >>> check({"ps": 1, "worker": 3}, MachineMemory(limit_mib=4000, available_mib=2000))
    """
    n_tasks = sum(jobs.values())
    need, available = need_mib(n_tasks), memory.available_mib + int(freed_mib)
    if need <= available:
        return
    fitting = shrunk(jobs, engines_that_fit(available))
    advice = (
        f"{as_arguments(fitting)} would fit."
        if fitting
        else f"Free some, or raise the limit of {memory.scope}."
    )
    raise NotEnoughMemory(
        f"{as_arguments(jobs)} needs about {need:,} MiB; {available:,} MiB of the "
        f"{memory.limit_mib:,} MiB of {memory.scope} are free. {advice}"
    )


def shrunk(jobs: Mapping[str, int], n_tasks: int) -> dict[str, int]:
    """Return the jobs reduced to `n_tasks` tasks; empty if that is not one each.

    Tasks are taken from the largest job first.

    >>> shrunk({"ps": 1, "worker": 7}, 3), shrunk({"ps": 1, "worker": 7}, 1)
    ({'ps': 1, 'worker': 2}, {})
    """
    counts = {job: n for job, n in jobs.items() if n}
    if n_tasks < len(counts):
        return {}
    while sum(counts.values()) > n_tasks:
        largest = max(counts, key=lambda job: (counts[job], job == "ps"))
        counts[largest] -= 1
    return counts


def summary(mib: float, memory: MachineMemory, *, is_estimate: bool = False) -> str:
    """Return in words how much of the memory a cluster takes.

    >>> summary(231.4, MachineMemory(1024, 700, is_contained=True))
    'memory: 231 MiB of the 1,024 MiB of this container; 700 MiB are free'
    """
    about = "about " if is_estimate else ""
    return (
        f"memory: {about}{mib:,.0f} MiB of the {memory.limit_mib:,} MiB of "
        f"{memory.scope}; {memory.available_mib:,} MiB are free"
    )
