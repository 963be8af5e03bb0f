"""What the notebook calls on a host's own engine: who it is, what runs there, the end.

Each function runs in that engine's process and sees that host: its files, its process
numbers, its network. They return plain values.
"""

from __future__ import annotations

import json
import os
import platform
import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy
import threadpoolctl

from kit import machine
from kit.cluster.processes import reaper
from kit.cluster.processes.forks import HOST_ENGINE, Forks
from kit.cluster.processes.reaper import Process
from kit.cluster.runtime import tail_of
from kit.wire.listening.address import TcpAddress, parse_address
from kit.wire.sockets import address_towards, why_unreachable

_PACKAGES = ("psring", "numpy", "ipyparallel")
# The rank that the launcher has given this process, by what tells it.
_RANKS = (
    *("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "PSRING_RANK"),
    *("PBS_ARRAY_INDEX", "PBS_ARRAYID", "SGE_TASK_ID", "LSB_JOBINDEX"),
)


@dataclass(frozen=True)
class HostFacts:
    """Who a host is; `address` is its own one towards the controller.

    Two with the same `machine` are one: one boot of it and one network.
    """

    label: str
    name: str
    machine: str
    slots: int
    descriptors: int  # that a process may have there
    rank: int
    address: str
    folder: str
    versions: dict[str, str]
    cpu: str
    blas: str  # the library and the kernel that it chose for this CPU
    simd: tuple[str, ...]  # vector instructions that numpy uses, beyond its least ones


@dataclass
class HostNews:
    """What has become of the engines on a host, by number; `mib` is by pid."""

    processes: dict[int, Process] = field(default_factory=dict)
    statuses: dict[int, int] = field(default_factory=dict)
    logs: dict[int, str] = field(default_factory=dict)
    mib: dict[int, float] = field(default_factory=dict)
    stopped: frozenset[int] = frozenset()


def _forks() -> Forks:
    return Forks(Path(os.environ[reaper.MARK]))


def versions() -> dict[str, str]:
    """Return what must not differ between hosts, or is worth a word if it does."""
    known = {name: version(name) for name in _PACKAGES}
    return {"Python": platform.python_version()} | known


def blas() -> str:
    """Return which BLAS numpy multiplies with here, such as `openblas 0.3.31 Zen`."""
    told = ("internal_api", "version", "architecture")
    found = threadpoolctl.ThreadpoolController().select(user_api="blas").info()
    return ", ".join(" ".join(str(one.get(k) or "") for k in told) for one in found)


def simd() -> tuple[str, ...]:
    """Return the vector instructions, by numpy's names, that it uses where it can."""
    told: Any = numpy.show_config(mode="dicts")
    return tuple(told.get("SIMD Extensions", {}).get("found", ()))


def cpu() -> str:
    """Return the CPU's model by Linux's name, or only its kind where it has none."""
    told = Path("/proc/cpuinfo").read_text()
    found = re.search(r"^model name\s*:\s*(.+)$", told, re.MULTILINE)
    return found[1] if found else platform.machine()


def _machine() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {Path('/proc/self/ns/net').stat().st_ino}"


def survey(controller: str) -> HostFacts:
    """Return who this host is; `controller` is the address of the notebook's."""
    forks = _forks()
    told = json.loads((forks.folder / "host.json").read_text())
    rank = next((os.environ[name] for name in _RANKS if name in os.environ), "0")
    return HostFacts(
        told["label"] or platform.node(),
        platform.node(),
        _machine(),
        told["slots"],
        machine.raise_descriptors(),
        int(rank),
        address_towards(controller),
        str(forks.folder),
        versions(),
        cpu(),
        blas(),
        simd(),
    )


def has_folder(folder: str) -> bool:
    """Tell whether this host sees a folder in which it may write."""
    return os.access(folder, os.W_OK | os.X_OK)


def fork(names: Mapping[int, str]) -> None:
    """Have an engine forked for each task, by number and name."""
    forks, server = _forks(), reaper.find(os.getppid())
    for index, name in names.items():
        forks.order(index, name, server)


def news(*, with_memory: bool, n_lines: int = 40) -> HostNews:
    """Return what has become of the engines; with memory some 2 ms an engine more."""
    forks = _forks()
    processes, statuses = forks.report()
    names = dict(forks.orders())
    running = {i: p for i, p in processes.items() if i not in statuses}
    mib = {p.pid: machine.used_mib(p.pid) for p in running.values() if with_memory}
    return HostNews(
        {i: p for i, p in processes.items() if i != HOST_ENGINE},
        statuses,
        {i: tail_of(forks.log(name), n_lines) for i, name in names.items()},
        {pid: used for pid, used in mib.items() if used is not None},
        frozenset(i for i, p in running.items() if p.is_stopped),
    )


def end_engine(process: tuple[int, int], grace_s: float) -> list[tuple[int, int]]:
    """End an engine's process alone; return its family, for `end_all`. Blocks."""
    family = reaper.descendants([Process(*process)])
    reaper.end_one(Process(*process), grace_s)
    return [(one.pid, one.started) for one in family]


def end_all(processes: Sequence[tuple[int, int]], grace_s: float) -> None:
    """End processes with all that they have started. Blocks."""
    reaper.end([Process(*one) for one in processes], grace_s)


def _tcp(address: str) -> TcpAddress:
    found = parse_address(address)
    assert isinstance(found, TcpAddress), "tasks of several hosts listen on ports"
    return found


def unreachable(addresses: Sequence[str], limit_s: float) -> dict[str, str]:
    """Return which of the addresses no connection can be opened to, and why. Blocks."""
    found = {address: why_unreachable(_tcp(address), limit_s) for address in addresses}
    return {address: why for address, why in found.items() if why}


def stop_host() -> None:
    """End the fork server and with it all of the cluster on this host, soon."""
    os.kill(os.getppid(), signal.SIGTERM)
