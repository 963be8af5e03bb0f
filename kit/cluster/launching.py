"""Begin a training on the engines of a cluster.

The step function and the data are mapped by the tasks of a host; to other hosts they
travel over ipyparallel's encrypted channel, as cells do, once to each. From then on the
notebook talks to the tasks' servers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kit.cluster.mapped_pickle import MappedPickle as Mapped
from kit.cluster.mapped_pickle import Pickled
from kit.server import engine
from kit.task import Task
from kit.training.client.run import Run
from kit.training.job import Job, Work
from kit.wire.handshake.messages import Role
from kit.wire.rpc import Caller

if TYPE_CHECKING:
    from kit.cluster.cluster import Cluster

_CLIENT = Task("client", 0)


def launch(cluster: Cluster, job: Job, work: Work) -> Run:
    """Begin a training on every task of a cluster, or on none."""
    directory = cluster.directory

    def dial(task: Task, run: str, address: str = "") -> Caller:
        return Caller(
            directory.dial(task, _CLIENT, Role.OBSERVER, run, address=address)
        )

    servers = [] if job.generation else [job.tasks[number] for number in job.ps]
    leader, *others = (job.tasks[number] for number in _needing_work(job))
    try:
        with _sent(cluster, job, Pickled.of(work)) as mapped:
            # The coordinator first: the others come to it as soon as they begin.
            cluster.call(leader, begin, job, mapped)
            if servers:
                cluster.call(servers, engine.begin, job, None)
            if others:
                cluster.call(others, begin, job, mapped)
    except BaseException:
        cluster.call("all", engine.give_up, job.run)
        raise
    return Run(job, dial)


@contextmanager
def _sent(cluster: Cluster, job: Job, work: Pickled) -> Iterator[dict[str, Mapped]]:
    """Have the work held on each host, and give what its tasks map, by host."""
    if cluster.plan.launcher is None:
        with work.held() as mapped:
            yield {job.host_of(number): mapped for number in _needing_work(job)}
        return
    firsts = {
        job.host_of(number): job.tasks[number] for number in _needing_work(job)[::-1]
    }
    # Answers come in the order of the cluster's tasks.
    hosts = sorted(firsts, key=lambda host: cluster.tasks.index(firsts[host]))
    holders = [firsts[host] for host in hosts]
    try:
        held = cluster.call(holders, hold, job.run, work)
        yield dict(zip(hosts, held, strict=True))
    finally:
        cluster.call(holders, let_go, job.run)


def _needing_work(job: Job) -> tuple[int, ...]:
    """Return the members whose processes get the step function, the first of all first.

    In an elastic training a parameter server's process may have to host a worker.
    """
    return (*job.workers, *job.ps) if job.generation is not None else job.workers


_held: dict[str, int] = {}  # in a task: what it holds for those of its host, by run


def hold(run: str, work: Pickled) -> Mapped:
    """Hold the work of a training for the tasks of this one's host."""
    _held[run], mapped = work.hold()
    return mapped


def let_go(run: str) -> None:
    """Hold it no longer; those who have mapped it keep it."""
    if run in _held:
        os.close(_held.pop(run))


def begin(job: Job, mapped: dict[str, Mapped]) -> None:
    """Begin this task's part with what is held for it."""
    me = job.tasks.index(engine.current().task)
    engine.begin(job, mapped[job.host_of(me)].open())
