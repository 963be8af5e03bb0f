"""One cluster from its first process to its last: start, watch, call, stop.

Everything here runs in the cluster's loop thread; `Cluster` is what users hold.

    launch -> forked -> registered -> servers -> connected      all raced against
                                                                 any process's end
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from kit.cluster.cells.calls import TaskCalls, cancel
from kit.cluster.dask_workers.workers import DaskWorkers
from kit.cluster.launchers import Launcher
from kit.cluster.loop import to_the_end
from kit.cluster.plan import ClusterPlan
from kit.cluster.processes import reaper
from kit.cluster.processes.engines import PORT_IN_USE, Engines
from kit.cluster.processes.far_engines import FarEngines
from kit.cluster.processes.processes import Processes, ReaperHandle, why
from kit.cluster.processes.servers import Servers
from kit.cluster.report import ClusterState, TaskStatus
from kit.cluster.runtime import engine_environment, make_folder, remove_folder
from kit.errors import (
    CancelledError,
    ControllerLost,
    DeadlineExceededError,
    FailedPreconditionError,
    PeerLost,
    StartFailed,
)
from kit.settings import Settings
from kit.spec import ClusterSpec
from kit.task import Task
from kit.wire.handshake.credentials import Credentials

_REFRESH_S, _LOOK_S = 5.0, 1.0
# A stop: what is at work here gives up, the servers stop, the processes get a signal.
_GIVE_UP_S = 1.0
_GRACE_S = 2.0
_LAST_S = 3.5  # the rest of a stop that goes wrong in every part


class PortTaken(StartFailed):
    """Somebody took a port after ipyparallel chose it; a new start chooses others."""


class Supervisor:
    """The processes of one cluster and what is known of them."""

    def __init__(self, plan: ClusterPlan) -> None:
        self.plan = plan
        self.status = {
            task: TaskStatus(task, ClusterState.STARTING) for task in plan.tasks
        }
        #: The numbers of their engines; those of tasks that are gone stay unused.
        self.numbers = {task: number for number, task in enumerate(plan.tasks)}
        self.spec: ClusterSpec | None = None
        self.controller_lost = ""
        self.fork_server_lost = ""
        self.has_ended = False
        self._engine_of: dict[Task, reaper.Process] = {}
        self._stopped_since: dict[reaper.Process, float] = {}
        self._dead_after_s = Settings.from_plain(plan.settings or {}).dead_after_s
        self._loop = asyncio.get_running_loop()
        self._phase = "the processes"
        self._began = self._loop.time()
        self._failed: asyncio.Future[str] = self._loop.create_future()
        self._refresher: asyncio.Task[None] | None = None
        self._endings: set[asyncio.Task[None]] = set()
        self.restarts: dict[Task, asyncio.Task[Any]] = {}  # those under way
        self.folder = make_folder()
        try:
            self._reaper = ReaperHandle(self.folder, plan.lease_s, plan.as_arguments)
        except OSError:
            remove_folder(self.folder)
            raise
        self._processes = Processes(self._reaper)
        self.engines: Engines | None = None
        self.calls = TaskCalls(plan.tasks, self._submit)
        is_tcp = plan.transport == "tcp" or plan.launcher is not None
        encrypted = is_tcp and not plan.insecure
        self.credentials = Credentials.new(certificate=encrypted)
        self._servers = Servers(plan, self.calls, self._where, self.credentials)

    @property
    def processes(self) -> frozenset[reaper.Process]:
        """Every recorded process, without the reaper."""
        return self._processes.known

    def used_mib(self) -> dict[Task, float]:
        """Return the memory of each task that runs; some 2 ms a task of this host."""
        if self.engines is None:
            return {}
        found = {t: self.engines.used_mib(p) for t, p in self._engine_of.items()}
        return {task: mib for task, mib in found.items() if mib is not None}

    def log_path(self, task: Task) -> Path:
        """Return where a task's log is, on its host."""
        assert self.engines is not None, "a ready supervisor has engines"
        return self.engines.log_path(self.numbers[task])

    def log_tail(self, task: Task, n_lines: int = 12) -> str:
        """Return the last lines of a task's log; empty if there are none."""
        if self.engines is None:
            return ""
        return self.engines.log_tail(self.numbers[task], n_lines)

    # -- start -----------------------------------------------------------------

    async def start(self) -> None:
        """Bring everything up within the deadline, or leave nothing behind."""
        stages = asyncio.ensure_future(self._stages())
        try:
            either: set[asyncio.Future[Any]] = {stages, self._failed}
            await asyncio.wait(
                either,
                timeout=self.plan.start_deadline_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if self._failed.done():
                reason = self._failed.result()
                kind = PortTaken if PORT_IN_USE in reason else StartFailed
                raise kind(f"the cluster did not start: {reason}")
            if not stages.done():
                raise StartFailed(await self._too_late())
            stages.result()
        except BaseException:
            await to_the_end(self.stop(stages))
            raise

    async def _stages(self) -> None:
        self._set_phase("waits for the controller")
        names = [task.short for task in self.plan.tasks]
        environment = engine_environment(self.folder, self.plan.threads)
        arguments = (
            *(self.folder, names, environment, self.plan.python),
            *(self.plan.start_deadline_s, self._processes),
            _logger(self.plan.log_level),
        )
        self.engines = engines = (
            Engines(*arguments)
            if self.plan.launcher is None
            else _far_engines(self.plan.launcher)(
                *arguments, launcher=self.plan.launcher, threads=self.plan.threads
            )
        )
        engines.ended.add_done_callback(self._set_ended)
        await engines.launch()
        self._phase = "the engines to be forked"
        processes = await engines.processes()
        for index, process in processes.items():
            self.watch_engine(self.plan.tasks[index], process)
        self._phase = "the engines to register"
        self._set_phase("registers")
        await engines.connect(self.plan.start_deadline_s)
        for helper, ended in (
            (engines.controller, self._controller_ended),
            (engines.fork_server, self._fork_server_ended),
        ):
            if helper is not None:
                self._processes.on_end(helper, partial(ended, helper.pid))
        self._phase = "the tasks' servers"
        await self._start_servers()
        self._processes.refresh()
        self._refresher = asyncio.create_task(self._keep_fresh())

    async def _start_servers(self) -> None:
        self._set_phase("starts its server")
        replies = await self._servers.start(self.plan.tasks)
        addresses: dict[str, list[str]] = {}
        for task, reply in replies.items():
            addresses.setdefault(task.job, []).append(str(reply["address"]))
            self._set(task, host=str(reply.get("host", "")))
        self.spec = ClusterSpec(dict(addresses))
        assert self.engines is not None, "servers have started in them"
        await self.engines.check_reach([str(r["address"]) for r in replies.values()])
        await self._connect(self.plan.tasks)

    async def start_server(self, task: Task) -> None:
        """Start one task's server where its last one was, and connect it."""
        await self._servers.start([task], self.spec)
        await self._connect([task])

    async def start_new_server(self, task: Task) -> None:
        """Start the server of a task that was admitted; tell all tasks where it is."""
        (reply,) = (await self._servers.start([task])).values()
        self._set(task, host=str(reply.get("host", "")))
        assert self.spec is not None, "the others have their addresses"
        self.spec = _with(self.spec, {task: str(reply["address"])})
        await self.connect_all()
        self.set_ready(task)

    async def connect_all(self) -> None:
        """Tell the tasks that can be reached where all tasks are."""
        assert self.spec is not None, "it was made of their addresses"
        await self._servers.connect(self._in_reach(), self.spec)

    async def bring(self, topologies: Mapping[str, bytes]) -> None:
        """Give topologies of one's own to all tasks that there are, or will be."""
        while True:
            here = self._in_reach()
            try:
                await self._servers.bring(here, topologies)
            except PeerLost:  # those that are left may go on without it
                if self._in_reach() == here:
                    raise
            else:
                return

    def _in_reach(self) -> list[Task]:
        return [
            task
            for task, status in self.status.items()
            if status.state is not ClusterState.LOST and task not in self.restarts
        ]

    def admit(self, task: Task, number: int) -> None:
        """Take in a new task, whose engine has that number."""
        self.plan = replace(self.plan, tasks=(*self.plan.tasks, task))
        self.numbers[task] = number
        self.status[task] = TaskStatus(task, ClusterState.STARTING)
        self._began = self._loop.time()
        self.calls.lose(task, PeerLost(f"{task.short} is being started."))

    def dismiss(self, task: Task) -> None:
        """Forget a task; its number is not given again."""
        left = tuple(one for one in self.plan.tasks if one != task)
        self.plan = replace(self.plan, tasks=left)
        self.numbers.pop(task)
        self.status.pop(task)
        gone = f"{task.short} was removed from the cluster."
        self.calls.lose(task, PeerLost(gone, task=str(task)))
        if self.spec is not None:
            self.spec = _with(self.spec, {}, without=task)

    async def _connect(self, tasks: Sequence[Task]) -> None:
        assert self.spec is not None, "it was made of their addresses"
        await self._servers.connect(tasks, self.spec)
        for task in tasks:
            self.set_ready(task)

    async def _too_late(self) -> str:
        waiting = [
            t.short for t, s in self.status.items() if s.state is ClusterState.STARTING
        ]
        log = self.log_tail(Task.parse(waiting[0]) if waiting else self.plan.tasks[0])
        why_waiting = await self.engines.why_waiting() if self.engines else ""
        told = f" {why_waiting}" if why_waiting else ""
        return (
            f"the cluster was not ready within {self.plan.start_deadline_s:g} s: still "
            f"waiting for {self._phase} ({', '.join(waiting)}). A busy machine may "
            f"need start_deadline_s={2 * self.plan.start_deadline_s:g}.{told}\n{log}"
        )

    # -- watch -----------------------------------------------------------------

    def watch_engine(self, task: Task, process: reaper.Process) -> None:
        """Take over a new process of a task: its end is the task's loss."""
        self._set(task, pid=process.pid)
        self._engine_of[task] = process
        assert self.engines is not None, "they have forked it"
        ended = partial(self._engine_ended, task, process)
        self.engines.on_end(self.numbers[task], process, ended)

    def forget_engine(self, task: Task) -> reaper.Process | None:
        """Return a task's process, whose end is expected; fail the calls to it."""
        self._set(task, state=ClusterState.STARTING, pid=None, reason="", ready_s=None)
        self._began = self._loop.time()
        self.calls.lose(
            task,
            PeerLost(
                f"{task.short} is being restarted; call it again when "
                f"cluster.restart({task.short!r}) has returned."
            ),
        )
        return self._engine_of.pop(task, None)

    def set_ready(self, task: Task) -> None:
        """Note that a task can be used."""
        took_s = self._loop.time() - self._began
        self._set(task, state=ClusterState.READY, phase="", ready_s=took_s)

    def _engine_ended(self, task: Task, process: reaper.Process) -> None:
        if self._engine_of.get(task) != process:
            return  # it was replaced
        ending = asyncio.create_task(self._find_reason(task, process))
        self._endings.add(ending)  # the loop itself keeps no reference
        ending.add_done_callback(self._endings.discard)

    async def _find_reason(self, task: Task, process: reaper.Process) -> None:
        index = self.numbers[task]
        reason = await self.engines.why_ended(index) if self.engines else why(None)
        if self._engine_of.get(task) != process:
            return  # it was replaced meanwhile
        self.set_lost(task, reason)
        self._fail(f"{task.short} {reason}.\n{self.log_tail(task)}")

    def set_lost(
        self, task: Task, reason: str, hope: str = "Its state is lost;"
    ) -> None:
        """Note that a task is gone, and fail the calls to it."""
        self._set(task, state=ClusterState.LOST, reason=reason, phase="")
        remedy = f"begin it anew with cluster.restart({task.short!r})."
        index = self.numbers[task]
        if self.engines is not None and (why_not := self.engines.why_no_fork(index)):
            remedy = f"it cannot be restarted, because {why_not}: start a new cluster."
        self.calls.lose(task, PeerLost(f"{task.short} {reason}. {hope} {remedy}"))

    def _look_for_stopped(self) -> None:
        """Take tasks for lost whose processes stand still for long, until these run."""
        now, limit_s = self._loop.time(), self._dead_after_s
        for task, process in list(self._engine_of.items()):
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
        """Let a task be used again that was stopped for long and goes on."""
        if self.engines is None or self.numbers[task] in self.engines.registered:
            self._set(task, state=ClusterState.READY, reason=self.fork_server_lost)
            self.calls.find_again(task)
        else:
            self.set_lost(task, "was stopped for so long that the controller let it go")

    def _controller_ended(self, pid: int) -> None:
        self.controller_lost = (
            f"the cluster's controller (pid {pid}) has ended, so no call reaches the "
            f"engines any more. Call cluster.stop() and start a new one."
        )
        for task in self.plan.tasks:
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
        fork_server = self.engines.fork_server if self.engines is not None else None
        if fork_server is not None and fork_server.is_stopped:
            raise FailedPreconditionError(
                f"{task.short} cannot be {what}: the cluster's fork server (pid "
                f"{fork_server.pid}) was stopped by a signal and starts nothing. Let "
                f"it go on with kill -CONT {fork_server.pid}, then try again.",
                task=str(task),
            )
        reason = self.fork_server_lost
        if self.engines is not None and not reason and task in self.numbers:
            reason = self.engines.why_no_fork(self.numbers[task])
        if not self.folder.is_dir():
            reason = f"the cluster's folder {self.folder} was removed"
        if reason:
            raise FailedPreconditionError(
                f"{task.short} cannot be {what}: {reason}. The other tasks go on: "
                f"save what they hold, then call cluster.stop() and start a new one.",
                task=str(task),
            )

    def _where(self, task: Task) -> tuple[Path, str]:
        assert self.engines is not None, "a server starts in one of them"
        return self.engines.where(self.numbers[task])

    def _submit(self, task: Task, payload: bytes) -> Future[bytes]:
        if self.engines is None:
            raise StartFailed(f"{task.short} has no process yet.")
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
        for task in self.plan.tasks:
            self._set(task, phase=phase)

    async def _keep_fresh(self) -> None:
        while True:
            for _ in range(round(_REFRESH_S / _LOOK_S)):
                await asyncio.sleep(_LOOK_S)
                with contextlib.suppress(OSError):  # out of descriptors for a moment
                    self._look_for_stopped()
            self._processes.refresh()

    # -- stop ------------------------------------------------------------------

    @property
    def stop_s(self) -> float:
        """How long a stop may take; after that, who waits for it calls `end`."""
        return _GIVE_UP_S + self.plan.stop_deadline_s + _GRACE_S + _LAST_S

    async def stop(self, *under_way: asyncio.Future[Any]) -> None:
        """End everything; leaves no process, no file, no socket. Never raises.

        What is `under_way` is cancelled first. Calls and restarts raise.
        """
        try:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_GIVE_UP_S + self.plan.stop_deadline_s):
                    await self._ask_to_stop(*under_way)
        finally:
            # Whatever has failed or hung there, this ends the processes.
            self.end(_GRACE_S)
            for task in self.plan.tasks:
                self._set(task, state=ClusterState.STOPPED)
            # Last: it is ipyparallel's and zmq's, and nothing depends on it any more.
            if self.engines is not None:
                with contextlib.suppress(Exception):
                    await self.engines.forget()

    async def _ask_to_stop(self, *under_way: asyncio.Future[Any]) -> None:
        await cancel(*under_way)
        await cancel(*self._endings, *([self._refresher] if self._refresher else []))
        alive = [t for t, s in self.status.items() if s.state is ClusterState.READY]
        for task in self.plan.tasks:
            self._set(task, state=ClusterState.STOPPING)
        if alive and not self.controller_lost:
            await self._servers.stop(alive)
        if self.engines is not None and not self.controller_lost:
            await self.engines.leave()
        await cancel(*self.restarts.values())

    def end(self, grace_s: float) -> None:
        """End all processes and remove the folder; blocks, for any thread.

        Only what the system itself does not let go of outlives it; `has_ended` tells.
        """
        for task in self.plan.tasks:
            self.calls.lose(task, self._stopped())
        # What ends from now on ends because we end it.
        self._processes.unwatch()
        at_once = self.engines.killed_at_once if self.engines is not None else None
        self.has_ended = self._reaper.end(grace_s, at_once)
        remove_folder(self.folder)

    def check_ended(self) -> None:
        """Raise `DeadlineExceededError` when some process has outlived the end."""
        if not self.has_ended:
            pids = ",".join(str(process.pid) for process in sorted(self.processes))
            raise DeadlineExceededError(
                f"some processes of the cluster have not ended {self.stop_s:g} s after "
                f"the stop began, though they were killed: see ps -o pid,stat,wchan "
                f"-p {pids}. Call stop() again when the system has let "
                f"go of them."
            )

    def _stopped(self) -> CancelledError:
        return CancelledError(
            f"the cluster was stopped, and the calls under way with it. Start a new "
            f"one, Cluster({self.plan.as_arguments}).start(), and call there."
        )


def _with(
    spec: ClusterSpec, more: Mapping[Task, str], without: Task | None = None
) -> ClusterSpec:
    known = {task: spec.task_address(task.job, task.index) for task in spec.tasks()}
    found: dict[str, dict[int, str]] = {}
    for task, address in (known | dict(more)).items():
        if task != without:
            found.setdefault(task.job, {})[task.index] = address
    return ClusterSpec(dict(found))


def _far_engines(launcher: Launcher) -> type[FarEngines]:
    if not isinstance(launcher, DaskWorkers):
        return FarEngines
    from kit.cluster.dask_workers.engines import DaskEngines  # needs distributed

    return DaskEngines


def _logger(level: int) -> logging.Logger:
    log = logging.getLogger("kit.cluster.ipyparallel")
    log.setLevel(level)
    return log
