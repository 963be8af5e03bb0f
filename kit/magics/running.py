"""The cluster that magics use: the one that was started or entered last."""

from __future__ import annotations

from kit.cluster.cluster import Cluster
from kit.cluster.processes import left_behind
from kit.cluster.running import current
from kit.errors import FailedPreconditionError

NONE = "no cluster is running; start one with %%cluster --ps 1 --worker 3"


def find() -> Cluster | None:
    """Return the current cluster, None without one."""
    try:
        return current()
    except FailedPreconditionError:
        return None


def require() -> Cluster:
    """Return the current cluster, or raise `FailedPreconditionError`."""
    cluster = find()
    if cluster is None:
        raise FailedPreconditionError(no_cluster_notice())
    return cluster


def no_cluster_notice() -> str:
    """Return one line: that no cluster runs, what to do, and what was left behind."""
    left = left_behind_notice()
    return f"{NONE}. {left}" if left else f"{NONE}."


def left_behind_notice() -> str:
    """Return how many clusters dead notebooks have left; empty if there are none."""
    left = [
        cluster for cluster in left_behind.find() if left_behind.is_left_behind(cluster)
    ]
    if not left:
        return ""
    return (
        f"Left behind by notebooks that were killed: {len(left)} "
        f"(%cluster list shows them, %cluster clean ends them)."
    )
