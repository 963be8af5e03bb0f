"""Engines on other hosts, started there by a launcher.

    launch -> hosts register -> survey -> place -> fork there -> engines register

Each host has an engine that is not a task. Calls about the host run there
(`host_calls.py`): which processes run, how they ended, what they wrote. The answers are
kept, and refreshed each second, and at once when the controller misses an engine.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from kit.cluster.cells import remote
from kit.cluster.cells.calls import follow
from kit.cluster.launchers import LAUNCH_LOG, Launcher
from kit.cluster.loop import in_thread, together
from kit.cluster.memory import check_descriptors
from kit.cluster.processes import host_calls, reaper
from kit.cluster.processes.engines import PRELOAD, Engines, controller_args
from kit.cluster.processes.forks import Forks, Report
from kit.cluster.processes.host_calls import HostFacts, HostNews
from kit.cluster.processes.host_differences import (
    check_addresses,
    check_versions,
    compare_arithmetic,
    pins,
)
from kit.cluster.processes.launch import SlurmJobLauncher, SSHHostsLauncher
from kit.cluster.processes.log_bound import LogBound
from kit.cluster.processes.processes import why
from kit.cluster.processes.reaper import Process
from kit.cluster.runtime import tail, tail_of, threads_per_engine
from kit.errors import DeadlineExceededError, StartFailed, UnavailableError

T = TypeVar("T")

_CHECK_S, _REFRESH_S = 0.1, 1.0
_ANSWER_S = 5.0  # of a host
_GRACE_S = 1.0  # of an engine that is restarted
_LEAVE_S = 2.0  # until all hosts have left at a stop
# Of heartbeats (0.2 s each): a host that is cut off is lost after 8 s.
MISSES = 40
_CONNECTION = "connection.json"  # of the controller, in the shared folder
_OUTPUT_LINES = 4  # of a job
# The launchers of ipyparallel that we replace; it finds the others by name.
_LAUNCHERS = {"ssh": SSHHostsLauncher, "slurm": SlurmJobLauncher}


@dataclass(eq=False)
class Host:
    """A host with its own engine; `tasks` are the numbers of the tasks placed there."""

    engine: int
    facts: HostFacts
    tasks: list[int] = field(default_factory=list)
    news: HostNews = field(default_factory=HostNews)
    is_lost: bool = False


class FarProcess(NamedTuple):
    """A process of another host, by its pid and start time there."""

    pid: int
    started: int
    host: Host

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
        found = [i for i, p in self.host.news.processes.items() if tuple(p) == mine]
        return found[0] if found else -1


class FarEngines(Engines):
    """An ipyparallel controller here, and its engines where a launcher started them."""

    def __init__(self, *args: Any, launcher: Launcher) -> None:
        self._launcher = launcher
        self._shared = launcher.shared_folder(args[0])
        self._reached_at = ""
        self._order: list[str] = list(getattr(launcher, "hosts", ()))
        self._hosts: list[Host] = []
        self._job = ""
        self._watcher: asyncio.Task[None] | None = None
        self._on_end: dict[int, tuple[FarProcess, Callable[[], object]]] = {}
        super().__init__(*args)

    def _launching(
        self, config: Any, environment: dict[str, str], python: str
    ) -> dict[str, Any]:
        name = self._launcher.launches
        return {
            "engines": _LAUNCHERS.get(name, name),
            "n": self._launcher.n_processes(len(self._names)),
            "controller_args": controller_args(MISSES),
            "send_engines_connection_env": self._shared is None,
        }

    async def _launch_controller(self) -> None:
        self._reached_at = await _in_thread(lambda: self._launcher.reached_at)
        self._cluster.controller_ip = self._reached_at
        self._cluster.controller_location = self._reached_at
        await super()._launch_controller()

    async def _configure(self) -> None:
        """Set how the launcher starts its processes."""
        program = [self._launcher.python, "-P", "-m", "kit.cluster.processes.host"]
        told = host_options(self._deadline_s, self.threads)
        if self._shared is not None:
            told.append(f"--connection={self._shared / _CONNECTION}")
        make = partial(self._launcher.traits, self._folder, [*program, *told])
        for name, values in (await _in_thread(make)).items():
            self._cluster.config[name].update(values)

    async def launch(self) -> None:
        """Start the controller, and have the launcher start processes on the hosts."""
        await self._launcher.check(len(self._names))
        await self._configure()
        await self._launch_controller()
        if self._shared is not None:
            await self._share(self._shared)
        # Before the launch, which may be given up halfway.
        if command := self._launcher.ending(self._folder):
            self._processes.at_end(command)
        try:
            await self._cluster.start_engines()
        except Exception as error:
            told = tail_of(self._folder / LAUNCH_LOG, 3) or str(error)
            told = error.message if isinstance(error, StartFailed) else told
            raise StartFailed(
                f"the tasks could not be launched with {self._launcher.launches}: "
                f"{told}"
            ) from error
        self._note_launched(self._cluster.engine_set)
        self._watcher = asyncio.create_task(self._watch())

    async def _share(self, folder: Path) -> None:
        """Write the connection where the hosts read it; it is removed at the end."""
        info = await self._cluster.controller.get_connection_info()
        path = folder / _CONNECTION
        try:
            folder.mkdir(mode=0o700)
            # Before the key is in it: it goes, however this process ends.
            self._processes.at_end(["rm", "-rf", str(folder)])
            path.touch(mode=0o600)
            path.write_text(json.dumps(info["engine"]))
        except OSError as error:
            raise StartFailed(
                f"{folder} cannot be made: {error.strerror}. Work in a folder that all "
                f"hosts see, or name one with shared=... of the launcher."
            ) from error

    def _note_launched(self, launched: Any) -> None:
        """Watch what was launched here, and have it ended with the cluster."""
        pid, self._job = getattr(launched, "pid", -1), getattr(launched, "job_id", "")
        if pid > 0:  # a process of this host, such as mpiexec
            self._started(launched, "what was launched")
            self._processes.add(reaper.find(pid) or Process(pid, 0))

    async def why_waiting(self) -> str:
        """Return what is known about why the start takes so long."""
        told = await self._launcher.waiting_for(self._job) if self._job else ""
        outputs = sorted(self._shared.glob("output*")) if self._shared else []
        wrote = [words for path in outputs if (words := tail_of(path, _OUTPUT_LINES))]
        if wrote and not self._hosts:
            told += f"\nIt wrote:\n{wrote[0]}"
        here = ", ".join(host.facts.name for host in self._hosts)
        if not here:
            here = (
                f"none. They must reach this machine at {self._reached_at}, on ports "
                f"that the system chooses: another address=... of the launcher, or a "
                f"firewall on the way, may be the cause"
            )
        return f"Hosts that have registered: {here}. {told}".strip()

    # -- hosts -------------------------------------------------------------------

    async def processes(self) -> dict[int, Any]:
        """Survey hosts as they register, place the tasks, wait until all are forked."""
        await self._connect_client(self._deadline_s)
        while sum(host.facts.slots for host in self._hosts) < len(self._names):
            await self._learn_engines()
            for engine in sorted(self._known_engines):
                if engine not in [host.engine for host in self._hosts]:
                    await self._meet(engine)
            await self._check_launched()
        # Not before all have registered: a host that registers after a failed start
        # would not be told to end.
        for host in self._hosts:
            check_versions(host.facts)
        self._place()
        used = [host.facts for host in self._hosts if host.tasks]
        for facts in used:
            check_descriptors(len(self._names), facts.descriptors, facts.name)
        check_addresses(used)
        compare_arithmetic(used)
        self.threads = self.threads or self._least_share()
        for host in self._hosts:
            names = {index: self._names[index] for index in host.tasks}
            await self._call(host, host_calls.fork, names)
        while len((report := self.report()).processes) < len(self._names):
            self._check_forked(report)
            await self._refresh()
            await asyncio.sleep(_CHECK_S)
        return report.processes

    async def _check_launched(self) -> None:
        """Raise `StartFailed` if the process launched on a host has ended already."""
        for label, one in self._unmet.items():
            words = await asyncio.to_thread(one.why_ended)
            if words is not None:
                raise StartFailed(f"nothing runs on {label} any more.\n{tail(words)}")

    @property
    def _unmet(self) -> dict[str, Any]:
        """The launchers of hosts that have not registered, if each host has its own."""
        met = {host.facts.label for host in self._hosts}
        sets = self._cluster.engines.values()
        launched = [getattr(one, "launchers", {}).items() for one in sets]
        return {k: one for items in launched for k, one in items if k not in met}

    async def _meet(self, engine: int) -> None:
        facts = await self._call_engine(engine, host_calls.survey, self._reached_at)
        self._hosts.append(Host(engine, facts))

    def _place(self) -> None:
        """Give each host as many tasks as it has slots: as launched, else by rank."""
        named = self._order

        def order(host: Host) -> tuple[int, int, str]:
            label = host.facts.label
            at = named.index(label) if label in named else len(named)
            return at, host.facts.rank, host.facts.name

        self._hosts.sort(key=order)
        left = list(range(len(self._names)))
        for host in self._hosts:
            host.tasks = left[: host.facts.slots]
            left = left[host.facts.slots :]

    def _least_share(self) -> int:
        """Return the threads that each task gets: as many as all hosts can give.

        With another number the same product of matrices has other bits.
        """
        return min(
            threads_per_engine(len(host.tasks), host.facts.cores)
            for host in self._hosts
            if host.tasks
        )

    def where(self, index: int) -> tuple[Path, str]:
        """Return the cluster's folder at engine `index`, and its host's address."""
        facts = self._host(index).facts
        return Path(facts.folder), facts.address

    def log_path(self, index: int) -> Path:
        """Return where the log of engine `index` is, on its host."""
        return Forks(Path(self._host(index).facts.folder)).log(self._names[index])

    def _host(self, index: int) -> Host:
        return next(host for host in self._hosts if index in host.tasks)

    async def check_reach(self, addresses: Sequence[str]) -> None:
        """Raise `UnavailableError` if a host cannot connect to a task of another.

        `addresses` are those of the tasks, in order; one on each host is tried.
        """
        used = [host for host in self._hosts if host.tasks]
        targets = {addresses[host.tasks[0]]: host for host in used}
        tries = [
            self._call(host, host_calls.unreachable, list(targets), _ANSWER_S / 2)
            for host in used
        ]
        for host, failed in zip(used, await together(tries), strict=True):
            for address, reason in failed.items():
                raise UnavailableError(
                    f"{host.facts.name} ({host.facts.address}) cannot connect to "
                    f"{targets[address].facts.name} at {address}: {reason}. A firewall "
                    f"between the two may be in the way: tasks listen on ports that "
                    f"the system chooses (sysctl net.ipv4.ip_local_port_range)."
                )

    async def _call(self, host: Host, function: Callable[..., Any], *args: Any) -> Any:
        return await self._call_engine(host.engine, function, *args)

    async def _call_engine(
        self, engine: int, function: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        payload = remote.pack(function, args, kwargs)
        try:
            async with asyncio.timeout(self._deadline_s):
                answer = await follow(self.submit(engine, payload))
        except TimeoutError as error:
            raise DeadlineExceededError(
                f"a host did not answer {function.__name__}() within "
                f"{self._deadline_s:g} s. cluster.status shows which hosts are lost."
            ) from error
        return remote.unpack(answer, "the host's engine")

    # -- watch -------------------------------------------------------------------

    def report(self) -> Report:
        """Return what the hosts have reported last."""
        report = Report({}, {}, {})
        for host in self._hosts:
            for index, process in host.news.processes.items():
                report.processes[index] = FarProcess(*process, host)
            report.statuses.update(host.news.statuses)
            report.refusals.update(host.news.refusals)
        return report

    def log_tail(self, index: int, n_lines: int = 12) -> str:
        """Return the last lines that engine `index` wrote, as last reported."""
        for host in self._hosts:
            if index in host.news.logs:
                return "\n".join(host.news.logs[index].splitlines()[-n_lines:])
        return ""

    def used_mib(self, process: Any) -> float | None:
        """Return the memory of an engine's process, as last reported."""
        mib: float | None = process.host.news.mib.get(process.pid)
        return mib

    def why_no_fork(self, index: int) -> str:
        """Return why engine `index` cannot get a new process; empty if it can."""
        host = self._host(index)
        return f"its host {host.facts.name} does not answer" if host.is_lost else ""

    def on_end(self, index: int, process: Any, callback: Callable[[], object]) -> None:
        """Call back in the loop when the process ends or its host is lost."""
        self._on_end[index] = process, callback

    async def _watch(self) -> None:
        """Check which engines the controller knows; ask the hosts for the rest."""
        clock = asyncio.get_running_loop().time
        asked = clock()
        missed: frozenset[int] = frozenset()
        launched = LogBound((self._folder / LAUNCH_LOG).parent)
        while True:
            await asyncio.sleep(_CHECK_S)
            known = self._known_engines
            for host in self._hosts:
                host.is_lost = self._has_lost(host, known)
            gone = frozenset(self._on_end) - known
            # How an engine ended is asked at once; the same one is not asked for again.
            if gone != missed or clock() - asked > _REFRESH_S:
                missed = gone
                await self._refresh()
                launched.check()  # what ssh and its like write here
                asked = clock()
            self._tell_ended()

    def _tell_ended(self) -> None:
        for index, (process, callback) in list(self._on_end.items()):
            if process.host.is_lost or not process.is_running:
                del self._on_end[index]
                callback()

    def _has_lost(self, host: Host, known: frozenset[int]) -> bool:
        """Return whether a host is gone; `known` are the controller's engines."""
        return host.engine not in known

    async def _refresh(self) -> None:
        here = [host for host in self._hosts if not host.is_lost]
        await asyncio.gather(*map(self._ask, here))

    async def _ask(self, host: Host) -> None:
        with contextlib.suppress(Exception):  # the next refresh asks again
            async with asyncio.timeout(_ANSWER_S):
                host.news = await self._call_engine(
                    host.engine, host_calls.news, with_memory=True
                )

    async def why_ended(self, index: int) -> str:
        """Say how the process of engine `index` ended, in words."""
        host = self._host(index)
        if host.is_lost:
            return f"was lost with its host {host.facts.name}, which does not answer"
        return why(self.report().statuses.get(index))

    # -- change and end ------------------------------------------------------------

    async def fork_again(self, index: int) -> None:
        """Order another process for engine `index` in place of a dead one."""
        names = {index: self._names[index]}
        await self._call(self._host(index), host_calls.fork, names)

    async def end(self, index: int, process: Any) -> None:
        """End engine `index` and its children; wait until its controller knows."""
        host = self._host(index)
        family = []
        if process is not None:
            one = tuple(process[:2])
            family = await self._call(host, host_calls.end_engine, one, _GRACE_S)
        await self._unregistered(index)
        await self._call(host, host_calls.end_all, family, _GRACE_S)

    async def leave(self) -> None:
        """End all that runs on the hosts, and wait until they have left."""
        # Including hosts that have registered but were not surveyed, or were refused.
        for engine in self._known_engines - self.registered:
            self.submit(engine, remote.pack(host_calls.stop_host, [], {}))
        # No order reaches the others, such as those of a launch that failed elsewhere.
        ends = [asyncio.to_thread(one.end) for one in self._unmet.values()]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LEAVE_S):
                await asyncio.gather(*ends, return_exceptions=True)
                while self._known_engines:
                    await asyncio.sleep(_CHECK_S)

    @property
    def killed_at_once(self) -> Process | None:
        """None: the controller may still have to carry the order to end to hosts."""
        return None

    async def forget(self) -> None:
        """Close the client and what ipyparallel has open, as far as it reacts."""
        if self._watcher is not None:
            self._watcher.cancel()
        # It would wait for each host, which has ended its processes or is cut off.
        self._cluster.engines.clear()
        await super().forget()


async def _in_thread(make: Callable[[], T]) -> T:
    """Call what may block, such as a name server's or mpiexec's answer, elsewhere."""
    name = "kit-cluster-launcher"
    undo: Callable[[T], None] = lambda _: None  # noqa: E731
    return await in_thread(make, name=name, undo=undo, patience_s=_GRACE_S)


def host_options(deadline_s: float, threads: int) -> list[str]:
    """Return the options of each `host.py` of a cluster."""
    return [
        f"--deadline={deadline_s}",
        f"--preload={','.join(PRELOAD)}",
        f"--threads={threads}",
        *(f"--pin={pin}" for pin in pins()),
    ]
