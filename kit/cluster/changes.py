"""Which tasks are being added, removed or restarted: at most one of these for each.

A change is claimed at once, in its caller's thread, and carried out in the cluster's
loop. From the claim on it counts for all others: the next task to be added has another
number, and a task that is being removed is not removed a second time.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any, TypeVar

from kit.cluster.cells.calls import cancel
from kit.errors import ClusterBusy
from kit.task import Task

T = TypeVar("T")


class TaskChange(StrEnum):
    """What happens to a task; the value completes "is being ..."."""

    ADD = "added"
    REMOVE = "removed"
    RESTART = "restarted"


class Changes:
    """The changes under way, by task; the coroutines are for the cluster's loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._claimed: dict[Task, TaskChange] = {}
        self._works: set[asyncio.Task[Any]] = set()
        self._is_over = False

    def of(self, what: TaskChange) -> list[Task]:
        """Return the tasks to which this happens now."""
        return [task for task, change in list(self._claimed.items()) if change is what]

    def claim(self, what: TaskChange, choose: Callable[[], Task]) -> Task:
        """Claim the task that `choose` returns; no other claim comes between.

        Raises `ClusterBusy` while another change of it is under way.
        """
        with self._lock:
            task = choose()
            self.check(task)
            self._claimed[task] = what
            return task

    def check(self, *tasks: Task, what_waits: str = "") -> None:
        """Raise `ClusterBusy` if one of the tasks is being changed."""
        for task in tasks:
            if change := self._claimed.get(task):
                raise ClusterBusy(
                    f"{what_waits}{task.short} is being {change} already; wait until "
                    f"cluster.{change.name.lower()}({task.short!r}) has returned."
                )

    async def follow(self, task: Task, work: Callable[[], Awaitable[T]]) -> T:
        """Carry out the change of a claimed task; then it may be changed again."""
        here = asyncio.current_task()
        assert here is not None, "a coroutine runs in a task"
        # So that a stop can cancel it: it is shielded from its caller's Ctrl-C.
        self._works.add(here)
        try:
            if self._is_over:
                raise asyncio.CancelledError
            return await work()
        finally:
            self._works.discard(here)
            del self._claimed[task]

    async def cancel(self) -> None:
        """Cancel the changes under way, wait for their ends, and begin no more."""
        self._is_over = True
        await cancel(*self._works)
