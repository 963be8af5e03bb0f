"""The tasks of a cluster as a master sees them: their devices, and questions to them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from kit.device import DeviceSpec
from kit.errors import DeadlineExceededError, KitError, UnavailableError
from kit.session.devices import Device
from kit.session.worker import Worker
from kit.task import Task

_TELL_S = 2.0
_PAUSE_S = 0.05


class Members:
    """All tasks, as `tasks()` names them at the time; asks each for its devices once."""

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
        self._devices: dict[Task, list[Device]] = {worker.task: worker.home.devices}
        self.incarnations: dict[Task, int] = {worker.task: worker.incarnation}
        self._lock = threading.Lock()

    @property
    def tasks(self) -> list[Task]:
        """All tasks of the cluster."""
        return list(self._tasks())

    def devices(self, deadline_s: float, filters: Sequence[str] = ()) -> list[Device]:
        """Return the devices of all tasks that the filters let through, ours first.

        Waits for tasks that are not up yet; raises `DeadlineExceededError`, naming the
        first that is missing.
        """
        deadline = self._clock() + deadline_s
        me = self._worker.task
        chosen = [one for one in self.tasks if one == me or _passes(one, filters)]
        chosen.sort(key=lambda one: (one != me, one))
        return [d for task in chosen for d in self._devices_of(task, deadline)]

    def ask(
        self, task: Task, meta: Mapping[str, Any], deadline_s: float, arrays: Any = ()
    ) -> tuple[dict[str, Any], list[Any]]:
        """Ask another task one question."""
        return self._worker.peers.ask(task, dict(meta), arrays, deadline_s)

    def tell(self, task: Task, meta: Mapping[str, Any]) -> None:
        """Ask, where no answer is needed and a lost task does not matter."""
        with suppress(KitError):
            self.ask(task, meta, _TELL_S)

    def forget(self, task: Task) -> None:
        """Ask a task for its devices again: it may have been restarted."""
        if task != self._worker.task:
            self._devices.pop(task, None)

    def _devices_of(self, task: Task, deadline: float) -> list[Device]:
        while task not in self._devices:
            try:
                reply, _ = self.ask(
                    task, {"op": "status"}, max(0.1, deadline - self._clock())
                )
            except UnavailableError as error:
                if self._clock() + _PAUSE_S > deadline:
                    raise DeadlineExceededError(
                        f"{task} did not come up in time: {error.message} Start it, or "
                        f"leave it out with device_filters.",
                        task=str(task),
                    ) from error
                self._sleep(_PAUSE_S)
                continue
            with self._lock:
                self._devices[task] = [
                    Device(task, str(kind), int(index))
                    for kind, index in reply["devices"]
                ]
                self.incarnations[task] = int(reply["incarnation"])
        return self._devices[task]


def _passes(task: Task, filters: Sequence[str]) -> bool:
    """Whether a task is one of those that some filter names; no filter names all."""
    specs = [DeviceSpec.from_string(one) for one in filters]
    return not specs or any(
        one.job in (None, task.job) and one.task in (None, task.index) for one in specs
    )
