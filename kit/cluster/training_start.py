"""Begin a training on the engines of a cluster.

The step function and the data travel once to each other host, over ipyparallel's
encrypted channel, as cells do. All tasks of a host map the same memory. From then on
the notebook talks to the tasks' servers.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kit.cluster.mapped_pickle import MappedPickle as Mapped
from kit.cluster.mapped_pickle import Pickled
from kit.errors import noted_at
from kit.pickling import changed_by
from kit.server import engine
from kit.task import Task
from kit.training.client.run import Run
from kit.training.core.job import Job, Work
from kit.wire.handshake.messages import Role
from kit.wire.rpc import Caller

if TYPE_CHECKING:
    from kit.cluster.cluster import Cluster

_CLIENT = Task("client", 0)


def launch(cluster: Cluster, job: Job, work: Work) -> Run:
    """Begin a training on every task of a cluster, or on none."""
    cluster.bring(job.topology)
    directory = cluster.directory

    def dial(task: Task, run: str, address: str = "") -> Caller:
        is_known = address or task in directory.addresses
        # A task that was added since the training began is in a newer directory only.
        where = directory if is_known else cluster.directory
        return Caller(where.dial(task, _CLIENT, Role.OBSERVER, run, address=address))

    coordinator, *others = computing = _needing_work(cluster, job)
    servers = [task for task in cluster.tasks if task not in computing]
    try:
        if job.needs_preparing:
            job = job.at(*cluster.call("all", engine.prepare, job))
        _warn_of_copies(work.hooks)
        reducer = work.hooks.reducer() if work.hooks else None
        pickled = Pickled.of(work, "the training", reducer)
        with _sent(cluster, job.run, computing, pickled) as mapped:
            # The coordinator first: the others come to it as soon as they begin.
            cluster.call(coordinator, begin, job, mapped)
            if servers:
                cluster.call(servers, engine.begin, job, None)
            if others:
                cluster.call(others, begin, job, mapped)
    except BaseException as error:
        # Some tasks may have begun, and would wait for the others until a deadline.
        with noted_at(error):
            cluster.call("all", engine.give_up, job.run)
        raise
    return Run(job, dial, bring=cluster.bring, restart=cluster.restart)


def _warn_of_copies(hooks: Any) -> None:
    """Name what hooks change of this process: in a task they change a copy of it."""
    for hook in hooks:
        for name, value in changed_by(hook).items():
            warnings.warn(
                f"{type(hook).__name__} changes {name!r}, of the type "
                f"{type(value).__name__}: a hook runs in the first worker's task, with "
                f"a copy of it, and the one here stays as it is. What is measured "
                f"comes back in run.frame(), and what a hook prints is shown here.",
                stacklevel=8,
            )


def _needing_work(cluster: Cluster, job: Job) -> list[Task]:
    """Return the tasks whose processes get the step function, the coordinator first.

    In an elastic training any process may have to host a worker later.
    """
    if not job.is_elastic:
        return [job.tasks[number] for number in job.workers]
    return sorted(
        cluster.tasks, key=lambda task: task != job.process_of(job.coordinator)
    )


@contextmanager
def _sent(
    cluster: Cluster, run: str, tasks: Sequence[Task], work: Pickled
) -> Iterator[dict[Task, Mapped]]:
    """Hold the work on each host meanwhile; yield what each of the tasks maps."""
    if cluster.options.launcher is None:
        with work.held() as mapped:
            yield dict.fromkeys(tasks, mapped)
        return
    names = cluster.hosts or [""] * len(cluster.tasks)
    host_of = dict(zip(cluster.tasks, names, strict=True))
    # Backwards, so that the first task of each host is the one that stays.
    firsts = {host_of[task]: task for task in tasks[::-1]}
    # Answers come in the order of the cluster's tasks.
    hosts = sorted(firsts, key=lambda host: cluster.tasks.index(firsts[host]))
    holders = [firsts[host] for host in hosts]
    try:
        held = dict(zip(hosts, cluster.call(holders, hold, run, work), strict=True))
        yield {task: held[host_of[task]] for task in tasks}
    except BaseException as error:
        with noted_at(error):
            cluster.call(holders, let_go, run)
        raise
    cluster.call(holders, let_go, run)


# In a task: the descriptor that it holds for the tasks of its host, by run.
_held: dict[str, int] = {}


def hold(run: str, work: Pickled) -> Mapped:
    """Hold the work of a training for the tasks of this one's host."""
    _held[run], mapped = work.hold()
    return mapped


def let_go(run: str) -> None:
    """Stop holding it; tasks that have mapped it keep the memory."""
    if run in _held:
        os.close(_held.pop(run))


def begin(job: Job, mapped: dict[Task, Mapped]) -> None:
    """Begin this task's part with the work that is held for it."""
    engine.begin(job, mapped[engine.current().task].open())
