"""How a cluster starts and stops: once each, from anywhere, with nothing left behind.

Both are pollings, so blocking and awaitable forms, `with` and `async with`, Ctrl-C, a
stop from another thread during the start, and the interpreter's exit take the same few
steps:

    NEW -> STARTING -> READY -> STOPPING -> STOPPED
               +------- a start that fails ----^

The state changes in the loop's thread wherever it can: a caller's thread may be
interrupted at any line, and would then leave a state that is not true.
"""

from __future__ import annotations

import asyncio
import atexit
import math
import os
import threading
import time
import warnings
from contextlib import suppress

from kit import machine
from kit.cluster import memory, report
from kit.cluster.loop import LoopTask, LoopThread
from kit.cluster.options import ClusterOptions
from kit.cluster.polling import Polling, drive
from kit.cluster.processes.processes import check_system
from kit.cluster.processes.supervisor import PortTaken, Supervisor
from kit.cluster.report import ClusterState
from kit.errors import (
    CancelledError,
    ControllerLost,
    FailedPreconditionError,
    StartFailed,
    noted_at,
)

_THREAD = "kit-cluster-loop"
_CHECK_S = 0.01
_STOP_S = 2.0  # for a start that has not begun a process yet
_CLOSE_S = 0.5
# Memory that a stop frees first, so that it has some when the system has none left. It
# is never touched, so until then it takes address space only.
_RESERVE_BYTES = 8 << 20
_MOST_STARTS = 3  # while other processes take the ports that were chosen
_running: dict[Lifecycle, object] = {}  # the holder of each, in order


def running() -> list[object]:
    """Return the holders that run, in the order of start or of entering by `with`."""
    return list(_running.values())


def _refused(error: Exception) -> StartFailed:
    return StartFailed(
        f"the cluster did not start: the system refused something that it needs "
        f"({error}). ulimit -a shows the limits on open files, processes and memory."
    )


def _until_done(work: LoopTask[None], limit_s: float = math.inf) -> Polling[None]:
    give_up_at = time.monotonic() + limit_s
    while not work.done() and time.monotonic() < give_up_at:
        yield _CHECK_S


