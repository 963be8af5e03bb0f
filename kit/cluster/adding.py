"""Give a running cluster one more task, or take one away.

What is awaited runs in the cluster's loop thread. The other tasks learn the new
addresses, and notice nothing else.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import replace
from typing import Any

from kit import machine
from kit.cluster import memory
from kit.cluster.lifecycle import Lifecycle
from kit.cluster.plan import ClusterPlan
from kit.cluster.processes.supervisor import Supervisor
from kit.cluster.restarting import busy, join, new_process, registration
from kit.errors import (
    ClusterBusy,
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    KitError,
    StartFailed,
)
from kit.task import Task
from kit.training.client.run import Run
from kit.training.job import Work

_LOOK_S = 0.02


def next_task(job: str, tasks: Iterable[Task]) -> Task:
    """Return the first task of a job that there is not.

    >>> next_task("worker", [Task("worker", 0), Task("worker", 2)]).short
    'worker:1'
    """
    taken = {task.index for task in tasks if task.job == job}
    return Task(job, next(n for n in range(len(taken) + 1) if n not in taken))


def adding(
    life: Lifecycle, job: str, run: Run | None, work: Work | None, used_mib: float
) -> Coroutine[Any, Any, Task]:
    """Return what adds a task of a job; raises at once where there can be none.

    `run` is the training under way, with its `work`; `used_mib` the memory of the
    cluster now. See `Cluster.add`.
    """
    supervisor, _ = life.ready()
    plan = life.plan
    check_may_change(plan)
    check_may_add(job, plan.tasks, run)
    memory.check(plan.jobs | {job: plan.jobs[job] + 1}, machine.memory(), used_mib)
    task = next_task(job, plan.tasks)
    joins = join(supervisor, task, run, work) if run is not None else None

    async def start() -> Task:
        await add(supervisor, task)
        life.plan = replace(life.plan, tasks=supervisor.plan.tasks)
        if joins is not None:
            await joins()
        return task

    return start()


def removing(life: Lifecycle, task: Task, run: Run | None) -> Coroutine[Any, Any, None]:
    """Return what removes a task; raises at once where it cannot. See `Cluster`."""
    supervisor, _ = life.ready()
    check_may_change(life.plan)
    check_may_remove(task, life.plan.tasks, run)
    if run is not None and takes_part(run, task):
        run.leave(task)

    async def end() -> None:
        await remove(supervisor, task, run)
        life.plan = replace(life.plan, tasks=supervisor.plan.tasks)

    return end()


def check_may_change(plan: ClusterPlan) -> None:
    """Raise `FailedPreconditionError` for tasks that are not of our starting."""
    if plan.launcher is not None:
        raise FailedPreconditionError(
            "the tasks of this cluster were brought by a launcher, which says how "
            "many there are; start another cluster, or one without a launcher."
        )


async def add(supervisor: Supervisor, task: Task) -> None:
    """Start a process for a new task, and make it known to all.

    Raises `StartFailed`, with the task's log, when it does not come up within the
    start deadline; the cluster is as it was then. Raises `FailedPreconditionError` when
    what would fork it is gone.
    """
    engines, limit_s = supervisor.engines, supervisor.plan.start_deadline_s
    assert engines is not None, "a ready supervisor has engines"
    supervisor.check_can_fork(task, "added")
    number = engines.add(task.short)
    supervisor.admit(task, number)
    try:
        async with asyncio.timeout(limit_s):
            engines.fork_again(number)
            supervisor.watch_engine(task, await new_process(supervisor, task, None))
            await registration(supervisor, task, engines)
            supervisor.calls.find_again(task)
            await supervisor.start_new_server(task)
    except (TimeoutError, KitError, OSError) as error:
        log = engines.log_tail(number)
        why = f"not within {limit_s:g} s" if isinstance(error, TimeoutError) else error
        await _end(supervisor, task)
        raise StartFailed(
            f"{task.short} did not come up: {why}\n{log}", task=str(task)
        ) from error
    except BaseException:  # the cluster stops, or the caller does not wait any more
        await _end(supervisor, task)
        raise


async def remove(supervisor: Supervisor, task: Task, run: Run | None) -> None:
    """End a task's process and forget the task; a training goes on without it before.

    Raises `DeadlineExceededError` when the training does not let it go in time; nothing
    has changed then.
    """
    if run is not None:
        await _gone_from(run, task)
    await _end(supervisor, task)
    await supervisor.connect_all()


async def _end(supervisor: Supervisor, task: Task) -> None:
    engines, number = supervisor.engines, supervisor.numbers[task]
    assert engines is not None, "a ready supervisor has engines"
    process = supervisor.forget_engine(task) or engines.report()[0].get(number)
    supervisor.dismiss(task)
    async with asyncio.timeout(supervisor.plan.start_deadline_s):
        await engines.end(number, process)


async def _gone_from(run: Run, task: Task) -> None:
    give_up = time.monotonic() + run.job.settings.start_deadline_s
    while not run.done and takes_part(run, task):
        if time.monotonic() > give_up:
            raise DeadlineExceededError(
                f"the training (step {run.step}) still needs {task.short} after "
                f"{run.job.settings.start_deadline_s:g} s; the task is as it was.",
                task=str(task),
            )
        await asyncio.sleep(_LOOK_S)


def takes_part(run: Run, task: Task) -> bool:
    """Whether a task takes part in the newest generation of a training."""
    generation = run.newest_job.generation
    return generation is not None and task.short in generation.processes


def check_may_add(job: str, tasks: Sequence[Task], run: Run | None) -> None:
    """Raise when a cluster, or the training that it runs, has no use for a new task."""
    known = list(dict.fromkeys(task.job for task in tasks))
    if job not in known:
        raise InvalidArgumentError(
            f"no job is called {job!r}; this cluster has {', '.join(known)}."
        )
    if run is None or job == "ps":
        return
    generation = run.newest_job.generation
    if generation is None:
        return  # it trains on as it is; the next training takes all tasks
    n_members = len(run.job.workers)
    n_here = sum(not one.startswith("ps:") for one in generation.processes)
    if n_here >= n_members:
        raise ClusterBusy(
            f"{n_here} worker tasks take part in a training of {n_members} logical "
            f"workers, so another one would have nothing to do: at most {n_members} "
            f"tasks can take part. Begin the training with "
            f"elastic=kit.Elastic(logical_workers={n_members + 1}), or wait for it."
        )


def check_may_remove(task: Task, tasks: Sequence[Task], run: Run | None) -> None:
    """Raise when a cluster, or the training that it runs, cannot do without a task."""
    if not [one for one in tasks if one != task and one.job != "ps"]:
        raise FailedPreconditionError(
            f"{task.short} is the only worker, and nothing would compute without it; "
            f"end the cluster with cluster.stop().",
            task=str(task),
        )
    if run is not None and run.newest_job.generation is None:
        hint = " An elastic training, kit.train(..., elastic=True), would let it go."
        raise busy(run, f"remove {task.short}", " that needs it", hint)
