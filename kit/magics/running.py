"""The cluster that magics mean: the one that was started or entered last."""

from __future__ import annotations

from kit.cluster.cluster import Cluster, current
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
    found = find()
    if found is None:
        raise FailedPreconditionError(f"{NONE}.")
    return found
