"""Functions that the notebook has run on a host: facts, forks, news, ends.

On another host each runs in that host's own engine and sees that host: its files, its
process numbers, its network. They return plain values.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path

from kit import arithmetic, machine
from kit.arithmetic import Arithmetic
from kit.cluster.processes import reaper
from kit.cluster.processes.forks import ForkOrders, log_file
from kit.cluster.processes.reaper import Process
from kit.cluster.runtime import number_in, tail_of
from kit.system import machine_id
from kit.wire.listening.address import TcpAddress, parse_address
from kit.wire.sockets import address_towards, why_unreachable

_PACKAGES = ("psring", "numpy", "ipyparallel")
# Where launchers put the rank of a process.
_RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
FORK_S = 20.0  # of all tasks of a host

# In a host's own engine: the way to its fork server.
_orders: ForkOrders


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


def _folder() -> Path:
    return Path(os.environ[reaper.MARK])


def take(pipe: Connection) -> None:
    """Order engines by this pipe from now on."""
    global _orders  # of the process, whose only use this is
    os.set_inheritable(pipe.fileno(), False)
    _orders = ForkOrders(pipe)


def versions() -> dict[str, str]:
    """Return the versions that should be the same on all hosts."""
    packages = {name: version(name) for name in _PACKAGES}
    return {"Python": platform.python_version()} | packages


def survey(controller: str) -> HostFacts:
    """Return the facts of this host; `controller` is the address of the controller."""
    facts = json.loads((_folder() / "host.json").read_text())
    return HostFacts(
        facts["label"] or platform.node(),
        platform.node(),
        machine_id(),
        facts["slots"],
        machine.raise_descriptors(),
        number_in(_RANKS, 0),
        address_towards(controller),
        str(_folder()),
        versions(),
        facts["cores"],
        arithmetic.here(),
    )


def has_folder(folder: str) -> bool:
    """Tell whether this host sees a folder in which it may write."""
    return os.access(folder, os.W_OK | os.X_OK)


def fork(names: Mapping[int, str]) -> dict[int, Process | str]:
    """Have an engine forked for each task, by number and name; blocks.

    Returns their processes, or why there is none; nothing for those that the fork
    server has not answered in time.
    """
    answers: dict[int, Process | str] = {}
    give_up_at = time.monotonic() + FORK_S
    _orders.order(names)
    while len(answers) < len(names) and _orders.is_open:
        left_s = give_up_at - time.monotonic()
        if left_s < 0:
            break
        _orders.pipe.poll(left_s)
        answers |= _orders.read()
    _orders.give_up(names)
    return answers


def news(n_lines: int = 40) -> HostNews:
    """Return the state of the engines; takes some 2 ms for each."""
    _orders.read()
    processes, statuses = _orders.processes, _orders.statuses
    running = {i: p for i, p in processes.items() if i not in statuses}
    mib = {p.pid: machine.used_mib(p.pid) for p in running.values()}
    logs = {i: log_file(_folder(), name) for i, name in _orders.names.items()}
    return HostNews(
        dict(processes),
        dict(statuses),
        {index: tail_of(log, n_lines) for index, log in logs.items()},
        {pid: used for pid, used in mib.items() if used is not None},
        frozenset(i for i, p in running.items() if p.is_stopped),
    )


def family_of(process: tuple[int, int]) -> set[Process]:
    """Return a process and all that it has started.

    Before its end: orphans are not found by their parent later.
    """
    return reaper.descendants([Process(*process)])


def end_one(process: tuple[int, int], grace_s: float) -> None:
    """End a process and none of its children. Blocks."""
    reaper.end_one(Process(*process), grace_s)


def end_all(processes: Iterable[tuple[int, int]], grace_s: float) -> None:
    """End processes with everything that they have started. Blocks."""
    reaper.end([Process(*process) for process in processes], grace_s)


def _tcp(address: str) -> TcpAddress:
    parsed = parse_address(address)
    assert isinstance(parsed, TcpAddress), "tasks of several hosts listen on ports"
    return parsed


def unreachable(addresses: Sequence[str], limit_s: float) -> dict[str, str]:
    """Return the addresses to which no connection can be opened, and why. Blocks."""
    causes = {address: why_unreachable(_tcp(address), limit_s) for address in addresses}
    return {address: why for address, why in causes.items() if why}


def stop_host() -> None:
    """Tell the fork server to end, and with it all of the cluster on this host."""
    os.kill(os.getppid(), signal.SIGTERM)
