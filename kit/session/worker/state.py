"""State of a task that outlives runs and sessions: variables, and what ops keep.

It is found by container and name, and shared by all sessions of the server. A
variable's value is replaced, never changed in place, so what was read stays as it was.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from kit.errors import FailedPreconditionError, InternalError, InvalidArgumentError
from kit.graph.dtypes import DType, name_of
from kit.graph.static import Shape, agrees, text


class VariableState:
    """One variable on its task. Its methods may be called by many threads at once."""

    def __init__(self, name: str, shape: Shape, dtype: DType) -> None:
        """Begin without a value; `shape` None admits any."""
        self.name, self.shape, self.dtype = name, shape, dtype
        self._value: Any = None
        self._lock = threading.Lock()

    @property
    def is_initialized(self) -> bool:
        """Whether it has a value."""
        return self._value is not None

    def read(self) -> Any:
        """Return the value; raises `FailedPreconditionError` while there is none."""
        value = self._value  # no lock: one reference, the old value or the new one
        if value is None:
            raise FailedPreconditionError(
                f"the variable {self.name!r} is uninitialized: run its initializer "
                f"first, on a session of the same cluster (or restore a checkpoint)."
            )
        return value

    def assign(self, value: Any, *, keep_shape: bool = True) -> Any:
        """Set the value and return it.

        Raises `InvalidArgumentError` for a shape that is not the variable's.
        """
        if keep_shape and not agrees(self.shape, value.shape):
            raise InvalidArgumentError(
                f"the variable {self.name!r} has the shape {text(self.shape)} and "
                f"cannot take a value of {text(value.shape)}; it was first made with "
                f"that shape, maybe by another client."
            )
        with self._lock:  # or it could fall into an `update`, which would undo it
            self._value = value
        return value

    def update(self, change: Callable[[Any], Any]) -> Any:
        """Set the value to `change(value)` in one indivisible step, and return it."""
        with self._lock:
            old = self.read()
            new = change(old)
            if new.shape != old.shape:
                raise InvalidArgumentError(
                    f"the variable {self.name!r} has the value shape {text(old.shape)} "
                    f"and cannot be updated to {text(new.shape)}."
                )
            self._value = new
        return new


class TaskState:
    """All state of one task, by container and name."""

    def __init__(self) -> None:
        self._containers: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()

    def find(self, container: str, name: str, make: Callable[[], Any]) -> Any:
        """Return what is kept under a name, made by `make` if nothing is."""
        with self._lock:
            kept = self._containers.setdefault(container, {})
            if name not in kept:
                kept[name] = make()
            return kept[name]

    def cell(
        self, container: str, name: str, shape: Shape, dtype: DType
    ) -> VariableState:
        """Return a variable; raises `InternalError` if it has another dtype."""
        cell = self.find(container, name, lambda: VariableState(name, shape, dtype))
        if not isinstance(cell, VariableState):
            raise InvalidArgumentError(f"{name!r} is a {type(cell).__name__} here.")
        if not cell.is_initialized and cell.dtype == dtype:
            cell.shape = shape  # until it has a value, the newest declaration counts
        if cell.dtype != dtype:
            raise InternalError(
                f"the variable {name!r} exists with the dtype {name_of(cell.dtype)}, "
                f"not {name_of(dtype)}; give yours another name."
            )
        return cell

    def clear(self, containers: Iterable[str] | None = None) -> None:
        """Forget all state of some containers, or of all."""
        with self._lock:
            names = list(self._containers if containers is None else containers)
            dropped = [self._containers.pop(name, {}) for name in names]
        for kept in dropped:  # without the lock: closing may take long
            for value in kept.values():
                if hasattr(value, "close"):
                    value.close()


# --------------------------------------------------------------------------------------
# Where the ops of one session keep what outlives a run, on one task.


class SessionState:
    """A session's state on a task: its variables, and what belongs to it alone.

    `store` is that of all sessions, or its own if it is isolated. A run keeps the state
    that it began with, so ops that run after the end of its session change nothing that
    others see.
    """

    def __init__(self, store: TaskState) -> None:
        self.store = store
        self._own: dict[str, Any] = {}
        self._lock = threading.Lock()

    def put(self, name: str, value: Any) -> None:
        """Keep something under a name, in place of what was there."""
        with self._lock:
            self._own[name] = value

    def own(self, name: str, make: Callable[[], Any]) -> Any:
        """Return what this session keeps under a name, made at the first use."""
        with self._lock:
            if name not in self._own:
                self._own[name] = make()
            return self._own[name]
