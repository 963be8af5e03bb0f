"""What an exception inside an op becomes: a typed error with op, place and task.

Pure. Errors of this package keep their class; numpy's and Python's own become the code
that the original uses for them.
"""

from __future__ import annotations

import traceback
from typing import Any

from kit.errors import (
    InvalidArgumentError,
    KitError,
    OutOfRangeError,
    ResourceExhaustedError,
    UnimplementedError,
    UnknownError,
)
from kit.graph.node import Node
from kit.task import Task

_CLASSES: list[tuple[type[Exception], type[KitError]]] = [
    (MemoryError, ResourceExhaustedError),
    (NotImplementedError, UnimplementedError),
    (StopIteration, OutOfRangeError),
    (ValueError, InvalidArgumentError),
    (TypeError, InvalidArgumentError),
    (LookupError, InvalidArgumentError),
    (ArithmeticError, InvalidArgumentError),
]


def of_node(exc: Exception, node: Node | None, device: str, task: Task) -> KitError:
    """Return the error to raise for an exception of one node on one task."""
    where = f"on {device or task}"
    name = node.name if node else None
    what = f"op {node.name!r} ({node.type}) {where}" if node else f"a transfer {where}"
    place = f"\nThe op was made at {node.place}." if node and node.place else ""
    if isinstance(exc, KitError):
        if exc.task is not None:  # it says where it happened already
            exc.node = exc.node or name
            return exc
        error: KitError = type(exc)(f"{what}: {exc.message}{place}", task=str(task))
        error.remote_traceback = exc.remote_traceback
    else:
        error = _class_of(exc)(f"{what}: {_words(exc)}{place}", task=str(task))
        if node is not None and node.type == "PyFunc":
            error.remote_traceback = "".join(traceback.format_exception(exc))
    error.node = name
    return error


def _class_of(exc: Exception) -> type[KitError]:
    for kind, ours in _CLASSES:
        if isinstance(exc, kind):
            return ours
    return UnknownError


def _words(exc: Any) -> str:
    return f"{type(exc).__name__}: {exc}"
