"""Give one task a new process at the same address; the old one's state is gone.

The coroutines run in the cluster's loop thread. The other tasks only notice that their
links to the old process have ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from kit.cluster.cells import remote
from kit.cluster.cells.calls import cancel
from kit.cluster.changes import TaskChange
from kit.cluster.processes.supervisor import Supervisor
from kit.cluster.report import ClusterState
from kit.errors import ClusterBusy, KitError, StartFailed
from kit.server import engine
from kit.task import Task
from kit.training.client.run import Run
from kit.training.core.job import Work

_CHECK_S = 0.01
SHOW_AGAIN = (
    " Its handle is run = kit.current_cluster().run; a cell that ends with run shows "
    "its board."
)


def restart(
    supervisor: Supervisor,
    task: Task,
    then: Callable[[Task], Awaitable[None]] | None = None,
) -> Coroutine[Any, Any, None]:
    """Return a coroutine that ends a task's process and starts another in its place.

    The task is claimed at once: this raises `ClusterBusy` while another change of it is
    under way. The coroutine raises `StartFailed`, with the task's log, if the new
    process does not come up within the supervisor's start deadline; the task is lost
    then. It raises `FailedPreconditionError`, with nothing changed, if the fork server
    is gone or stopped. `then` is what the new process does first.
    """

    async def replace() -> None:
        supervisor.check_can_fork(task)
        await _replace(supervisor, task)
        if then is not None:
            await then(task)

    supervisor.changes.claim(TaskChange.RESTART, lambda: task)
    return supervisor.changes.follow(task, replace)


def rejoin(
    supervisor: Supervisor, task: Task, run: Run, work: Work | None
) -> Coroutine[Any, Any, None]:
    """Restart a worker that a training has lost, and let it take part again.

    Raises `ClusterBusy` at once for a worker that takes part, or that the training
    needs.
    """
    if not run.job.is_elastic:
        _check_may_rejoin(supervisor, task, run)
    return restart(supervisor, task, join(supervisor, run, work))


def join(
    supervisor: Supervisor, run: Run, work: Work | None
) -> Callable[[Task], Awaitable[None]]:
    """Return a function that lets a task with a new process join a training.

    It does nothing if the training is over by then, or takes nobody in.
    """
    limit_s = run.job.settings.start_deadline_s
    # In the caller's thread: to pickle large data would block the cluster's loop.
    payload = remote.pack(engine.join, (run.newest_job, work), {})

    async def ask(task: Task) -> None:
        job = run.job
        takes_in = job.is_elastic or (job.generation.is_followed and task in job.tasks)
        if not run.done and takes_in:
            await supervisor.calls.perform({task: payload}, limit_s, "join")

    return ask


def _check_may_rejoin(supervisor: Supervisor, task: Task, run: Run) -> None:
    spared = run.job.schedule.spares({run.job.tasks.index(task)})
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
    """Return the error for something that has to wait for a training."""
    return ClusterBusy(
        f"cannot {what} while a training runs (step {run.step} of {run.job.steps})"
        f"{which}; wait for it with run.wait(), or end it with run.stop().{hint}"
        f"{SHOW_AGAIN}"
    )


async def _replace(supervisor: Supervisor, task: Task) -> None:
    limit_s = supervisor.options.start_deadline_s
    old = supervisor.forget_engine(task)
    try:
        async with asyncio.timeout(limit_s):
            await supervisor.hosts.end(supervisor.numbers[task], old)
            await fork(supervisor, task)
            await supervisor.start_server(task)
    except (TimeoutError, KitError, OSError) as error:
        failed = did_not_come_up(supervisor, task, error, " again")
        supervisor.set_lost(task, "was restarted and did not come up")
        raise failed from error


async def fork(supervisor: Supervisor, task: Task) -> None:
    """Have a process forked for a task; return when it can be called.

    Raises `ResourceExhaustedError` if its host has refused another one.
    """
    index = supervisor.numbers[task]
    forking = asyncio.ensure_future(supervisor.hosts.fork(index))
    try:
        while not forking.done():
            supervisor.check_can_fork(task)
            await asyncio.wait([forking], timeout=_CHECK_S)
    finally:
        await cancel(forking)
    process = forking.result()
    supervisor.watch_engine(task, process)
    while index not in supervisor.engines.registered:
        status = supervisor.status[task]
        if status.state is ClusterState.LOST:
            raise StartFailed(f"its new process {status.reason}.")
        await asyncio.sleep(_CHECK_S)
    # Not before: a call to an engine that is not registered fails.
    supervisor.calls.find_again(task)


def did_not_come_up(
    supervisor: Supervisor, task: Task, error: Exception, again: str = ""
) -> StartFailed:
    """Return the error for a task without a usable process, with the end of its log."""
    limit_s = supervisor.options.start_deadline_s
    why = f"not within {limit_s:g} s" if isinstance(error, TimeoutError) else error
    return StartFailed(
        f"{task.short} did not come up{again}: {why}\n{supervisor.log_tail(task)}",
        task=str(task),
    )
