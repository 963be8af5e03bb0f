"""The hosts of a cluster: where its engines run, and what is known of them there.

    launch -> a fork server on each host -> engines are forked there -> watched

A host is asked the same whichever it is (`Host`). The notebook's own answers at once
(`LocalHost`), any other by its own engine (`launched_hosts.py`). The `Hosts` of a
cluster bring their hosts about, and give each engine its host.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

from traitlets.config import Config

from kit import machine
from kit.cluster.loop import gather, in_thread, to_the_end
from kit.cluster.processes import host_calls
from kit.cluster.processes.engines import Engines
from kit.cluster.processes.forks import ForkOrders, log_file
from kit.cluster.processes.processes import why
from kit.cluster.processes.reaper import Process
from kit.cluster.runtime import tail_of
from kit.errors import ResourceExhaustedError, StartFailed

GRACE_S, _KILL_S = 1.0, 5.0  # of an engine that is restarted
_STATUS_S = 0.9  # less than calls and cells wait for the news of a loss
_JOIN_S = 0.5
_MISSES = 150  # of heartbeats: an engine here has 30 s
_SERVER = "kit.cluster.processes.fork_server"


class Host(ABC):
    """A host with a fork server. `tasks` are the numbers of the engines there.

    `folder` is the cluster's there; `address` is one of the host, empty if all engines
    are on one.
    """

    def __init__(self, name: str, folder: Path, address: str = "") -> None:
        self.name, self.folder, self.address = name, folder, address
        self.tasks: list[int] = []
        self.is_lost = False

    @property
    def sockets(self) -> Path:
        """Where the tasks there have their sockets."""
        return self.folder

    @abstractmethod
    async def ask(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return what one of `host_calls` returns there."""

    @abstractmethod
    async def fork(self, names: Mapping[int, str]) -> dict[int, Any]:
        """Have engines forked by number and name, as `host_calls.fork` does."""

    @abstractmethod
    def on_end(self, index: int, process: Any, callback: Callable[[], object]) -> None:
        """Call back in the loop as soon as the process of engine `index` ends."""

    @abstractmethod
    async def why_ended(self, index: int) -> str:
        """Say how the process of engine `index` ended, in words."""

    @abstractmethod
    def used_mib(self, process: Any) -> float | None:
        """Return the memory of an engine's process; some 2 ms on this host."""

    @abstractmethod
    def log_tail(self, index: int, name: str, n_lines: int) -> str:
        """Return the last lines that engine `index` wrote, which is a task's `name`."""


