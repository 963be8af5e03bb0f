"""The tasks of the cluster that is current, as the graph is told of them.

Pure. A layer above sets the hook; without a cluster every device name is allowed, since
the session will check it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from kit.devices.nearest import check_known
from kit.task import Task

Find = Callable[[], Sequence[Task] | None]

_hook: list[Find] = []


def set_known_tasks(find: Find | None) -> None:
    """Let `find` say which tasks there are now: None while no cluster is current."""
    _hook[:] = [] if find is None else [find]


def check_device(device: str) -> None:
    """Raise `PlacementError` if the current cluster has no task of this name."""
    tasks = _hook[0]() if _hook and device else None
    if tasks is not None:
        _check(device, tuple(tasks))


# A graph asks for the same few names again and again.
@lru_cache(maxsize=256)
def _check(device: str, tasks: tuple[Task, ...]) -> None:
    check_known(device, tasks)
