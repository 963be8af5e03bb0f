"""What all programs of one task share: state, devices, and Python functions."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np

from kit.arrays import Gpu, all_gpus
from kit.errors import FailedPreconditionError, InvalidArgumentError, PlacementError
from kit.graph.dtypes import STRING
from kit.graph.ops.state.function import function_of
from kit.session.master.devices import Device
from kit.session.worker.state import SessionState, TaskState
from kit.session.worker.step import SessionKey
from kit.task import Task

_ENTROPY_BITS = 128


class TaskRuntime:
    """One task, as its programs see it.

    Arrays of a CPU are numpy's, whichever CPU it is; those of a GPU stay there. They
    move where an edge of the graph crosses, and between two GPUs through the host.
    """

    def __init__(
        self,
        task: Task,
        *,
        n_cpus: int = 1,
        gpus: Callable[[], Sequence[Gpu]] = all_gpus,
        entropy: Callable[[], int] = lambda: secrets.randbits(_ENTROPY_BITS),
    ) -> None:
        """`gpus` is called when devices are first needed: finding them takes long."""
        self.task, self.entropy = task, entropy
        self.store = TaskState()
        self._n_cpus, self._find_gpus = n_cpus, gpus
        self._functions: dict[str, Callable[..., Any]] = {}
        self.session_states: dict[SessionKey, SessionState] = {}
        self._lock = threading.Lock()

    def named(self, task: Task) -> TaskRuntime:
        """Return the same devices, functions and variables as those of another task."""
        runtime = TaskRuntime(
            task, n_cpus=self._n_cpus, gpus=lambda: self._gpus, entropy=self.entropy
        )
        runtime.store, runtime._functions = self.store, self._functions
        return runtime

    @cached_property
    def _gpus(self) -> Sequence[Gpu]:
        return self._find_gpus()

    @cached_property
    def devices(self) -> list[Device]:
        """All devices of this task: its CPUs, then the GPUs that its process sees."""
        cpus = [Device(self.task, "CPU", i) for i in range(self._n_cpus)]
        return cpus + [Device(self.task, "GPU", i) for i in range(len(self._gpus))]

    def only_gpu(self, devices: Iterable[Device]) -> Gpu | None:
        """Return the GPU among devices, None if there is none or more than one."""
        gpus = {*map(self._gpu, devices)} - {None}
        return gpus.pop() if len(gpus) == 1 else None

    def wait(self, device: str) -> None:
        """Wait until all that was begun on a device, given by its name, is computed."""
        for item in self.devices:
            if item.name == device and (gpu := self._gpu(item)) is not None:
                gpu.wait()

    def module(self, device: Device | None) -> ModuleType:
        """Return what computes on a device: numpy or cupy."""
        gpu = self._gpu(device)
        return np if gpu is None else gpu.module

    def on(self, device: Device | None, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return `call` so that it computes on a device."""
        gpu = self._gpu(device)
        if gpu is None:
            return call
        entered = gpu.entered

        def there(*args: Any) -> Any:
            with entered():
                return call(*args)

        return there

    def is_same(self, device: Device | None, other: Device | None) -> bool:
        """Whether arrays of one device can be used on another (None: the host)."""
        return self._gpu(device) is self._gpu(other)

    def move(self, source: Device | None, to: Device | None, value: Any) -> Any:
        """Return a value on another device.

        From a GPU this waits until the value is computed. Raises
        `InvalidArgumentError` for texts, which a GPU cannot hold.
        """
        left, entered = self._gpu(source), self._gpu(to)
        if left is entered or value is None:  # what did not run gives nothing
            return value
        host = value if left is None else left.get(value)
        if entered is None:
            return host
        if host.dtype == STRING:
            raise InvalidArgumentError(
                f"texts cannot be on a GPU: place what works with them on the CPU of "
                f"{self.task}."
            )
        return entered.put(host)

    def begin_session(
        self, session: SessionKey, *, isolated: bool = False
    ) -> SessionState:
        """Return a session's state, made the first time.

        An `isolated` session has its own variables.
        """
        with self._lock:
            if session not in self.session_states:
                self.session_states[session] = SessionState(
                    TaskState() if isolated else self.store
                )
            return self.session_states[session]

    def session_state(self, session: SessionKey) -> SessionState | None:
        """Return a session's state; None before it begins and after it has ended."""
        return self.session_states.get(session)

    def end_session(self, session: SessionKey) -> None:
        """Forget what one session kept."""
        with self._lock:
            session_state = self.session_states.pop(session, None)
        if session_state is not None and session_state.store is not self.store:
            session_state.store.clear()

    def add_function(self, token: str, function: Callable[..., Any]) -> None:
        """Let ops call a Python function by a token."""
        self._functions[token] = function

    def function(self, token: str) -> Callable[..., Any]:
        """Return a function that was added, or one that is known to this process.

        Raises `FailedPreconditionError` when it is not here.
        """
        function = self._functions.get(token) or function_of(token)
        if function is None:
            raise FailedPreconditionError(
                f"{self.task} does not have this Python function: it is in the process "
                f"that made the op, and travels only to the tasks of a kit.Cluster. "
                f"Place the op there, or on a server of its own process.",
                task=str(self.task),
            )
        return function

    def _gpu(self, device: Device | None) -> Gpu | None:
        """Return the GPU that a device is, None for the host's memory."""
        if device is None or device.type == "CPU":
            return None
        if device not in self.devices:
            raise PlacementError(
                f"{device.name} is not here; {self.task} has: "
                f"{', '.join(item.name for item in self.devices)}.",
                task=str(self.task),
            )
        return self._gpus[device.index]