class LocalHost(Host):
    """The notebook's own host; its fork server is a child of this process."""

    _orders: ForkOrders  # both from the launch on
    _server: subprocess.Popen[bytes]

    def __init__(self, engines: Engines) -> None:
        super().__init__(os.uname().nodename, engines.folder)
        self._engines, self._processes = engines, engines.processes
        self._answers: dict[int, asyncio.Future[Process | str]] = {}

    def launch(self) -> Process:
        """Start the fork server."""
        options = self._engines.options
        command = [options.python, "-P", "-m", _SERVER, f"--folder={self.folder}"]
        profile = {"IPP_PROFILE_DIR": str(self.folder / "ipython" / "profile")}
        ours, theirs = Pipe()
        with theirs, log_file(self.folder, "fork-server").open("ab") as log:
            self._server = subprocess.Popen(
                [*command, f"--deadline={options.start_deadline_s}"],
                env=os.environ | self._engines.environment | profile,
                stdin=theirs.fileno(),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._orders = ForkOrders(ours)
        asyncio.get_running_loop().add_reader(ours, self._read, self._orders)
        process = self._processes.note(self._server.pid)
        self._processes.on_end(process, self._server_ended)
        return process

    def _server_ended(self) -> None:
        words = tail_of(log_file(self.folder, "fork-server"), 12)
        status = self._server.wait(_JOIN_S)
        self._engines.fail(f"all engines ended with status {status}.\n{words}")

    def _read(self, orders: ForkOrders) -> None:
        for index, answer in orders.read().items():
            if not (waiting := self._answers.pop(index)).done():
                waiting.set_result(answer)
        if not orders.is_open:
            asyncio.get_running_loop().remove_reader(orders.pipe)

    async def ask(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return what one of `host_calls` returns, without blocking the loop."""
        work = partial(function, *args)
        return await in_thread(work, patience_s=GRACE_S + _KILL_S)

    async def fork(self, names: Mapping[int, str]) -> dict[int, Process | str]:
        """Have engines forked; the answer takes as long as the imports before."""
        loop = asyncio.get_running_loop()
        answers = {index: loop.create_future() for index in names}
        self._answers |= answers
        self._orders.order(names)
        try:
            return dict(
                zip(names, await asyncio.gather(*answers.values()), strict=True)
            )
        finally:
            self._orders.give_up(names)

    def on_end(
        self, index: int, process: Process, callback: Callable[[], object]
    ) -> None:
        """Call back in the loop as soon as the process ends."""
        self._processes.add(process)
        self._processes.on_end(process, callback)

    async def why_ended(self, index: int) -> str:
        """Say how the process of engine `index` ended, in words."""
        # The fork server tells the status a moment after the end is noticed here.
        for _ in range(50):
            status = self._orders.statuses.get(index)
            if status is not None or not self._orders.is_open:
                return why(status)
            await asyncio.sleep(_STATUS_S / 50)
        return why(None)

    def used_mib(self, process: Process) -> float | None:
        """Return the memory of an engine's process; some 2 ms."""
        return machine.used_mib(process.pid)

    def log_tail(self, index: int, name: str, n_lines: int) -> str:
        """Return the last lines that engine `index` wrote, which is a task's `name`."""
        return tail_of(log_file(self.folder, name), n_lines)

    def join(self) -> None:
        """Wait for the end of the fork server; for any thread."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._server.wait(_JOIN_S)

    def close(self) -> None:
        """Close the pipe."""
        asyncio.get_running_loop().remove_reader(self._orders.pipe)
        self._orders.pipe.close()


class Hosts(ABC):
    """The hosts of one cluster; all methods are for the thread of its loop."""

    #: The process that forks the engines, if it is one of this host.
    fork_server: Process | None = None
    #: What needs no orderly end: that of the controller takes 0.3 s.
    killed_at_once: Process | None = None

    def __init__(self, engines: Engines) -> None:
        self._engines = engines
        #: BLAS threads of each task; 0 until the least share of all hosts is known.
        self.threads = engines.options.threads

    @abstractmethod
    async def launch(self) -> None:
        """Start the controller, and a fork server on each host."""

    @abstractmethod
    async def processes(self) -> dict[int, Any]:
        """Have all engines forked; return their processes by number."""

    @abstractmethod
    def of(self, index: int) -> Host:
        """Return the host of engine `index`."""

    async def _fork(self, host: Host, engines: Iterable[int]) -> dict[int, Any]:
        names = {index: self._engines.names[index] for index in engines}
        answers = await host.fork(names)
        for index, name in names.items():
            answer = answers.get(index)
            if answer is None:
                raise StartFailed(f"the fork server on {host.name} is silent.")
            if isinstance(answer, str):
                raise ResourceExhaustedError(answer, task=name)
        return answers

    async def _fork_first(self, hosts: Iterable[Host]) -> dict[int, Any]:
        try:
            forked = await gather(self._fork(host, host.tasks) for host in hosts)
        except ResourceExhaustedError as error:
            raise StartFailed(f"{error.task} did not start: {error.message}") from error
        return {index: process for each in forked for index, process in each.items()}

    async def fork(self, index: int) -> Any:
        """Have a process forked for engine `index`; return it.

        Raises `ResourceExhaustedError` if its host refuses another process.
        """
        return (await self._fork(self.of(index), [index]))[index]

    async def end(self, index: int, process: Any) -> None:
        """End engine `index` and its children; wait until its controller knows."""
        host, family = self.of(index), set()
        try:
            if process is not None:
                family = await host.ask(host_calls.family_of, process[:2])
                await host.ask(host_calls.end_one, process[:2], GRACE_S)
            await self._engines.unregistered(index)
        finally:
            # Also when it is cancelled: later, orphans of the engine are not found.
            if family:
                await to_the_end(host.ask(host_calls.end_all, family, GRACE_S))

    async def why_ended(self, index: int) -> str:
        """Say how the process of engine `index` ended, in words."""
        return await self.of(index).why_ended(index)

    def why_no_fork(self, index: int) -> str:
        """Return why engine `index` cannot get a new process; empty if it can."""
        host = self.of(index)
        return f"its host {host.name} does not answer" if host.is_lost else ""

    def log_path(self, index: int) -> Path:
        """Return where the log of engine `index` is, on its host."""
        return log_file(self.of(index).folder, self._engines.names[index])

    def log_tail(self, index: int, n_lines: int = 12) -> str:
        """Return the last lines that engine `index` wrote."""
        return self.of(index).log_tail(index, self._engines.names[index], n_lines)

    async def check_reach(self, addresses: Sequence[str]) -> None:
        """Raise `UnavailableError` if one host cannot connect to another."""
        return None

    async def why_waiting(self) -> str:
        """Return what is known about why the start takes so long."""
        return ""

    async def leave(self) -> None:
        """End the processes on other hosts."""
        return None

    async def forget(self) -> None:
        """Let go of what has ended."""
        return None

    def join(self) -> None:
        """Wait for the end of what was started here; for any thread."""
        return None


class LocalHosts(Hosts):
    """The notebook's host alone."""

    def __init__(self, engines: Engines) -> None:
        super().__init__(engines)
        self._host = LocalHost(engines)

    async def launch(self) -> None:
        """Start the controller, and at the same time the fork server."""
        await self._engines.launch(_MISSES, Config())
        self.killed_at_once = self._engines.controller
        self.fork_server = self._host.launch()

    async def processes(self) -> dict[int, Process]:
        """Have all engines forked; return their processes by number."""
        self._host.tasks = list(range(len(self._engines.names)))
        await self._engines.connection("engine")  # the engines read it
        return await self._fork_first([self._host])

    def of(self, index: int) -> Host:
        """Return the host of all."""
        return self._host

    async def forget(self) -> None:
        """Close the pipe to the fork server, which has ended."""
        if self.fork_server is not None:
            self._host.close()

    def join(self) -> None:
        """Wait for the end of the fork server; for any thread."""
        if self.fork_server is not None:
            self._host.join()
