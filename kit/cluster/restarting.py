"""Give one task a new process, at the same address; what the old one held is gone.

Runs in the cluster's loop thread. The other tasks notice nothing but that their links
to the old process have ended.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from kit.cluster.processes import reaper
from kit.cluster.processes.engines import Engines
from kit.cluster.processes.reaper import Process
from kit.cluster.processes.supervisor import Crew
from kit.cluster.report import State
from kit.errors import ClusterBusy, KitError, StartFailed
from kit.task import Task

_LOOK_S = 0.01
_GRACE_S = 1.0
_KILL_S = 5.0


async def restart(crew: Crew, task: Task) -> None:
    """End the task's process, if it lives, and start another one in its place.

    Raises `StartFailed`, with the task's log, when that one does not come up within the
    crew's start deadline; the task is lost then. Raises `ClusterBusy` while another
    restart of the task is under way, and `FailedPreconditionError`, with nothing
    changed, when what would fork the new process is gone or stopped.
    """
    if task in crew.restarts:
        raise ClusterBusy(
            f"{task.short} is being restarted already; wait until "
            f"cluster.restart({task.short!r}) has returned."
        )
    crew.check_can_fork(task)
    here = asyncio.current_task()
    assert here is not None, "a coroutine runs in a task"
    crew.restarts[task] = here
    try:
        await _replace(crew, task)
    finally:
        del crew.restarts[task]


async def _replace(crew: Crew, task: Task) -> None:
    engines, index = crew.engines, crew.plan.tasks.index(task)
    assert engines is not None, "a ready crew has engines"
    limit_s = crew.plan.start_deadline_s
    # One that a stopped fork server forked late, after the last try, is not known yet.
    old = crew.forget_engine(task) or engines.report()[0].get(index)
    try:
        async with asyncio.timeout(limit_s):
            await _end(old, lambda: index not in engines.registered)
            before = engines.report()[0].get(index)
            engines.fork_again(index)
            crew.watch_engine(task, await _new_process(crew, task, before))
            await _registration(crew, task, engines)
            crew.calls.find_again(task)
            await crew.start_server(task)
    except (TimeoutError, KitError, OSError) as error:
        log = engines.log_tail(index)
        why = f"not within {limit_s:g} s" if isinstance(error, TimeoutError) else error
        crew.set_lost(task, "was restarted and did not come up")
        raise StartFailed(
            f"{task.short} did not come up again: {why}\n{log}", task=str(task)
        ) from error


async def _end(process: Process | None, is_forgotten: Callable[[], bool]) -> None:
    """End a process and its children, and wait until its controller has noticed."""
    family = reaper.descendants([process]) if process is not None else set()
    try:
        if process is not None:
            await _end_process(process)
        # Its nanny is of the family, and has the end to report first.
        while not is_forgotten():
            await asyncio.sleep(_LOOK_S)
    finally:
        # Also when it is cancelled: the orphans of what has ended are not found later.
        reaper.end(family, _GRACE_S)


async def _end_process(process: Process) -> None:
    for number, patience_s in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, _KILL_S)):
        reaper.send(process, number)
        for _ in range(int(patience_s / _LOOK_S)):
            if not process.is_running:
                return
            await asyncio.sleep(_LOOK_S)


async def _new_process(crew: Crew, task: Task, before: Process | None) -> Process:
    index = crew.plan.tasks.index(task)
    assert crew.engines is not None, "a ready crew has engines"
    while (found := crew.engines.report()[0].get(index)) in (before, None):
        crew.check_can_fork(task)
        await asyncio.sleep(_LOOK_S)
    assert found is not None, "the loop waited for it"
    return found


async def _registration(crew: Crew, task: Task, engines: Engines) -> None:
    index = crew.plan.tasks.index(task)
    while index not in engines.registered:
        status = crew.status[task]
        if status.state is State.LOST:
            raise StartFailed(f"its new process {status.reason}.")
        await asyncio.sleep(_LOOK_S)
