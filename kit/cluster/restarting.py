"""Give one task a new process, at the same address; what the old one held is gone.

What is awaited runs in the cluster's loop thread. The other tasks notice nothing but
that their links to the old process have ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from kit.cluster.cells import remote
from kit.cluster.processes.engines import Engines
from kit.cluster.processes.reaper import Process
from kit.cluster.processes.supervisor import Supervisor
from kit.cluster.report import ClusterState
from kit.errors import ClusterBusy, KitError, StartFailed
from kit.server import engine
from kit.task import Task
from kit.training.client.run import Run
from kit.training.job import Work

_LOOK_S = 0.01


async def restart(supervisor: Supervisor, task: Task) -> None:
    """End the task's process, if it lives, and start another one in its place.

    Raises `StartFailed`, with the task's log, when that one does not come up within the
    supervisor's start deadline; the task is lost then. Raises `ClusterBusy` while
    another restart of the task is under way, and `FailedPreconditionError`, with
    nothing changed, when what would fork the new process is gone or stopped.
    """
    if task in supervisor.restarts:
        raise ClusterBusy(
            f"{task.short} is being restarted already; wait until "
            f"cluster.restart({task.short!r}) has returned."
        )
    supervisor.check_can_fork(task)
    here = asyncio.current_task()
    assert here is not None, "a coroutine runs in a task"
    supervisor.restarts[task] = here
    try:
        await _replace(supervisor, task)
    finally:
        del supervisor.restarts[task]


def rejoin(
    supervisor: Supervisor, task: Task, run: Run, work: Work | None
) -> Coroutine[Any, Any, None]:
    """Restart a worker that a training has lost, and let it take part again.

    Raises `ClusterBusy` at once for one that takes part or must not be missing.
    """
    if run.job.generation is not None:
        join_it = join(supervisor, task, run, work)

        async def replace_and_join() -> None:
            await restart(supervisor, task)
            await join_it()

        return replace_and_join()
    _check_may_rejoin(supervisor, task, run)
    begun = run.job, work, run.next_incarnation(task)
    payload = remote.pack(engine.begin, begun, {})  # not in the cluster's loop
    limit_s = run.job.settings.start_deadline_s

    async def replace() -> None:
        await restart(supervisor, task)
        if not run.done:
            payloads = {task: payload}
            await supervisor.calls.perform(payloads, limit_s, "begin its part")
            run.watch_again(task)

    return replace()


def join(
    supervisor: Supervisor, task: Task, run: Run, work: Work | None
) -> Callable[[], Awaitable[None]]:
    """Return what lets a task with a new process ask to take part in a training.

    That does nothing if the training is over by then, or is not elastic.
    """
    limit_s = run.job.settings.start_deadline_s
    payload = remote.pack(engine.join, (run.newest_job, work), {})  # not in the loop

    async def ask() -> None:
        if not run.done and run.job.generation is not None:
            await supervisor.calls.perform({task: payload}, limit_s, "join")

    return ask


def _check_may_rejoin(supervisor: Supervisor, task: Task, run: Run) -> None:
    spared = run.job.can_spare({run.job.tasks.index(task)})
    is_lost = (
        task.short in run.lost or supervisor.status[task].state is ClusterState.LOST
    )
    if not spared or not is_lost:
        why = "has not lost it" if spared else "needs it"
        raise busy(
            run,
            f"restart {task.short}",
            f" that {why}",
            " Only a lost worker can join again, where kit.train(..., aggregate=R) "
            "takes fewer gradients than there are workers.",
        )


def busy(run: Run, what: str, which: str = "", hint: str = "") -> ClusterBusy:
    """Say that something has to wait for a training."""
    return ClusterBusy(
        f"cannot {what} while a training runs (step {run.step} of {run.job.steps})"
        f"{which}; wait for it with run.wait(), or end it with run.stop().{hint}"
    )


async def _replace(supervisor: Supervisor, task: Task) -> None:
    engines, index = supervisor.engines, supervisor.numbers[task]
    assert engines is not None, "a ready supervisor has engines"
    limit_s = supervisor.plan.start_deadline_s
    # One that a stopped fork server forked late, after the last try, is not known yet.
    old = supervisor.forget_engine(task) or engines.report()[0].get(index)
    try:
        async with asyncio.timeout(limit_s):
            await engines.end(index, old)
            before = engines.report()[0].get(index)
            engines.fork_again(index)
            supervisor.watch_engine(task, await new_process(supervisor, task, before))
            await registration(supervisor, task, engines)
            supervisor.calls.find_again(task)
            await supervisor.start_server(task)
    except (TimeoutError, KitError, OSError) as error:
        log = engines.log_tail(index)
        why = f"not within {limit_s:g} s" if isinstance(error, TimeoutError) else error
        supervisor.set_lost(task, "was restarted and did not come up")
        raise StartFailed(
            f"{task.short} did not come up again: {why}\n{log}", task=str(task)
        ) from error


async def new_process(
    supervisor: Supervisor, task: Task, before: Process | None
) -> Process:
    """Wait for a task's next process after `before`, and return it."""
    index = supervisor.numbers[task]
    assert supervisor.engines is not None, "a ready supervisor has engines"
    while (found := supervisor.engines.report()[0].get(index)) in (before, None):
        supervisor.check_can_fork(task)
        await asyncio.sleep(_LOOK_S)
    assert found is not None, "the loop waited for it"
    return found


async def registration(supervisor: Supervisor, task: Task, engines: Engines) -> None:
    """Wait until ipyparallel's controller knows a task's engine."""
    index = supervisor.numbers[task]
    while index not in engines.registered:
        status = supervisor.status[task]
        if status.state is ClusterState.LOST:
            raise StartFailed(f"its new process {status.reason}.")
        await asyncio.sleep(_LOOK_S)
