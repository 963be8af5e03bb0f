"""Functions that the notebook calls on a host's own engine: facts, forks, news, ends.

Each runs in that engine's process and sees that host: its files, its process numbers,
its network. They return plain values.
"""

from __future__ import annotations

import json
import os
import platform
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from kit import arithmetic, machine
from kit.arithmetic import Arithmetic
from kit.cluster.processes import reaper
from kit.cluster.processes.forks import HOST_ENGINE, ForkRefusal, Forks
from kit.cluster.processes.reaper import Process
from kit.cluster.runtime import number_in, tail_of
from kit.wire.listening.address import TcpAddress, parse_address
from kit.wire.sockets import address_towards, why_unreachable

_PACKAGES = ("psring", "numpy", "ipyparallel")
# Where launchers put the rank of a process.
_RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")


@dataclass(frozen=True)
class HostFacts:
    """The facts of a host; `address` is its own address towards the controller.

    Two with the same `machine` are one host: the same boot and the same network.
    """

    label: str
    name: str
    machine: str
    slots: int
    descriptors: int  # how many a process may have there
    rank: int
    address: str
    folder: str
    versions: dict[str, str]
    cores: int  # physical ones, which its tasks share
    arithmetic: Arithmetic


@dataclass
class HostNews:
    """The state of the engines on a host, by number; `mib` is by pid."""

    processes: dict[int, Process] = field(default_factory=dict)
    statuses: dict[int, int] = field(default_factory=dict)
    logs: dict[int, str] = field(default_factory=dict)
    mib: dict[int, float] = field(default_factory=dict)
    stopped: frozenset[int] = frozenset()
    refusals: dict[int, ForkRefusal] = field(default_factory=dict)


def _forks() -> Forks:
    return Forks(Path(os.environ[reaper.MARK]))


def versions() -> dict[str, str]:
    """Return the versions that should be the same on all hosts."""
    known = {name: version(name) for name in _PACKAGES}
    return {"Python": platform.python_version()} | known


def _machine() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {Path('/proc/self/ns/net').stat().st_ino}"


def survey(controller: str) -> HostFacts:
    """Return the facts of this host; `controller` is the address of the controller."""
    forks = _forks()
    told = json.loads((forks.folder / "host.json").read_text())
    return HostFacts(
        told["label"] or platform.node(),
        platform.node(),
        _machine(),
        told["slots"],
        machine.raise_descriptors(),
        number_in(_RANKS, 0),
        address_towards(controller),
        str(forks.folder),
        versions(),
        told["cores"],
        arithmetic.here(),
    )


def has_folder(folder: str) -> bool:
    """Tell whether this host sees a folder in which it may write."""
    return os.access(folder, os.W_OK | os.X_OK)


def fork(names: Mapping[int, str]) -> None:
    """Order an engine for each task, by number and name."""
    forks, server = _forks(), reaper.find(os.getppid())
    for index, name in names.items():
        forks.order(index, name, server)


def news(*, with_memory: bool, n_lines: int = 40) -> HostNews:
    """Return the state of the engines; their memory takes some 2 ms more for each."""
    forks = _forks()
    processes, statuses, refusals = forks.report()
    names = dict(forks.orders())
    running = {i: p for i, p in processes.items() if i not in statuses}
    mib = {p.pid: machine.used_mib(p.pid) for p in running.values() if with_memory}
    return HostNews(
        {i: p for i, p in processes.items() if i != HOST_ENGINE},
        statuses,
        {i: tail_of(forks.log(name), n_lines) for i, name in names.items()},
        {pid: used for pid, used in mib.items() if used is not None},
        frozenset(i for i, p in running.items() if p.is_stopped),
        refusals,
    )


def end_engine(process: tuple[int, int], grace_s: float) -> list[tuple[int, int]]:
    """End an engine's process alone; return its family, for `end_all`. Blocks."""
    # Before its end: orphans are not found by their parent later.
    family = reaper.descendants([Process(*process)])
    reaper.end_one(Process(*process), grace_s)
    return [(one.pid, one.started) for one in family]


def end_all(processes: Sequence[tuple[int, int]], grace_s: float) -> None:
    """End processes with everything that they have started. Blocks."""
    reaper.end([Process(*process) for process in processes], grace_s)


def _tcp(address: str) -> TcpAddress:
    found = parse_address(address)
    assert isinstance(found, TcpAddress), "tasks of several hosts listen on ports"
    return found


def unreachable(addresses: Sequence[str], limit_s: float) -> dict[str, str]:
    """Return the addresses to which no connection can be opened, and why. Blocks."""
    found = {address: why_unreachable(_tcp(address), limit_s) for address in addresses}
    return {address: why for address, why in found.items() if why}


def stop_host() -> None:
    """Tell the fork server to end, and with it all of the cluster on this host."""
    os.kill(os.getppid(), signal.SIGTERM)
