"""Which cluster is meant where none is named: the one started or entered last."""

from __future__ import annotations

from kit.cluster import lifecycle
from kit.cluster.cluster import Cluster
from kit.dask.graph import set_cluster
from kit.devices.nearest import set_known_tasks
from kit.errors import FailedPreconditionError
from kit.task import Task
from kit.training.train import set_current


def current() -> Cluster:
    """Return the running cluster that was started or entered last.

    Raises `FailedPreconditionError` when there is none.
    """
    found = [c for c in lifecycle.running() if isinstance(c, Cluster)]
    if not found:
        raise FailedPreconditionError(
            "no cluster is running; start one: kit.Cluster(ps=1, worker=3).start()."
        )
    return found[-1]


def _known_tasks() -> list[Task] | None:
    found = [c for c in lifecycle.running() if isinstance(c, Cluster)]
    return found[-1].tasks if found else None


set_current(current)
set_known_tasks(_known_tasks)
set_cluster(current)
