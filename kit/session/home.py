"""What all programs of one task share: its state, its devices, its functions."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from kit.errors import FailedPreconditionError
from kit.session.devices import Device
from kit.session.state import Store
from kit.task import Task


class Home:
    """One task, as its programs see it."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.store = Store()
        self.devices = [Device(task, "CPU", 0)]
        self._functions: dict[str, Callable[..., Any]] = {}
        self._sessions: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()

    def module(self, device: Device) -> ModuleType:
        """Return what computes on a device: numpy or cupy."""
        return np

    def on(self, device: Device, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return `call` so that it computes on a device."""
        return call

    def is_same(self, one: Device | None, other: Device | None) -> bool:
        """Whether arrays of one device can be used on another (None: the host)."""
        return True

    def move(self, source: Device | None, to: Device | None, value: Any) -> Any:
        """Return a value on another device."""
        return value

    def constant(self, value: Any, device: Device) -> Any:
        """Return a constant's value on its device."""
        return value

    def of_session(self, session: str, name: str, make: Callable[[], Any]) -> Any:
        """Return what one session keeps under a name, made at the first use."""
        with self._lock:
            kept = self._sessions.setdefault(session, {})
            if name not in kept:
                kept[name] = make()
            return kept[name]

    def end_session(self, session: str) -> None:
        """Forget what one session kept."""
        with self._lock:
            self._sessions.pop(session, None)

    def add_function(self, token: str, function: Callable[..., Any]) -> None:
        """Let ops call a Python function by a token."""
        self._functions[token] = function

    def function(self, token: str) -> Callable[..., Any]:
        """Return a function; raises `FailedPreconditionError` when it is not here."""
        if token not in self._functions:
            raise FailedPreconditionError(
                f"{self.task} does not have the Python function {token!r}. Functions "
                f"reach the tasks of a kit.Cluster, and servers of the process that "
                f"made the op; place it there.",
                task=str(self.task),
            )
        return self._functions[token]
