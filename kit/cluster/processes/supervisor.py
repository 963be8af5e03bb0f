"""One cluster from its first process to its last: start, watch, call, stop.

Everything here runs in the cluster's loop thread unless it says otherwise; users hold
a `Cluster`.

    launch -> forked -> registered -> servers -> connected      all raced against
                                                                 any process's end
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from kit.cluster.cells.calls import TaskCalls, cancel
from kit.cluster.cells.cell_output import OnMessage
from kit.cluster.changes import Changes
from kit.cluster.dask_workers.workers import DaskWorkers
from kit.cluster.launchers import Launcher
from kit.cluster.loop import to_the_end
from kit.cluster.options import ClusterOptions
from kit.cluster.processes import reaper
from kit.cluster.processes.engines import PORT_IN_USE, Engines
from kit.cluster.processes.hosts import Hosts, LocalHosts
from kit.cluster.processes.launched_hosts import LaunchedHosts
from kit.cluster.processes.processes import (
    Processes,
    ReaperHandle,
    not_started,
    still_running,
)
from kit.cluster.processes.servers import Servers, changed_spec
from kit.cluster.report import ClusterState, TaskStatus
from kit.cluster.runtime import make_folder, remove_folder
from kit.errors import (
    CancelledError,
    ControllerLost,
    FailedPreconditionError,
    PeerLost,
    StartFailed,
)
from kit.settings import Settings
from kit.spec import ClusterSpec
from kit.task import Task
from kit.wire.handshake.credentials import Credentials

_REFRESH_S, _CHECK_S = 5.0, 1.0
# A stop: work under way here gives up, the servers stop, the processes get a signal.
_GIVE_UP_S = 1.0
GRACE_S = 2.0
LAST_S = 3.5  # the rest of a stop in which every part goes wrong


class PortTaken(StartFailed):
    """Another process took a port that ipyparallel had chosen; a new start may work."""


class Supervisor:
    """The processes of one cluster and what is known about them."""

    def __init__(self, options: ClusterOptions) -> None:
        self.options = options
        self.status = {
            task: TaskStatus(task, ClusterState.STARTING) for task in options.tasks
        }
        # Of their engines. Numbers of removed tasks are not used again: late news of
        # an old engine would be taken for news of the new one.
        self.numbers = {task: number for number, task in enumerate(options.tasks)}
        self.spec: ClusterSpec | None = None
        self.controller_lost = ""
        self.fork_server_lost = ""
        self.has_ended = False
        self.engine_of: dict[Task, reaper.Process] = {}
        self._stopped_since: dict[reaper.Process, float] = {}
        self._dead_after_s = Settings.from_plain(options.settings or {}).dead_after_s
        self._loop = asyncio.get_running_loop()
        self._phase = "the processes"
        self._began = self._loop.time()
        self._failed: asyncio.Future[str] = self._loop.create_future()
        self._refresher: asyncio.Task[None] | None = None
        # The loop itself keeps only weak references to its tasks.
        self._endings: set[asyncio.Task[None]] = set()
        self.changes = Changes()
        launcher = options.launcher
        self.folder = make_folder(
            tasks=options.tasks, socket="" if launcher is None else launcher.socket
        )
        try:
            self.reaper = ReaperHandle(
                self.folder, options.lease_s, options.as_arguments
            )
        except OSError as error:
            remove_folder(self.folder)
            raise not_started(error) from error
        self._processes = Processes(self.reaper)
        self.engines = Engines(options, self.folder, self._processes)
        self.hosts = _hosts_of(options.launcher)(self.engines)
        self.calls = TaskCalls(options.tasks, self._submit)
        is_tcp = options.transport == "tcp" or options.launcher is not None
        encrypted = is_tcp and not options.insecure
        self.credentials = Credentials.new(certificate=encrypted)
        self._servers = Servers(options, self.calls, self._where, self.credentials)

    @property
    def processes(self) -> frozenset[reaper.Process]:
        """Every recorded process, without the reaper."""
        return self._processes.members

    def used_mib(self) -> dict[Task, float]:
        """Return the memory of each running task; some 2 ms for each on this host."""
        used = {
            task: self.hosts.of(self.numbers[task]).used_mib(process)
            for task, process in self.engine_of.items()
        }
        return {task: mib for task, mib in used.items() if mib is not None}

    def log_path(self, task: Task) -> Path:
        """Return where a task's log is, on its host."""
        return self.hosts.log_path(self.numbers[task])

    def log_tail(self, task: Task, n_lines: int = 12) -> str:
        """Return the last lines of a task's log; empty if there are none."""
        return self.hosts.log_tail(self.numbers[task], n_lines)

    # -- start -----------------------------------------------------------------

    async def start(self) -> None:
        """Bring everything up within the deadline, or leave nothing behind."""
        stages = asyncio.ensure_future(self._stages())
        try:
            either: set[asyncio.Future[Any]] = {stages, self._failed}
            await asyncio.wait(
                either,
                timeout=self.options.start_deadline_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if self._failed.done():
                # First: when a process has ended, it is also why the stages failed.
                reason = self._failed.result()
                kind = PortTaken if PORT_IN_USE in reason else StartFailed
                raise kind(f"the cluster did not start: {reason}")
            if not stages.done():
                raise StartFailed(await self._too_late())
            try:
                stages.result()
            except Exception as error:  # zmq's own are no OSError
                raise not_started(error) from error
        except BaseException:
            # A second Ctrl-C must not interrupt this: processes would be left behind.
            await to_the_end(self.stop(stages))
            raise

    async def _stages(self) -> None:
        self._set_phase("waits for the controller")
        # Before the launch: the controller may end at once.
        self.engines.ended.add_done_callback(self._set_ended)
        await self.hosts.launch()
        self._phase = "the engines to be forked"
        for index, process in (await self.hosts.processes()).items():
            self.watch_engine(self.options.tasks[index], process)
        self._phase = "the engines to register"
        self._set_phase("registers")
        await self.engines.connect()
        # `engines.ended` counts during the start only; these notice their loss later.
        for helper, ended in (
            (self.engines.controller, self._controller_ended),
            (self.hosts.fork_server, self._fork_server_ended),
        ):
            if helper is not None:
                self._processes.on_end(helper, partial(ended, helper.pid))
        self._phase = "the tasks' servers"
        await self._start_servers()
        self._processes.refresh()
        self._refresher = asyncio.create_task(self._keep_fresh())

    async def _start_servers(self) -> None:
        self._set_phase("starts its server")
        replies = await self._servers.start(self.options.tasks, self.hosts.threads)
        addresses: dict[str, list[str]] = {}
        for task, reply in replies.items():
            addresses.setdefault(task.job, []).append(str(reply["address"]))
            self._set_place(task, reply)
        self.spec = ClusterSpec(dict(addresses))
        # Before the tasks are connected: they would only time out, without the reason.
        await self.hosts.check_reach([str(r["address"]) for r in replies.values()])
        await self._connect(self.options.tasks)

    async def start_server(self, task: Task) -> None:
        """Start one task's server where its last one was, and connect it."""
        await self._servers.start([task], self.hosts.threads, self.spec)
        async with self._servers.telling:
            await self._servers.catch_up([task])
            await self._connect([task])

    async def start_new_server(self, task: Task) -> None:
        """Start the server of an admitted task; tell all tasks its address."""
        (reply,) = (await self._servers.start([task], self.hosts.threads)).values()
        self._set_place(task, reply)
        assert self.spec is not None, "the others have their addresses"
        async with self._servers.telling:
            self.spec = changed_spec(self.spec, {task: str(reply["address"])})
            await self._servers.catch_up([task])
            await self._connect_all(task)
            self.set_ready(task)

    def _set_place(self, task: Task, reply: Mapping[str, Any]) -> None:
        gpus = tuple(map(str, reply.get("gpus", ())))
        self._set(task, host=str(reply.get("host", "")), gpus=gpus)

    async def connect_all(self) -> None:
        """Give the addresses of all tasks to those that can be reached."""
        async with self._servers.telling:
            await self._connect_all()

    async def _connect_all(self, *new: Task) -> None:
        assert self.spec is not None, "it was made of their addresses"
        connect = partial(self._servers.connect, spec=self.spec)
        await self._servers.tell(self._in_reach, connect, *new)

    async def bring(self, topologies: Mapping[str, bytes]) -> None:
        """Give the user's own topologies to all present and future tasks."""
        bring = partial(self._servers.bring, topologies=topologies)
        async with self._servers.telling:
            await self._servers.tell(self._in_reach, bring)

    def _in_reach(self) -> list[Task]:
        # Others that start learn it later, when they have their servers.
        ready = ClusterState.READY
        return [task for task, status in self.status.items() if status.state is ready]

    def admit(self, task: Task, number: int) -> None:
        """Add a new task, with the number of its engine; it cannot be called yet."""
        self.numbers[task] = number
        self.status[task] = TaskStatus(task, ClusterState.STARTING)
        self._began = self._loop.time()
        self.calls.lose(task, PeerLost(f"{task.short} is being started."))

    def dismiss(self, task: Task) -> None:
        """Forget a task; its number is not used again."""
        self.numbers.pop(task)
        self.status.pop(task)
        gone = f"{task.short} was removed from the cluster."
        self.calls.lose(task, PeerLost(gone, task=str(task)))
        if self.spec is not None:
            self.spec = changed_spec(self.spec, {}, without=task)

    async def _connect(self, tasks: Sequence[Task]) -> None:
        assert self.spec is not None, "it was made of their addresses"
        await self._servers.connect(tasks, self.spec)
        for task in tasks:
            self.set_ready(task)

    async def _too_late(self) -> str:
        waiting = [
            t.short for t, s in self.status.items() if s.state is ClusterState.STARTING
        ]
        slow = Task.parse(waiting[0]) if waiting else self.options.tasks[0]
        log, limit_s = self.log_tail(slow), self.options.start_deadline_s
        why_waiting = await self.hosts.why_waiting()
        hint = f" {why_waiting}" if why_waiting else ""
        return (
            f"the cluster was not ready within {limit_s:g} s: still waiting for "
            f"{self._phase} ({', '.join(waiting)}). A busy machine may need "
            f"start_deadline_s={2 * limit_s:g}, or %%cluster --timeout {2 * limit_s:g} "
            f"in a notebook.{hint}\n{log}"
        )

    # -- watch -----------------------------------------------------------------

    def watch_engine(self, task: Task, process: reaper.Process) -> None:
        """Note a task's new process, and watch it: when it ends, the task is lost."""
        self._set(task, pid=process.pid)
        self.engine_of[task] = process
        ended = partial(self._engine_ended, task, process)
        number = self.numbers[task]
        self.hosts.of(number).on_end(number, process, ended)

    def forget_engine(self, task: Task) -> reaper.Process | None:
        """Return a task's process, which is about to be ended; fail the calls to it."""
        self._set(task, state=ClusterState.STARTING, pid=None, reason="", ready_s=None)
        self._began = self._loop.time()
        self.calls.lose(
            task,
            PeerLost(
                f"{task.short} is being restarted; call it again when "
                f"cluster.restart({task.short!r}) has returned."
            ),
        )
        return self.engine_of.pop(task, None)

    def set_ready(self, task: Task) -> None:
        """Note that a task can be used."""
        took_s = self._loop.time() - self._began
        self._set(task, state=ClusterState.READY, phase="", ready_s=took_s)

    def _engine_ended(self, task: Task, process: reaper.Process) -> None:
        if self.engine_of.get(task) != process:
            return  # it was replaced
        ending = asyncio.create_task(self._find_reason(task, process))
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)

    async def _find_reason(self, task: Task, process: reaper.Process) -> None:
        reason = await self.hosts.why_ended(self.numbers[task])
        if self.engine_of.get(task) != process:
            return  # it was replaced meanwhile
        self.set_lost(task, reason)
        self._fail(f"{task.short} {reason}.\n{self.log_tail(task)}")

    def set_lost(
        self, task: Task, reason: str, hope: str = "Its state is lost;"
    ) -> None:
        """Note that a task is gone, and fail the calls to it."""
        self._set(task, state=ClusterState.LOST, reason=reason, phase="")
        remedy = f"start it again with cluster.restart({task.short!r})."
        if why_not := self.hosts.why_no_fork(self.numbers[task]):
            remedy = f"it cannot be restarted, because {why_not}: start a new cluster."
        self.calls.lose(task, PeerLost(f"{task.short} {reason}. {hope} {remedy}"))

    def _check_stopped(self) -> None:
        """Count tasks as lost while their processes have been stopped for long."""
        now, limit_s = self._loop.time(), self._dead_after_s
        for task, process in list(self.engine_of.items()):
            is_lost = self.status[task].state is ClusterState.LOST
            if not process.is_stopped:
                since = self._stopped_since.pop(process, None)
                if since is not None and is_lost and process.is_running:
                    self._take_back(task)
            elif now - self._stopped_since.setdefault(process, now) > limit_s:
                if is_lost:
                    continue
                reason = (
                    f"is stopped or unreachable: a signal has stopped its process "
                    f"(pid {process.pid}) more than {limit_s:g} s ago"
                )
                hope = f"Let it go on with kill -CONT {process.pid}, or"
                self.set_lost(task, reason, hope)

    def _take_back(self, task: Task) -> None:
        """Let a task be used again that had been stopped for long and runs again."""
        # The controller drops an engine without a heartbeat, and calls do not reach it.
        if self.numbers[task] in self.engines.registered:
            self._set(task, state=ClusterState.READY, reason=self.fork_server_lost)
            self.calls.find_again(task)
        else:
            self.set_lost(task, "was stopped for so long that the controller let it go")

    def _controller_ended(self, pid: int) -> None:
        self.controller_lost = (
            f"the cluster's controller (pid {pid}) has ended, so no call reaches the "
            f"engines any more. Call cluster.stop() and start a new one."
        )
        for task in list(self.status):
            self.calls.lose(task, ControllerLost(self.controller_lost))

    def _fork_server_ended(self, pid: int) -> None:
        self.fork_server_lost = (
            f"the cluster's fork server (pid {pid}) has ended, so a lost task cannot "
            f"get a new process"
        )
        for task, status in self.status.items():
            if status.state is ClusterState.READY:
                self._set(task, reason=self.fork_server_lost)

    @property
    def lost(self) -> list[str]:
        """What has ended by itself: tasks, the controller, the fork server."""
        helpers = {
            "controller": self.controller_lost,
            "fork server": self.fork_server_lost,
        }
        lost = [t.short for t, s in self.status.items() if s.state is ClusterState.LOST]
        return lost + [name for name, reason in helpers.items() if reason]

    def check_can_fork(self, task: Task, what: str = "restarted") -> None:
        """Raise `FailedPreconditionError` where a task cannot get a new process."""
        fork_server = self.hosts.fork_server
        # It would take no order, and give no answer: orders are lines of a file.
        if fork_server is not None and fork_server.is_stopped:
            raise FailedPreconditionError(
                f"{task.short} cannot be {what}: the cluster's fork server (pid "
                f"{fork_server.pid}) was stopped by a signal and starts nothing. Let "
                f"it go on with kill -CONT {fork_server.pid}, then try again.",
                task=str(task),
            )
        reason = self.fork_server_lost
        if not reason and task in self.numbers:
            reason = self.hosts.why_no_fork(self.numbers[task])
        if not self.folder.is_dir():
            reason = f"the cluster's folder {self.folder} was removed"
        if reason:
            raise FailedPreconditionError(
                f"{task.short} cannot be {what}: {reason}. The other tasks go on: "
                f"save what they hold, then call cluster.stop() and start a new one.",
                task=str(task),
            )

    def _where(self, task: Task) -> tuple[Path, str, int]:
        host = self.hosts.of(self.numbers[task])
        others = (other for other in self.numbers if other.job != "ps")
        workers = [
            other
            for other in others
            if other == task or self.hosts.of(self.numbers[other]) == host
        ]
        number = workers.index(task) if task in workers else 0
        return host.sockets, host.address, number

    # -- cells: the `TaskAccess` of `CellRun`, called from any thread ---------

    def execute(
        self, task: Task, code: str, on_message: OnMessage, about: Mapping[str, Any]
    ) -> Any:
        """Run code on a task; return the future of its reply."""
        return self.engines.execute(self.numbers[task], code, on_message, about)

    def interrupt(self, tasks: Sequence[Task]) -> None:
        """Send SIGINT to the tasks; those that were removed meanwhile need none."""
        here = [self.numbers[task] for task in tasks if task in self.numbers]
        self.engines.interrupt(here)

    def reason_of_loss(self, task: Task) -> str:
        """Return why a task is gone or away; empty while it can be used."""
        status = self.status.get(task)
        if status is None:
            return "was removed from the cluster"
        if self.controller_lost and status.state is not ClusterState.LOST:
            return "cannot be reached"
        return status.why_away

    def _submit(self, task: Task, payload: bytes) -> Future[bytes]:
        return self.engines.submit(self.numbers[task], payload)

    def _set_ended(self, ended: asyncio.Future[str]) -> None:
        if not ended.cancelled():
            self._fail(ended.result())

    def _fail(self, reason: str) -> None:
        if not self._failed.done():
            self._failed.set_result(reason)

    def _set(self, task: Task, **changes: Any) -> None:
        self.status[task] = replace(self.status[task], **changes)

    def _set_phase(self, phase: str) -> None:
        for task in list(self.status):
            self._set(task, phase=phase)

    async def _keep_fresh(self) -> None:
        while True:
            for _ in range(round(_REFRESH_S / _CHECK_S)):
                await asyncio.sleep(_CHECK_S)
                with contextlib.suppress(OSError):  # out of descriptors for a moment
                    self._check_stopped()
            self._processes.refresh()

    # -- stop ------------------------------------------------------------------

    @property
    def stop_s(self) -> float:
        """How long a stop may take; after that, the waiting thread calls `end`."""
        return _GIVE_UP_S + self.options.stop_deadline_s + GRACE_S + LAST_S

    async def stop(self, *under_way: asyncio.Future[Any]) -> None:
        """End everything; leaves no process, no file, no socket. Never raises.

        Work that is `under_way` is cancelled first. Calls and restarts raise.
        """
        try:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_GIVE_UP_S + self.options.stop_deadline_s):
                    await self._ask_to_stop(*under_way)
        finally:
            # Whatever has failed or hung there, this ends the processes.
            self.end(GRACE_S)
            for task in list(self.status):
                self._set(task, state=ClusterState.STOPPED)
            # Last: it is ipyparallel's and zmq's, and nothing depends on it any more.
            for parts in (self.hosts, self.engines):
                with contextlib.suppress(Exception):
                    await parts.forget()

    async def _ask_to_stop(self, *under_way: asyncio.Future[Any]) -> None:
        # What would start processes, or report their ends as losses, comes first.
        await cancel(*under_way)
        await cancel(*self._endings, *([self._refresher] if self._refresher else []))
        alive = [t for t, s in self.status.items() if s.state is ClusterState.READY]
        for task in list(self.status):
            self._set(task, state=ClusterState.STOPPING)
        if alive and not self.controller_lost:
            await self._servers.stop(alive)
        if not self.controller_lost:
            await self.hosts.leave()
        # Last: one that is cancelled while it ends an engine ends its children too.
        await self.changes.cancel()

    def end(self, grace_s: float) -> None:
        """End all processes and remove the folder; blocks; for any thread.

        Only a process of another user, or that the system cannot kill, survives; see
        `has_ended`.
        """
        for task in list(self.status):
            self.calls.lose(task, self._stopped())
        # From now on processes end because we end them: these are not losses.
        self._processes.unwatch()
        self.has_ended = self.reaper.end(grace_s, self.hosts.killed_at_once)
        self.hosts.join()
        remove_folder(self.folder)

    def check_ended(self) -> None:
        """Raise when some process has outlived the end.

        `PermissionDeniedError` if it belongs to another user, such as what a task has
        started by sudo, else `DeadlineExceededError`.
        """
        if not self.has_ended:
            left = self.reaper.survivors or self.processes
            raise still_running(sorted(left), self.stop_s)

    def _stopped(self) -> CancelledError:
        like_it = replace(self.options, tasks=tuple(self.status)).as_arguments
        return CancelledError(
            f"the cluster was stopped, and the calls under way with it. Start a new "
            f"one, Cluster({like_it}).start(), and call there."
        )


def _hosts_of(launcher: Launcher | None) -> type[Hosts]:
    if launcher is None:
        return LocalHosts
    if not isinstance(launcher, DaskWorkers):
        return LaunchedHosts
    from kit.cluster.dask_workers.hosts import DaskHosts  # needs distributed

    return DaskHosts
