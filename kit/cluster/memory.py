"""Whether a cluster fits into this machine's memory.

`check` and `need_mib` are pure; `available_mib` reads the limits of the machine and of
the container. It estimates the processes themselves, not what a training will allocate.
"""

from __future__ import annotations

from pathlib import Path

from kit.errors import NotEnoughMemory

# Measured as proportional set sizes with 4 engines on x86-64 Linux, Python 3.11,
# ipyparallel 9.2, numpy 2.4: 22 MiB an engine, 12 a nanny, 75 for the rest. They are
# forks of one process, so most pages are shared, until the engines' own work unshares
# them; hence about twice the measured values.
ENGINE_MIB = 40
NANNY_MIB = 20
SHARED_MIB = 160  # the controller, its heart beat, the nursery, the keeper

_MIB = 1 << 20
_V2 = Path("/sys/fs/cgroup")
_V1 = Path("/sys/fs/cgroup/memory")


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


def check(ps: int, others: int, available_mib: int) -> None:
    """Raise `NotEnoughMemory` when `ps` + `others` engines do not fit.

    >>> check(ps=1, others=3, available_mib=2000)
    """
    need = need_mib(ps + others)
    if need <= available_mib:
        return
    fit = engines_that_fit(available_mib) - ps
    advice = (
        f"{fit} worker{'s' if fit != 1 else ''} would fit: Cluster(ps={ps}, "
        f"worker={fit})"
        if fit > 0
        else "not even one worker would fit: free memory or raise the container's limit"
    )
    raise NotEnoughMemory(
        f"{ps + others} tasks need about {need} MiB and {available_mib} MiB are "
        f"available; {advice}."
    )


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _cache(stat: Path, name: str) -> int:
    """Bytes of file cache that the kernel gives back before it refuses memory."""
    try:
        lines = stat.read_text().splitlines()
    except OSError:
        return 0
    return next((int(s.split()[1]) for s in lines if s.split()[0] == name), 0)


def container_mib(v2: Path = _V2, v1: Path = _V1) -> int | None:
    """Return what the control group still allows, or None without a limit."""
    for limit, usage, stat, cache in (
        (v2 / "memory.max", v2 / "memory.current", v2 / "memory.stat", "inactive_file"),
        (
            v1 / "memory.limit_in_bytes",
            v1 / "memory.usage_in_bytes",
            v1 / "memory.stat",
            "total_inactive_file",
        ),
    ):
        allowed, used = _number(limit), _number(usage)
        # Version 1 says "no limit" by a number near 2**63.
        if allowed is not None and used is not None and allowed < 1 << 60:
            return max(0, allowed - used + _cache(stat, cache)) // _MIB
    return None


def available_mib() -> int:
    """Return the memory that new processes can have: machine or container, the less."""
    import psutil

    machine = int(psutil.virtual_memory().available) // _MIB
    container = container_mib()
    return machine if container is None else min(machine, container)
