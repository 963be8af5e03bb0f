"""Begin a training on the engines of a cluster.

The step function and the data travel over ipyparallel's encrypted channel, as cells do;
from then on the notebook talks to the tasks' servers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    try:
        # The coordinator first: the others come to it as soon as they begin.
        cluster.call(leader, engine.begin, job, work)
        if servers:
            cluster.call(servers, engine.begin, job, None)
        if others:
            cluster.call(others, engine.begin, job, work)
    except BaseException:
        cluster.call("all", engine.give_up, job.run)
        raise
    return Run(job, dial)
