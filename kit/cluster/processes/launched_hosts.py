"""Other hosts, on which a launcher starts a process each.

    launch -> hosts register -> survey -> place -> fork there -> engines register

Each host has an engine that is not a task. Calls about the host run there
(`host_calls.py`): which processes run, how they ended, what they wrote. The answers are
kept, and refreshed each second, and at once when the controller misses an engine.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from traitlets.config import Config

from kit.arithmetic import DISABLED, KERNEL, differences
from kit.cluster.cells import remote
from kit.cluster.cells.calls import follow
from kit.cluster.launchers import LAUNCH_LOG, Launcher
from kit.cluster.loop import gather, in_thread
from kit.cluster.memory import check_descriptors
from kit.cluster.processes import host_calls
from kit.cluster.processes.engines import Engines
from kit.cluster.processes.host_calls import HostFacts, HostNews
from kit.cluster.processes.hosts import Host, Hosts
from kit.cluster.processes.launch import SlurmJobLauncher, SSHHostsLauncher
from kit.cluster.processes.log_bound import LogBound
from kit.cluster.processes.processes import why
from kit.cluster.runtime import tail, tail_of, threads_per_engine
from kit.errors import DeadlineExceededError, StartFailed, UnavailableError
from kit.wire.stream import MPI

# --------------------------------------------------------------------------------------
# Differences between the hosts of a cluster that are errors, or change the last bits.
#
# OpenBLAS has a kernel for each family of CPUs, and numpy has some of its functions,
# such as `exp`, once for each set of vector instructions. They sum and round in
# different orders, so the same program may compute different last bits on different
# CPUs. Both choose when they are loaded, and an environment variable restricts either
# choice.


def pins() -> list[str]:
    """Return the notebook's choice of kernels, as `NAME=VALUE` for all hosts."""
    values = {KERNEL: os.environ.get(KERNEL, "")}
    # numpy takes spaces and commas, but a launcher's command line splits at spaces.
    values[DISABLED] = ",".join(os.environ.get(DISABLED, "").replace(",", " ").split())
    return [f"{name}={value}" for name, value in values.items() if value]


def check_versions(facts: HostFacts) -> None:
    """Raise `StartFailed` for versions that cannot exchange functions and messages.

    Warns of a numpy that may compute different bits.
    """
    here = host_calls.versions()
    for name, mine in here.items():
        theirs = facts.versions[name]
        if name == "Python":  # pickled code travels between its patch releases
            mine, theirs = (version.rpartition(".")[0] for version in (mine, theirs))
        if mine == theirs:
            continue
        both = f"{facts.name} has {name} {theirs}, the notebook has {mine}"
        if name == "numpy":
            warnings.warn(f"{both}: results may differ in the last bits", stacklevel=2)
        else:
            raise StartFailed(
                f"{both}; install the same there, or name another python."
            )


def check_addresses(hosts: Sequence[HostFacts]) -> None:
    """Raise `StartFailed` for two machines with one address: tasks could not connect.

    So it is with virtual machines that each have a private network behind their host's.
    """
    first: dict[str, HostFacts] = {}
    for facts in hosts:
        earlier = first.setdefault(facts.address, facts)
        if earlier.machine != facts.machine:
            raise StartFailed(
                f"{earlier.name} and {facts.name} are two machines, and each of them "
                f"sees itself at {facts.address}, so neither can be reached there by "
                f"the other. Give them a network in which each has its own address."
            )


def compare_arithmetic(hosts: Sequence[HostFacts]) -> None:
    """Warn where two hosts compute with different machine code, and say what helps."""
    # Of another numpy than the notebook's, `check_versions` has warned.
    reference = hosts[0].arithmetic.numpy if hosts else ""
    named = [(host.name, replace(host.arithmetic, numpy=reference)) for host in hosts]
    for words in differences(named):
        warnings.warn(f"on the hosts, {words}", stacklevel=2)


# --------------------------------------------------------------------------------------
# The hosts.

