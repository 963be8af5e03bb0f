"""The cluster that magics mean: the one that was started or entered last."""

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
    found = find()
    if found is None:
        raise FailedPreconditionError(none_told())
    return found


def none_told() -> str:
    """Say in one line that no cluster runs, what to do, and what was left behind."""
    left = left_told()
    return f"{NONE}. {left}" if left else f"{NONE}."


def left_told() -> str:
    """Say what was left by notebooks that are gone; empty when there is nothing."""
    left = [one for one in left_behind.find() if left_behind.is_left_behind(one)]
    if not left:
        return ""
    return (
        f"Left behind by notebooks that were killed: {len(left)} "
        f"(%cluster list shows them, %cluster clean ends them)."
    )
