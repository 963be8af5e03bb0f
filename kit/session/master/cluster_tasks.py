"""The tasks of a cluster, for a master: their devices, and questions to them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from kit.arithmetic import Arithmetic, differences, here
from kit.devices.device import DeviceSpec
from kit.errors import DeadlineExceededError, KitError, UnavailableError
from kit.graph.dtypes import Array
from kit.session.master.devices import Device
from kit.session.transport.message import Message
from kit.session.worker.worker import Worker
from kit.task import Task

_TELL_S = 2.0
_PAUSE_S = 0.05

# The devices of a task, and its incarnation: a number that its process has drawn.
Known = tuple[list[Device], int]


class ClusterTasks:
    """All tasks, as `tasks()` returns them at the time."""

    def __init__(
        self,
        worker: Worker,
        tasks: Callable[[], Sequence[Task]],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._worker, self._tasks = worker, tasks
        self._clock, self._sleep = clock, sleep

    @property
    def tasks(self) -> list[Task]:
        """All tasks of the cluster."""
        return list(self._tasks())

    def look(
        self,
        deadline_s: float,
        filters: Sequence[str] = (),
        check: Callable[[], None] = lambda: None,
    ) -> dict[Task, Known]:
        """Ask all tasks that pass the filters for their devices; ours come first.

        Waits for tasks that are not up yet, and calls `check` meanwhile; what it raises
        ends the wait. Raises `DeadlineExceededError`, naming the first missing task.
        Warns where tasks compute with something else than others: the last bits of a
        graph would depend on where its ops are placed.
        """
        deadline = self._clock() + deadline_s
        me = self._worker.task
        chosen = [task for task in self.tasks if task == me or passes(task, filters)]
        chosen.sort(key=lambda task: (task != me, task))
        facts: dict[str, Arithmetic] = {}
        facts_of = {
            task: self._incarnation(task, deadline, check, facts) for task in chosen
        }
        for words in differences([*facts.items()], with_threads=True):
            warnings.warn(words, stacklevel=2)
        return facts_of

    def ask(
        self,
        task: Task,
        meta: Mapping[str, Any],
        deadline_s: float,
        arrays: Sequence[Array] = (),
    ) -> Message:
        """Ask another task one question."""
        return self._worker.peers.ask(task, meta, deadline_s, arrays)

    def tell(self, task: Task, meta: Mapping[str, Any]) -> None:
        """Ask where no answer is needed, and a lost task does not matter."""
        with suppress(KitError):
            self.ask(task, meta, _TELL_S)

    def _incarnation(
        self,
        task: Task,
        deadline: float,
        check: Callable[[], None],
        facts: dict[str, Arithmetic],
    ) -> Known:
        if task == self._worker.task:
            facts[task.short] = here()
            return self._worker.runtime.devices, self._worker.incarnation
        while True:
            check()
            left_s = max(0.1, deadline - self._clock())
            try:
                meta = self.ask(task, {"op": "status"}, left_s).meta
            except UnavailableError as error:
                if self._clock() + _PAUSE_S > deadline:
                    raise DeadlineExceededError(
                        f"{task} did not come up in time: {error.message} Start it, or "
                        f"leave it out with device_filters.",
                        task=str(task),
                    ) from error
                self._sleep(_PAUSE_S)
            else:
                facts[task.short] = Arithmetic.from_plain(meta["arithmetic"])
                devices = [Device(task, str(k), int(i)) for k, i in meta["devices"]]
                return devices, int(meta["incarnation"])


def passes(task: Task, filters: Sequence[str]) -> bool:
    """Whether a task is one of those that some filter names; no filter names all."""
    specs = [DeviceSpec.from_string(text) for text in filters]
    return not specs or any(
        spec.job in (None, task.job) and spec.task in (None, task.index)
        for spec in specs
    )
