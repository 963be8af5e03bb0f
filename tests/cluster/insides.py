"""The parts of a running cluster that its users do not see."""

from __future__ import annotations

from kit.cluster.cluster import Cluster
from kit.cluster.loop import LoopThread
from kit.cluster.processes.supervisor import Supervisor


def supervisor_of(cluster: Cluster) -> Supervisor:
    """Return what starts and ends the cluster's processes."""
    supervisor, _ = cluster._life.ready()
    return supervisor


def loop_of(cluster: Cluster) -> LoopThread:
    """Return the loop in which the cluster does all its work."""
    _, loop = cluster._life.ready()
    return loop
