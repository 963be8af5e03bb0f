"""What a `%%cluster` line asks for, and what to do if a cluster is running already.

Pure: it starts and stops nothing.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from enum import Enum
from typing import Any

from kit.cluster.options import ClusterOptions
from kit.cluster.report import ClusterState
from kit.errors import ClusterBusy, FailedPreconditionError, InvalidArgumentError


class Action(Enum):
    """What to do about a cluster."""

    START = "start"
    REUSE = "reuse"
    REPLACE = "replace"


@dataclass(frozen=True)
class Running:
    """The cluster that runs now; `step` is that of its training, None without one."""

    options: ClusterOptions
    state: ClusterState
    step: int | None = None


def arguments(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options of the line as arguments of `Cluster`.

    Raises `InvalidArgumentError` for a job that is named twice.
    """
    named = {
        "ps": options.ps,
        "worker": options.worker,
        "transport": options.transport,
        "link": options.link,
        "threads": options.threads,
        "lease_s": options.lease,
        "start_deadline_s": options.timeout,
        "insecure": options.insecure or None,
    }
    jobs: dict[str, int] = {}
    for name, number in options.job or ():
        if name in jobs:
            raise InvalidArgumentError(f"job {name!r} is given twice; give it once.")
        jobs[name] = number
    arguments_given = {
        name: value for name, value in named.items() if value is not None
    }
    return arguments_given | ({"jobs": jobs} if jobs else {})


def has_shape(given: dict[str, Any]) -> bool:
    """Whether the arguments describe a cluster; its link and start deadline do not.

    >>> has_shape({"worker": 2}), has_shape({"link": "1gbit"})
    (True, False)
    """
    return bool(given.keys() - {"link", "start_deadline_s"})


def is_alike(one: ClusterOptions, other: ClusterOptions) -> bool:
    """Whether two clusters are the same for their user."""
    fields = ("tasks", "threads", "transport", "insecure", "lease_s", "launcher")
    return all(getattr(one, name) == getattr(other, name) for name in fields)


def decide(
    wanted: ClusterOptions | None,
    running: Running | None,
    *,
    reuse: bool = False,
    restart: bool = False,
) -> Action:
    """Return what to do; `wanted` is None when any cluster will do.

    Raises `InvalidArgumentError` for `reuse` with `restart`, `FailedPreconditionError`
    if `reuse` is asked for and a different cluster runs, and `ClusterBusy` if that one
    trains and `restart` is not asked for.
    """
    if reuse and restart:
        raise InvalidArgumentError("--reuse and --restart exclude each other.")
    if running is None:
        return Action.START
    if restart:
        return Action.REPLACE
    is_wanted = wanted is None or is_alike(wanted, running.options)
    if is_wanted and (reuse or running.state is ClusterState.READY):
        return Action.REUSE
    if reuse:
        raise FailedPreconditionError(
            f"the cluster that runs has {running.options.as_arguments}; another one "
            f"was asked for. Leave out --reuse to replace it, or the numbers to use it."
        )
    if running.step is not None:
        raise ClusterBusy(
            f"a training runs on the cluster with {running.options.as_arguments} (step "
            f"{running.step}); end it with run.stop(), or add --restart to end both."
        )
    return Action.REPLACE
