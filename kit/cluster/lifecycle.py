"""How a cluster starts and stops: once each, from anywhere, with nothing left behind.

Blocking and awaitable forms, `with` and `async with`, Ctrl-C, a stop from another
thread during the start, and the interpreter's exit all go through the same few steps.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Generator
from contextlib import suppress
from types import TracebackType
from typing import Self

from kit import machine
from kit.cluster import memory, report
from kit.cluster.loop import LoopTask, LoopThread
from kit.cluster.plan import ClusterPlan
from kit.cluster.processes.supervisor import PortTaken, Supervisor
from kit.cluster.report import ClusterState
from kit.errors import (
    CancelledError,
    ControllerLost,
    FailedPreconditionError,
    StartFailed,
)

_THREAD = "kit-cluster-loop"
_LOOK_S = 0.05
_STOP_S = 2.0  # of a start that has not begun a process
_CLOSE_S = 0.5
# Memory that a stop gives back first, so that it has some when there is none. It is
# never touched, so until then it is address space only.
_RESERVE_BYTES = 8 << 20
_MOST_STARTS = 3  # while others take the ports that were chosen
_running: list[Lifecycle] = []


def running() -> list[Lifecycle]:
    """Return what runs now, in the order of start or of entering a `with` block."""
    return list(_running)


def _refused(error: Exception) -> StartFailed:
    return StartFailed(
        f"the cluster did not start: the system refused something that it needs "
        f"({error}). ulimit -a shows the limits on open files, processes and memory."
    )


class Lifecycle:
    """A cluster's life; `Cluster` adds what it can do."""

    def __init__(self, plan: ClusterPlan) -> None:
        self._plan = plan
        self._lock = threading.Lock()
        self._state = ClusterState.NEW
        self._loop: LoopThread | None = None
        self._starting: LoopTask[None] | None = None
        self._stopping: LoopTask[None] | None = None
        self._supervisor: Supervisor | None = None
        self._owner = os.getpid()
        self._reserve = b""

    @property
    def plan(self) -> ClusterPlan:
        """What the cluster was asked to be."""
        return self._plan

    def twin(self) -> Self:
        """Return a new cluster like this one, which has yet to be started."""
        other = object.__new__(type(self))
        Lifecycle.__init__(other, self._plan)
        return other

    @property
    def memory_mib(self) -> float:
        """The memory of all its processes together; some 20 ms."""
        known = () if self._supervisor is None else self._supervisor.processes
        return sum(machine.used_mib(process.pid) or 0.0 for process in known)

    @property
    def cores_told(self) -> str:
        """What it means that there are few cores for its tasks; empty with enough."""
        return report.few_cores(self._plan.jobs, machine.cores())

    @property
    def memory_told(self) -> str:
        """How much of the memory that there is it takes, in words."""
        if self._state is ClusterState.READY:
            return memory.told(self.memory_mib, machine.memory())
        need_mib = memory.need_mib(len(self._plan.tasks))
        return memory.told(need_mib, machine.memory(), is_estimate=True)

    def check_memory(self, instead_of: Lifecycle | None = None) -> None:
        """Raise `NotEnoughMemory` when it would not fit, and say what would.

        `instead_of` is a cluster that is to be stopped before.
        """
        freed_mib = 0.0 if instead_of is None else instead_of.memory_mib
        memory.check(self._plan.jobs, machine.memory(), freed_mib)

    # -- start and stop ---------------------------------------------------------

    def start(self) -> Self:
        """Start all processes and servers; block until every task is ready.

        A start that fails or is interrupted leaves nothing behind.

        Returns
        -------
        Cluster
            This cluster, so that `cluster = kit.Cluster().start()` works.

        Raises
        ------
        StartFailed
            A process did not come up; the message holds its log.
        NotEnoughMemory
            The machine has too little memory. Nothing was started.
        """
        work = self._begin()
        try:
            work.result()
        except BaseException:
            self.stop()  # Ctrl-C may come in the moment after the cluster got ready
            self._close()
            raise
        return self

    def begin_start(self) -> Generator[float, None, None]:
        """Start as `start` does, yielding the seconds to leave it alone; for drivers.

        Ending the iterator early gives the start up.
        """
        work = self._begin()
        try:
            while not work.done():
                yield _LOOK_S
            work.result()
        except BaseException:
            self.stop()
            self._close()
            raise

    async def start_async(self) -> Self:
        """Start as `start` does, without blocking the running loop."""
        work = self._begin()
        try:
            await work.awaited()
        except BaseException:
            await self.stop_async()
            self._close()
            raise
        return self

    def _begin(self) -> LoopTask[None]:
        with self._lock:
            if self._state is not ClusterState.NEW:
                raise FailedPreconditionError(
                    f"this cluster is {self._state} and starts only once; make a new "
                    f"one: Cluster({self._plan.as_arguments})."
                )
            try:
                self.check_memory()
                self._loop = LoopThread(_THREAD)
            except (OSError, RuntimeError) as error:
                raise _refused(error) from error
            self._state = ClusterState.STARTING
            self._reserve = bytes(_RESERVE_BYTES)
            atexit.register(self._at_exit)
            self._starting = self._loop.submit(self._bring_up())
            return self._starting

    async def _bring_up(self) -> None:
        try:
            for _ in range(_MOST_STARTS - 1):
                with suppress(PortTaken):
                    await self._start_supervisor()
                    break
            else:
                await self._start_supervisor()
        except asyncio.CancelledError:
            self._forget()
            raise CancelledError("the start was given up; nothing is left.") from None
        except OSError as error:
            self._forget()
            raise _refused(error) from error
        except BaseException:
            self._forget()
            raise
        # Here and not in the caller's thread: who calls stop() next must see it.
        self._state = ClusterState.READY
        _running.append(self)

    async def _start_supervisor(self) -> None:
        self._supervisor = Supervisor(self._plan)
        await self._supervisor.start()

    def stop(self) -> None:
        """Stop everything and block until nothing is left. May be called again.

        Calls and restarts that are under way raise `CancelledError`. If it is
        interrupted, the stop goes on by itself.

        Raises
        ------
        DeadlineExceededError
            The system does not let go of a killed process.

        Notes
        -----
        It takes 10 s at most with the default stop deadline of 2 s.
        """
        self._reserve = b""
        starting = self._give_up_start()
        if starting is not None:
            with suppress(TimeoutError):
                starting.exception(self._stop_s)
        work = self._begin_stop()
        if work is not None:
            with suppress(Exception):  # what has not ended then is looked for
                work.result(self._stop_s)
        self._end_what_is_left(starting, work)

    async def stop_async(self) -> None:
        """Stop as `stop` does, without blocking the running loop."""
        self._reserve = b""
        starting = self._give_up_start()
        if starting is not None:
            await starting.over(self._stop_s)
        work = self._begin_stop()
        if work is not None:
            await work.over(self._stop_s)
        self._end_what_is_left(starting, work)

    @property
    def _stop_s(self) -> float:
        return self._supervisor.stop_s if self._supervisor is not None else _STOP_S

    def _give_up_start(self) -> LoopTask[None] | None:
        """Give up a start under way, which cleans up behind itself; return it."""
        if self._starting is None or self._starting.done():
            return None
        self._starting.give_up()
        return self._starting

    def _begin_stop(self) -> LoopTask[None] | None:
        """Return the stop, at work or done, or None when there is nothing to stop."""
        with self._lock:
            if self._state is ClusterState.READY:
                assert self._loop is not None, "what is ready has a loop"
                assert self._supervisor is not None, "what is ready has a supervisor"
                self._state = ClusterState.STOPPING
                down = self._take_down(self._supervisor)
                self._stopping = self._loop.submit(down, must_finish=True)
            return self._stopping

    def _end_what_is_left(self, *works: LoopTask[None] | None) -> None:
        """End it all from this thread where the loop has not done it in time."""
        supervisor = self._supervisor
        is_late = any(work is not None and not work.done() for work in works)
        if supervisor is not None and (is_late or not supervisor.has_ended):
            supervisor.end(0.0)
            self._forget()
        self._close()
        if supervisor is not None:
            supervisor.check_ended()

    async def _take_down(self, supervisor: Supervisor) -> None:
        try:
            await supervisor.stop()
        finally:
            self._forget()

    def _forget(self) -> None:
        """Be over, as the last act in the loop: what the cluster had is gone by now."""
        # Here and not in the caller's thread: who waits there may be interrupted.
        self._state = ClusterState.STOPPED
        atexit.unregister(self._at_exit)
        if self in _running:
            _running.remove(self)
        self._close()

    def _close(self) -> None:
        """End the loop; any other thread waits until its thread has ended."""
        if self._loop is not None:
            self._loop.close(_CLOSE_S)

    def _at_exit(self) -> None:
        # A fork of this process inherits the hook but not the cluster.
        if os.getpid() == self._owner:
            self.stop()

    def _enter(self) -> None:
        """Make a cluster that runs already the current one."""
        if self in _running:
            _running.remove(self)
            _running.append(self)

    def __enter__(self) -> Self:
        if self._state is ClusterState.NEW:
            self.start()
        self._enter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        if self._state is ClusterState.NEW:
            await self.start_async()
        self._enter()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop_async()

    def _ready(self) -> Supervisor:
        if self._state is not ClusterState.READY or self._supervisor is None:
            raise FailedPreconditionError(
                f"this cluster is {self._state}; start one with "
                f"Cluster({self._plan.as_arguments}).start()."
            )
        if self._supervisor.controller_lost:
            raise ControllerLost(self._supervisor.controller_lost)
        return self._supervisor
