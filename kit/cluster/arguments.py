"""What is given to a cluster, checked before anything is done with it."""

from __future__ import annotations

from collections.abc import Mapping

from kit.errors import InvalidArgumentError


def merge_jobs(ps: int, worker: int, more: Mapping[str, int]) -> dict[str, int]:
    """Return the number of tasks of each job; `more` are those with other names.

    >>> merge_jobs(0, 2, {"chief": 1})
    {'worker': 2, 'chief': 1}
    """
    taken = {"ps", "worker"} & more.keys()
    if taken:
        raise InvalidArgumentError(
            f"jobs={dict(more)!r} names {' and '.join(sorted(taken))}, which have "
            f"arguments of their own: Cluster(ps=..., worker=..., jobs=...)."
        )
    named = {"ps": ps, "worker": worker} | dict(more)
    return {job: n for job, n in named.items() if n != 0 or job == "worker"}


def check_times(**seconds: float) -> None:
    """Refuse what is not a time to wait, by the name of the argument.

    >>> check_times(lease_s=1.5)
    """
    for name, value in seconds.items():
        if not 0 < value < float("inf"):
            raise InvalidArgumentError(f"{name}={value!r}: give seconds, more than 0.")
