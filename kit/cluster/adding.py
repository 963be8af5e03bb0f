"""Give a running cluster one more task, or take one away.

The coroutines run in the cluster's loop thread. The other tasks learn the new
addresses, and notice nothing else.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import replace
from typing import Any

from kit import machine
from kit.cluster import memory
from kit.cluster.changes import TaskChange
from kit.cluster.lifecycle import Lifecycle
from kit.cluster.options import ClusterOptions
from kit.cluster.processes.supervisor import Supervisor
from kit.cluster.restarting import busy, did_not_come_up, fork, join
from kit.errors import (
    ClusterBusy,
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    KitError,
    noted_at,
)
from kit.task import Task
from kit.training.client.run import Run
from kit.training.core.job import Work

_CHECK_S = 0.02


def next_task(job: str, tasks: Iterable[Task]) -> Task:
    """Return the first task of a job that does not exist yet.

    >>> next_task("worker", [Task("worker", 0), Task("worker", 2)]).short
    'worker:1'
    """
    taken = {task.index for task in tasks if task.job == job}
    return Task(job, next(n for n in range(len(taken) + 1) if n not in taken))


def adding(
    life: Lifecycle, job: str, run: Run | None, work: Work | None, used_mib: float
) -> Coroutine[Any, Any, Task]:
    """Return a coroutine that adds a task of a job; raises at once if it cannot.

    `run` is the training under way, with its `work`; `used_mib` is the cluster's memory
    now. See `Cluster.add`.
    """
    supervisor, _ = life.ready()
    check_may_change(life.options)
    changes = supervisor.changes
    joins = join(supervisor, run, work) if run is not None else None

    def choose() -> Task:
        coming = changes.of(TaskChange.ADD)
        # A task that has just come is in both.
        tasks = [*dict.fromkeys((*life.options.tasks, *coming))]
        check_may_add(job, tasks, coming, run)
        jobs = Counter([job, *(task.job for task in tasks)])
        memory.check(jobs, machine.memory(), used_mib)
        return next_task(job, tasks)

    task = changes.claim(TaskChange.ADD, choose)

    async def start() -> Task:
        await add(supervisor, task)
        _show(life, supervisor, task)
        if joins is not None:
            await joins(task)
        return task

    return changes.follow(task, start)


def removing(life: Lifecycle, task: Task, run: Run | None) -> Coroutine[Any, Any, None]:
    """Return a coroutine that removes a task; raises at once if it cannot."""
    supervisor, _ = life.ready()
    check_may_change(life.options)
    changes = supervisor.changes

    def choose() -> Task:
        changes.check(task)
        leaving = changes.of(TaskChange.REMOVE)
        staying = [item for item in life.options.tasks if item not in leaving]
        check_may_remove(task, staying, run)
        if run is not None and takes_part(run, task):
            run.leave(task)
        return task

    changes.claim(TaskChange.REMOVE, choose)

    async def end() -> None:
        await remove(supervisor, task, run)
        _show(life, supervisor)

    return changes.follow(task, end)


def _show(life: Lifecycle, supervisor: Supervisor, *new: Task) -> None:
    """Let users see the tasks that are left, and a new one that is ready.

    Others may be on their way; they are shown when they are ready.
    """
    shown = {*life.options.tasks, *new}
    tasks = tuple(task for task in supervisor.status if task in shown)
    life.options = replace(life.options, tasks=tasks)


def check_may_change(options: ClusterOptions) -> None:
    """Raise `FailedPreconditionError` if a launcher has started the tasks."""
    if options.launcher is not None:
        raise FailedPreconditionError(
            "the tasks of this cluster were brought by a launcher, which says how "
            "many there are; start another cluster, or one without a launcher."
        )


async def add(supervisor: Supervisor, task: Task) -> None:
    """Start a process for a new task, and give its address to all tasks.

    Raises `StartFailed`, with the task's log, if it does not come up within the start
    deadline; the cluster is then as before. Raises `FailedPreconditionError` if the
    fork server is gone.
    """
    supervisor.check_can_fork(task, "added")
    supervisor.admit(task, supervisor.engines.add(task.short))
    try:
        async with asyncio.timeout(supervisor.options.start_deadline_s):
            await fork(supervisor, task)
            await supervisor.start_new_server(task)
    except (TimeoutError, KitError, OSError) as error:
        # Its log has to be read before the task is forgotten.
        failed = did_not_come_up(supervisor, task, error)
        with noted_at(failed):
            await _end(supervisor, task)
        raise failed from error
    except BaseException as error:  # the cluster stops
        with noted_at(error):
            await _end(supervisor, task)
        raise


async def remove(supervisor: Supervisor, task: Task, run: Run | None) -> None:
    """End a task's process and forget the task, once the training goes on without it.

    Raises `DeadlineExceededError` if the training does not let it go in time; nothing
    has changed then.
    """
    if run is not None:
        await _gone_from(run, task)
    await _end(supervisor, task)
    await supervisor.connect_all()


async def _end(supervisor: Supervisor, task: Task) -> None:
    number, process = supervisor.numbers[task], supervisor.forget_engine(task)
    # First: once it is dismissed, its end is not reported as a loss.
    supervisor.dismiss(task)
    async with asyncio.timeout(supervisor.options.start_deadline_s):
        await supervisor.hosts.end(number, process)


async def _gone_from(run: Run, task: Task) -> None:
    give_up = time.monotonic() + run.job.settings.start_deadline_s
    while not run.done and takes_part(run, task):
        if time.monotonic() > give_up:
            raise DeadlineExceededError(
                f"the training (step {run.step}) still needs {task.short} after "
                f"{run.job.settings.start_deadline_s:g} s; the task is as it was.",
                task=str(task),
            )
        await asyncio.sleep(_CHECK_S)


def takes_part(run: Run, task: Task) -> bool:
    """Whether a task takes part in the newest generation of a training."""
    job = run.newest_job
    return job.is_elastic and task.short in job.generation.processes


def check_may_add(
    job: str, tasks: Sequence[Task], coming: Sequence[Task], run: Run | None
) -> None:
    """Raise if the cluster, or the training that it runs, has no use for a new task.

    `coming` are those that are being added already.
    """
    jobs = list(dict.fromkeys(task.job for task in tasks))
    if job not in jobs:
        raise InvalidArgumentError(
            f"no job is called {job!r}; this cluster has {', '.join(jobs)}."
        )
    if run is None or job == "ps":
        return
    if not run.newest_job.is_elastic:
        return  # it trains on as it is; the next training takes all tasks
    n_members = len(run.job.workers)
    here = {
        *run.newest_job.generation.processes,
        *(task.short for task in coming),
    }
    n_here = sum(not name.startswith("ps:") for name in here)
    if n_here >= n_members:
        raise ClusterBusy(
            f"{n_here} worker tasks take part in a training of {n_members} logical "
            f"workers, so another one would have nothing to do: at most {n_members} "
            f"tasks can take part. Begin the training with "
            f"elastic=kit.Elastic(logical_workers={n_members + 1}), or wait for it."
        )


def check_may_remove(task: Task, tasks: Sequence[Task], run: Run | None) -> None:
    """Raise if the cluster, or the training that it runs, needs the task."""
    if not [other for other in tasks if other != task and other.job != "ps"]:
        raise FailedPreconditionError(
            f"{task.short} is the only worker, and nothing would compute without it; "
            f"end the cluster with cluster.stop().",
            task=str(task),
        )
    if run is not None and not run.newest_job.is_elastic:
        hint = " An elastic training, kit.train(..., elastic=True), would let it go."
        raise busy(run, f"remove {task.short}", " that needs it", hint)
