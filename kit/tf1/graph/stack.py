"""Stacks of defaults, such as the default graph: each thread has its own.

A notebook may run each cell in a separate context, but in one thread: what an
interactive session installs in one cell must still be there in the next. That is why
these stacks belong to threads and not to contexts.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class DefaultStack(threading.local, Generic[T]):
    """The defaults of a thread, the innermost last."""

    def __init__(self) -> None:
        self._stack: list[T] = []

    def top(self) -> T | None:
        """Return the innermost, None if there is none."""
        return self._stack[-1] if self._stack else None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is installed."""
        return not self._stack

    def push(self, item: T) -> None:
        """Install one more."""
        self._stack.append(item)

    def remove(self, item: T) -> None:
        """Uninstall one, wherever it is in the stack; do nothing if it is not there."""
        for at in range(len(self._stack) - 1, -1, -1):
            if self._stack[at] is item:
                del self._stack[at]
                return

    @contextmanager
    def installed(self, item: T) -> Iterator[Any]:
        """Install `item` for a block.

        Raises `AssertionError`, as the original does, when the block is left while
        another one is innermost.
        """
        self.push(item)
        try:
            yield item
        finally:
            in_order = self.top() is item
            self.remove(item)
            if not in_order:
                raise AssertionError(
                    f"Nesting violated: {item!r} was left while another was the "
                    f"default; leave the inner block first."
                )