class Lifecycle:
    """A cluster's life: its state, its loop, and the supervisor while it runs."""

    def __init__(self, options: ClusterOptions) -> None:
        """Begin nothing yet."""
        self.options = options
        self.state = ClusterState.NEW
        self.is_entered = False  # by `with`, which will end it
        self.loop: LoopThread | None = None
        self.supervisor: Supervisor | None = None
        self._lock = threading.Lock()
        self._starting: LoopTask[None] | None = None
        self._stopping: LoopTask[None] | None = None
        self._owner = os.getpid()
        self._reserve = b""

    # -- start and stop ---------------------------------------------------------

    def warn_of_others(self) -> None:
        """Warn the caller's caller of clusters that nothing ends but a stop.

        A cell that is run again has started them; `with` ends its own.
        """
        others = [
            repr(_running[cluster]) for cluster in _running if not cluster.is_entered
        ]
        if others and self.state is ClusterState.NEW:
            warnings.warn(report.beside(others), stacklevel=3)

    def starting(self, holder: object) -> Polling[None]:
        """Start; `running` then lists the holder.

        A start that fails, is interrupted or is closed leaves nothing.
        """
        work = self._begin(holder)
        try:
            yield from _until_done(work)
            work.result()
        except GeneratorExit:
            drive(self.stopping())
            raise
        except BaseException as error:
            with noted_at(error):
                yield from self.stopping()  # Ctrl-C may come when it has just started
            self._close()
            raise

    def _begin(self, holder: object) -> LoopTask[None]:
        with self._lock:
            if self.state is not ClusterState.NEW:
                raise FailedPreconditionError(
                    f"this cluster is {self.state} and starts only once; make a new "
                    f"one: Cluster({self.options.as_arguments})."
                )
            check_system()
            try:
                if self.options.launcher is None:
                    memory.check(self.options.jobs, machine.memory(), 0.0)
                n_tasks = len(self.options.tasks)
                allowed = machine.raise_descriptors(memory.need_descriptors(n_tasks))
                memory.check_descriptors(n_tasks, allowed)
                n_open = machine.open_descriptors()
                memory.check_free_descriptors(n_tasks, allowed, n_open)
                self._reserve = bytes(_RESERVE_BYTES)
                self.loop = LoopThread(_THREAD)
            except (OSError, RuntimeError) as error:
                raise _refused(error) from error
            # Nothing below fails: from here on there is something to stop.
            self.state = ClusterState.STARTING
            atexit.register(self._at_exit)
            self._starting = self.loop.submit(self._bring_up(holder))
            return self._starting

    async def _bring_up(self, holder: object) -> None:
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
        # Here and not in the caller's thread: whichever thread calls stop() next must
        # see it, or it would find nothing to stop.
        self.state = ClusterState.READY
        _running[self] = holder

    async def _start_supervisor(self) -> None:
        self.supervisor = Supervisor(self.options)
        await self.supervisor.start()

    def stopping(self) -> Polling[None]:
        """Stop everything, until nothing is left. Repeatable."""
        if self._is_of_another_process:
            return  # a fork that leaves `with kit.Cluster()` must not end its parent's
        self._reserve = b""
        if self._starting is not None and not self._starting.done():
            self._starting.give_up()  # it cleans up behind itself
            yield from _until_done(self._starting, self._stop_s)
        work = self._begin_stop()
        if work is not None:
            yield from _until_done(work, self._stop_s)
        self._end_what_is_left(self._starting, work)

    @property
    def _stop_s(self) -> float:
        return self.supervisor.stop_s if self.supervisor is not None else _STOP_S

    def _begin_stop(self) -> LoopTask[None] | None:
        """Return the stop, under way or done, or None if there is nothing to stop."""
        # Two threads may stop it at once: both then wait for the same stop.
        with self._lock:
            if self.state is ClusterState.READY:
                assert self.loop is not None, "what is ready has a loop"
                assert self.supervisor is not None, "what is ready has a supervisor"
                self.state = ClusterState.STOPPING
                down = self._take_down(self.supervisor)
                self._stopping = self.loop.submit(down, must_finish=True)
            return self._stopping

    def _end_what_is_left(self, *works: LoopTask[None] | None) -> None:
        """End everything from this thread if the loop has not done so in time."""
        supervisor = self.supervisor
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
        """Note that it is over, as the last act in the loop: all processes are gone."""
        # Here and not in the caller's thread, whose wait may be interrupted.
        self.state = ClusterState.STOPPED
        atexit.unregister(self._at_exit)
        _running.pop(self, None)
        self._close()

    def _close(self) -> None:
        """End the loop; any other thread waits until its thread has ended."""
        if self.loop is not None:
            self.loop.close(_CLOSE_S)

    def _at_exit(self) -> None:
        drive(self.stopping())

    @property
    def _is_of_another_process(self) -> bool:
        """Whether this is a fork of the process that has the cluster.

        It has inherited objects and hooks, but none of the threads that do the work.
        """
        return os.getpid() != self._owner

    def enter(self) -> None:
        """Make its holder the current one, if it is running."""
        self.is_entered = True
        if self in _running:
            _running[self] = _running.pop(self)

    def ready(self) -> tuple[Supervisor, LoopThread]:
        """Return the supervisor and the loop of a ready cluster, or raise why not."""
        supervisor, loop = self.supervisor, self.loop
        if self._is_of_another_process:
            raise FailedPreconditionError(
                f"this cluster belongs to process {self._owner}, of which this one "
                f"({os.getpid()}) is a fork: it has none of its threads and links. Use "
                f"the cluster in process {self._owner}, or begin this process with "
                f"multiprocessing.get_context('spawn') and start one in it."
            )
        if self.state is not ClusterState.READY or supervisor is None or loop is None:
            raise FailedPreconditionError(
                f"this cluster is {self.state}; start one with "
                f"Cluster({self.options.as_arguments}).start()."
            )
        if supervisor.controller_lost:
            raise ControllerLost(supervisor.controller_lost)
        return supervisor, loop
