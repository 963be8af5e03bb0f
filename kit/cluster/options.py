"""The options of a cluster, and checks of what its user gives."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kit.cluster.launchers import Launcher
from kit.cluster.processes.bootstrap import SERVERS, Bootstrap
from kit.errors import InvalidArgumentError
from kit.server.cards import AUTO
from kit.task import Task


@dataclass(frozen=True)
class ClusterOptions:
    """What the user asked of a cluster; plain values, checked by `Cluster`."""

    tasks: tuple[Task, ...]
    threads: int
    python: str
    transport: str = "auto"
    insecure: bool = False
    lease_s: float = 15.0
    start_deadline_s: float = 60.0
    stop_deadline_s: float = 2.0
    log_level: int = logging.CRITICAL
    bootstrap: Bootstrap = SERVERS
    settings: Mapping[str, Any] | None = None
    link: str = ""
    launcher: Launcher | None = None  # None for processes of this host
    gpus: int | str = AUTO

    @property
    def jobs(self) -> dict[str, int]:
        """The number of tasks of each job."""
        return dict(Counter(task.job for task in self.tasks))

    @property
    def as_arguments(self) -> str:
        """The jobs as arguments of `Cluster`: `ps=1, worker=3`; and `insecure=True`."""
        return as_arguments(self.jobs) + (", insecure=True" if self.insecure else "")


def as_arguments(jobs: Mapping[str, int]) -> str:
    """Return numbers of tasks as arguments of `Cluster`.

    >>> as_arguments({"worker": 2}), as_arguments({"chief": 1, "worker": 2})
    ('ps=0, worker=2', "ps=0, worker=2, jobs={'chief': 1}")
    """
    named = {"ps": 0} | dict(jobs)
    more = {job: n for job, n in named.items() if job not in ("ps", "worker")}
    text = [f"{job}={n}" for job, n in named.items() if job not in more]
    return ", ".join(text + ([f"jobs={more}"] if more else []))


def merge_jobs(ps: int, worker: int, more: Mapping[str, int]) -> dict[str, int]:
    """Return the number of tasks of each job; `more` are those with other names.

    >>> merge_jobs(0, 2, {"chief": 1})
    {'worker': 2, 'chief': 1}
    """
    if not isinstance(more, Mapping):
        raise InvalidArgumentError(
            f"jobs={more!r}: give the number of tasks by name: jobs={{'chief': 1}}."
        )
    taken = {"ps", "worker"} & more.keys()
    if taken:
        raise InvalidArgumentError(
            f"jobs={dict(more)!r} names {' and '.join(sorted(taken))}, which have "
            f"their own arguments: Cluster(ps=..., worker=..., jobs=...)."
        )
    named = {"ps": ps, "worker": worker} | dict(more)
    return {job: n for job, n in named.items() if n != 0 or job == "worker"}


def checked_gpus(gpus: object) -> int | str:
    """Return "auto" or a number of GPUs; refuses anything else.

    >>> checked_gpus(2)
    2
    """
    is_number = isinstance(gpus, int) and not isinstance(gpus, bool) and gpus >= 0
    if gpus != AUTO and not is_number:
        raise InvalidArgumentError(
            f"gpus={gpus!r}: give how many GPUs each worker has of its own, 0 for "
            f'none, or "auto" for one, shared where there are fewer.'
        )
    return AUTO if gpus == AUTO else int(str(gpus))


def check_times(**seconds: float) -> None:
    """Refuse values that are not a time to wait, with the name of the argument.

    >>> check_times(lease_s=1.5)
    """
    for name, value in seconds.items():
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not (is_number and 0 < value < float("inf")):
            raise InvalidArgumentError(f"{name}={value!r}: give seconds, more than 0.")
