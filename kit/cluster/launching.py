"""Begin a training on the engines of a cluster.

The step function and the data are mapped by the tasks of this host; to other hosts they
travel over ipyparallel's encrypted channel, as cells do. From then on the notebook
talks to the tasks' servers.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from kit.cluster.shipping import Parcel, shipped
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

    def dial(task: Task, run: str) -> Caller:
        return Caller(directory.dial(task, _CLIENT, Role.OBSERVER, run))

    servers = [job.tasks[number] for number in job.ps]
    leader, *others = (job.tasks[number] for number in job.workers)
    is_here = cluster.plan.launcher is None
    try:
        with shipped(work) if is_here else nullcontext(work) as sent:
            # The coordinator first: the others come to it as soon as they begin.
            cluster.call(leader, begin, job, sent)
            if servers:
                cluster.call(servers, engine.begin, job, None)
            if others:
                cluster.call(others, begin, job, sent)
    except BaseException:
        cluster.call("all", engine.give_up, job.run)
        raise
    return Run(job, dial)


def begin(job: Job, sent: Work | Parcel) -> None:
    """Begin this task's part with what the notebook has sent, or holds for it."""
    engine.begin(job, sent.open() if isinstance(sent, Parcel) else sent)