_CHECK_S, _REFRESH_S = 0.1, 1.0
_ANSWER_S = 5.0  # of a host
_LEAVE_S = 2.0  # until all hosts have left at a stop
# Of heartbeats (0.2 s each): a host that is cut off is lost after 8 s.
MISSES = 40
_CONNECTION = "connection.json"  # of the controller, in the shared folder
_OUTPUT_LINES = 4  # of a job
# The launchers of ipyparallel that we replace; it finds the others by name.
_LAUNCHERS = {"ssh": SSHHostsLauncher, "slurm": SlurmJobLauncher}


class FarProcess(NamedTuple):
    """A process of another host, by its pid and start time there."""

    pid: int
    started: int
    host: FarHost

    @property
    def is_running(self) -> bool:
        """Whether it was running when the host was last asked."""
        return not self.host.is_lost and self._index not in self.host.news.statuses

    @property
    def is_stopped(self) -> bool:
        """Whether a signal had stopped it when the host was last asked."""
        return self._index in self.host.news.stopped

    @property
    def _index(self) -> int:
        mine = (self.pid, self.started)
        matches = [i for i, p in self.host.news.processes.items() if tuple(p) == mine]
        return matches[0] if matches else -1


class FarHost(Host):
    """A host whose own engine answers; what it has told last is kept as news."""

    def __init__(self, engines: Engines, engine: int, facts: HostFacts) -> None:
        super().__init__(facts.name, Path(facts.folder), facts.address)
        self._engines, self.engine, self.facts = engines, engine, facts
        self.news = HostNews()
        self.watched: dict[int, tuple[FarProcess, Callable[[], object]]] = {}
        # Of the same machine, with a folder for the sockets of both.
        self.shares_with: FarHost | None = None

    @property
    def sockets(self) -> Path:
        """Where the tasks there have their sockets."""
        owner = self.shares_with
        # The folder of a lost host is removed with it.
        return self.folder if owner is None or owner.is_lost else owner.folder

    async def ask(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return what one of `host_calls` returns there."""
        return await ask(self._engines, self.engine, function, *args)

    async def refresh(self) -> None:
        """Ask for news, unless the host is lost."""
        if not self.is_lost:
            with contextlib.suppress(Exception):  # the next refresh asks again
                async with asyncio.timeout(_ANSWER_S):
                    self.news = await self.ask(host_calls.news)

    async def fork(self, names: Mapping[int, str]) -> dict[int, Any]:
        """Have engines forked there."""
        answers: dict[int, Any] = await self.ask(host_calls.fork, dict(names))
        await self.refresh()
        return {
            index: answer
            if isinstance(answer, str)
            else FarProcess(answer.pid, answer.started, self)
            for index, answer in answers.items()
        }

    def on_end(self, index: int, process: Any, callback: Callable[[], object]) -> None:
        """Call back in the loop when the process ends or its host is lost."""
        self.watched[index] = process, callback

    def tell_ended(self) -> None:
        """Call back for the processes that have ended."""
        for index, (process, callback) in list(self.watched.items()):
            if self.is_lost or not process.is_running:
                del self.watched[index]
                callback()

    async def why_ended(self, index: int) -> str:
        """Say how the process of engine `index` ended, in words."""
        if self.is_lost:
            return f"was lost with its host {self.name}, which does not answer"
        return why(self.news.statuses.get(index))

    def used_mib(self, process: FarProcess) -> float | None:
        """Return the memory of an engine's process, as last reported."""
        return self.news.mib.get(process.pid)

    def log_tail(self, index: int, name: str, n_lines: int) -> str:
        """Return the last lines that engine `index` wrote, as last reported."""
        return "\n".join(self.news.logs.get(index, "").splitlines()[-n_lines:])


async def ask(
    engines: Engines, number: int, function: Callable[..., Any], *args: Any
) -> Any:
    """Return what a function returns in the engine of a host."""
    payload, limit_s = remote.pack(function, args, {}), engines.options.start_deadline_s
    try:
        async with asyncio.timeout(limit_s):
            answer = await follow(engines.submit(number, payload))
    except TimeoutError as error:
        raise DeadlineExceededError(
            f"a host did not answer {function.__name__}() within {limit_s:g} s. "
            f"cluster.status shows which hosts are lost."
        ) from error
    return remote.unpack(answer, "the host's engine")


class LaunchedHosts(Hosts):
    """Hosts on which one of ipyparallel's launchers starts a process each."""

    def __init__(self, engines: Engines) -> None:
        super().__init__(engines)
        assert engines.options.launcher is not None, "it launches these"
        self._launcher: Launcher = engines.options.launcher
        self._shared = self._launcher.shared_folder(engines.folder)
        self._reached_at = ""
        self._order: list[str] = list(getattr(self._launcher, "hosts", ()))
        self._hosts: list[FarHost] = []
        self._job = ""
        self._watcher: asyncio.Task[None] | None = None

    async def _launch_controller(self, config: Config, **more: Any) -> None:
        """Start the controller where the hosts reach it."""
        self._reached_at = await in_thread(lambda: self._launcher.reached_at)
        await self._engines.launch(
            MISSES,
            config,
            controller_ip=self._reached_at,
            controller_location=self._reached_at,
            **more,
        )

    async def _configured(self) -> Config:
        """Return how the launcher starts its processes."""
        options, config = self._engines.options, Config()
        program = [self._launcher.python, "-P", "-m", "kit.cluster.processes.host"]
        options_of_host = host_options(options.start_deadline_s, self.threads)
        if self._has_ranks:
            options_of_host.append("--ranks")
        if self._shared is not None:
            options_of_host.append(f"--connection={self._shared / _CONNECTION}")
        make = partial(
            self._launcher.traits, self._engines.folder, [*program, *options_of_host]
        )
        for name, values in (await in_thread(make)).items():
            config[name].update(values)
        return config

    async def launch(self) -> None:
        """Start the controller, and have the launcher start processes on the hosts."""
        n_tasks, name = len(self._engines.names), self._launcher.launches
        await self._launcher.check(n_tasks)
        await self._launch_controller(
            await self._configured(),
            engines=_LAUNCHERS.get(name, name),
            n=self._launcher.n_processes(n_tasks),
            send_engines_connection_env=self._shared is None,
        )
        if self._shared is not None:
            await self._share(self._shared)
        # Before the launch, which may be given up halfway.
        folder, processes = self._engines.folder, self._engines.processes
        if command := self._launcher.ending(folder):
            processes.at_end(command)
        try:
            await self._engines.cluster.start_engines()
        except Exception as error:
            cause = tail_of(folder / LAUNCH_LOG, 3) or str(error)
            cause = error.message if isinstance(error, StartFailed) else cause
            raise StartFailed(
                f"the tasks could not be launched with {name}: {cause}"
            ) from error
        self._note_launched(self._engines.cluster.engine_set)
        self._watcher = asyncio.create_task(self._watch())

    async def _share(self, folder: Path) -> None:
        """Write the connection where the hosts read it; it is removed at the end."""
        connection = await self._engines.connection("engine")
        path = folder / _CONNECTION
        try:
            folder.mkdir(mode=0o700)
            # Before the key is in it: it goes, however this process ends.
            self._engines.processes.at_end(["rm", "-rf", str(folder)])
            path.touch(mode=0o600)
            path.write_text(json.dumps(connection))
        except OSError as error:
            raise StartFailed(
                f"{folder} cannot be made: {error.strerror}. Work in a folder that all "
                f"hosts see, or name one with shared=... of the launcher."
            ) from error

    def _note_launched(self, launched: Any) -> None:
        """Watch what was launched here, and have it ended with the cluster."""
        pid, self._job = getattr(launched, "pid", -1), getattr(launched, "job_id", "")
        if pid > 0:  # a process of this host, such as mpiexec
            self._engines.note(launched, "what was launched")

    async def why_waiting(self) -> str:
        """Return what is known about why the start takes so long."""
        cause = await self._launcher.waiting_for(self._job) if self._job else ""
        outputs = sorted(self._shared.glob("output*")) if self._shared else []
        wrote = [words for path in outputs if (words := tail_of(path, _OUTPUT_LINES))]
        if wrote and not self._hosts:
            cause += f"\nIt wrote:\n{wrote[0]}"
        here = ", ".join(host.name for host in self._hosts)
        if not here:
            here = (
                f"none. They must reach this machine at {self._reached_at}, on ports "
                f"that the system chooses: another address=... of the launcher, or a "
                f"firewall on the way, may be the cause"
            )
        return f"Hosts that have registered: {here}. {cause}".strip()

    # -- hosts -------------------------------------------------------------------

    async def processes(self) -> dict[int, Any]:
        """Survey hosts as they register, place the tasks, and have all forked."""
        await self._engines.connect_client()
        names = self._engines.names
        while sum(host.facts.slots for host in self._hosts) < len(names):
            await self._engines.learn()
            for engine in sorted(self._engines.connected):
                if engine not in [host.engine for host in self._hosts]:
                    await self._meet(engine)
            await self._check_launched()
        # Not before all have registered: a host that registers after a failed start
        # would not be told to end.
        for host in self._hosts:
            check_versions(host.facts)
        self._place()
        used = [host.facts for host in self._used]
        for facts in used:
            check_descriptors(len(names), facts.descriptors, facts.name)
        check_addresses(used)
        compare_arithmetic(used)
        self.threads = self.threads or self._least_share()
        return await self._fork_first(self._used)

    @property
    def _used(self) -> list[FarHost]:
        return [host for host in self._hosts if host.tasks]

    async def _check_launched(self) -> None:
        """Raise `StartFailed` if the process launched on a host has ended already."""
        for label, launcher in self._unmet.items():
            words = await asyncio.to_thread(launcher.why_ended)
            if words is not None:
                raise StartFailed(f"nothing runs on {label} any more.\n{tail(words)}")

    @property
    def _unmet(self) -> dict[str, Any]:
        """The launchers of hosts that have not registered, if each host has its own."""
        met = {host.facts.label for host in self._hosts}
        sets = self._engines.cluster.engines.values()
        launched = [getattr(engines, "launchers", {}).items() for engines in sets]
        return {
            k: launcher for items in launched for k, launcher in items if k not in met
        }

    @property
    def _has_ranks(self) -> bool:
        return self._engines.options.transport == MPI

    async def _meet(self, engine: int) -> None:
        facts = await ask(self._engines, engine, host_calls.survey, self._reached_at)
        self._hosts.append(host := FarHost(self._engines, engine, facts))
        if self._has_ranks:
            await self._share_folder(host)

    async def _share_folder(self, host: FarHost) -> None:
        """Let all tasks of a machine have their sockets in one folder.

        They find each other's unix sockets only there.
        """
        facts = host.facts
        for other in self._hosts:
            sibling = other.facts
            if sibling.machine != facts.machine or other.is_lost or other is host:
                continue
            if await host.ask(host_calls.has_folder, sibling.folder):
                host.shares_with = other.shares_with or other
                return

    def why_no_fork(self, index: int) -> str:
        """Return why engine `index` cannot get a new process; empty if it can."""
        if self._has_ranks:
            return "it is a rank of MPI, and that takes in no other process for one"
        return super().why_no_fork(index)

    def _place(self) -> None:
        """Give each host as many tasks as it has slots: as launched, else by rank."""
        named = self._order

        def order(host: FarHost) -> tuple[int, int, str]:
            label = host.facts.label
            at = named.index(label) if label in named else len(named)
            return at, host.facts.rank, host.facts.name

        self._hosts.sort(key=order)
        left = list(range(len(self._engines.names)))
        for host in self._hosts:
            host.tasks = left[: host.facts.slots]
            left = left[host.facts.slots :]

    def _least_share(self) -> int:
        """Return the threads that each task gets: as many as all hosts can give.

        With another number the same product of matrices has other bits.
        """
        return min(
            threads_per_engine(len(host.tasks), host.facts.cores) for host in self._used
        )

    def of(self, index: int) -> FarHost:
        """Return the host of engine `index`."""
        return next(host for host in self._hosts if index in host.tasks)

    def log_tail(self, index: int, n_lines: int = 12) -> str:
        """Return the last lines of engine `index`; none before it has a host."""
        is_placed = any(index in host.tasks for host in self._hosts)
        return super().log_tail(index, n_lines) if is_placed else ""

    async def check_reach(self, addresses: Sequence[str]) -> None:
        """Raise `UnavailableError` if a host cannot connect to a task of another.

        `addresses` are those of the tasks, in order; one on each host is tried.
        """
        targets = {addresses[host.tasks[0]]: host for host in self._used}
        tries = [
            host.ask(host_calls.unreachable, list(targets), _ANSWER_S / 2)
            for host in self._used
        ]
        for host, failed in zip(self._used, await gather(tries), strict=True):
            for address, reason in failed.items():
                raise UnavailableError(
                    f"{host.name} ({host.address}) cannot connect to "
                    f"{targets[address].name} at {address}: {reason}. A firewall "
                    f"between the two may be in the way: tasks listen on ports that "
                    f"the system chooses (sysctl net.ipv4.ip_local_port_range)."
                )

    # -- watch -------------------------------------------------------------------

    async def _watch(self) -> None:
        """Check which engines the controller knows; ask the hosts for the rest."""
        clock = asyncio.get_running_loop().time
        asked = clock()
        missed: frozenset[int] = frozenset()
        launched = LogBound((self._engines.folder / LAUNCH_LOG).parent)
        while True:
            await asyncio.sleep(_CHECK_S)
            engines_now = self._engines.connected
            for host in self._hosts:
                host.is_lost = self._has_lost(host, engines_now)
            watched = frozenset(i for host in self._hosts for i in host.watched)
            gone = watched - engines_now
            # How an engine ended is asked at once; the same one is not asked for again.
            if gone != missed or clock() - asked > _REFRESH_S:
                missed = gone
                await asyncio.gather(*(host.refresh() for host in self._hosts))
                launched.check()  # what ssh and its like write here
                asked = clock()
            for host in self._hosts:
                host.tell_ended()

    def _has_lost(self, host: FarHost, engines: frozenset[int]) -> bool:
        """Return whether a host is gone; `engines` are the controller's engines."""
        return host.engine not in engines

    # -- end -----------------------------------------------------------------------

    async def leave(self) -> None:
        """End all that runs on the hosts, and wait until they have left."""
        # Including hosts that have registered but were not surveyed, or were refused.
        engines = self._engines
        for engine in engines.connected - engines.registered:
            engines.submit(engine, remote.pack(host_calls.stop_host, [], {}))
        # No order reaches the others, such as those of a launch that failed elsewhere.
        ends = [asyncio.to_thread(launcher.end) for launcher in self._unmet.values()]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LEAVE_S):
                await asyncio.gather(*ends, return_exceptions=True)
                while engines.connected:
                    await asyncio.sleep(_CHECK_S)

    async def forget(self) -> None:
        """Ask the hosts nothing more."""
        if self._watcher is not None:
            self._watcher.cancel()
        # It would wait for each host, which has ended its processes or is cut off.
        if self._engines.cluster is not None:
            self._engines.cluster.engines.clear()


def host_options(deadline_s: float, threads: int) -> list[str]:
    """Return the options of each `host.py` of a cluster."""
    return [
        f"--deadline={deadline_s}",
        f"--threads={threads}",
        *(f"--pin={pin}" for pin in pins()),
    ]
