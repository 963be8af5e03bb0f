"""The smallest training: a variable and a global step that both count the runs."""

from __future__ import annotations

from typing import Any

from kit import tf1 as tf


def counting(ps: str = "/job:ps/task:0") -> tuple[Any, Any]:
    """Add the variable, the global step, and what counts both, to the graph.

    Returns the variable and the operation.
    """
    with tf.device(ps):
        total = tf.Variable(100.0, name="total")
        step = tf.train.get_or_create_global_step()
    with tf.control_dependencies([total.assign_add(1.0)]):
        count = step.assign_add(1)
    return total, count


class Told(tf.train.SessionRunHook):  # type: ignore[misc]
    """Keeps which of its methods were called."""

    def __init__(self, name: str = "", book: list[str] | None = None) -> None:
        self.book: list[str] = [] if book is None else book
        self._name = f"{name}." if name else ""

    def begin(self) -> None:
        self.book.append(f"{self._name}begin")

    def after_create_session(self, session: Any, coord: Any) -> None:
        self.book.append(f"{self._name}created")

    def before_run(self, run_context: Any) -> None:
        self.book.append(f"{self._name}before")

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.book.append(f"{self._name}after")

    def end(self, session: Any) -> None:
        self.book.append(f"{self._name}end")
