"""The parts of a running cluster that its users do not see, and its loop."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any

from kit.cluster.cluster import Cluster
from kit.cluster.loop import LoopThread
from kit.cluster.processes.supervisor import Supervisor


def supervisor_of(cluster: Cluster) -> Supervisor:
    """Return what starts and ends the cluster's processes."""
    return _ready(cluster)[0]


def loop_of(cluster: Cluster) -> LoopThread:
    """Return the loop in which the cluster does all its work."""
    return _ready(cluster)[1]


def _ready(cluster: Cluster) -> tuple[Supervisor, LoopThread]:
    return cluster._life.ready()


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in an event loop of its own."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))

    return run
