"""`tf.contrib.staging`: elements that wait on a device until a step takes them."""

from __future__ import annotations

from typing import Any

from kit.tf1.not_offered import refusing
from kit.tf1.queues import FIFOQueue

_UNLIMITED = 2**31 - 1


class StagingArea:
    """A queue of which a step takes what an earlier one has put.

    It lives on the device on which it was made. `capacity` is the most that wait, 0 for
    any number; `memory_limit` is not taken.
    """

    def __init__(
        self,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        capacity: int = 0,
        memory_limit: int = 0,
    ) -> None:
        if memory_limit:
            raise ValueError("memory_limit is not taken; give capacity.")
        how = {"shapes": shapes, "names": names, "shared_name": shared_name}
        self._queue = FIFOQueue(
            capacity or _UNLIMITED, dtypes, **how, name="StagingArea"
        )

    @property
    def name(self) -> str:
        """The name of the operation that is the area."""
        return self._queue.name

    @property
    def dtypes(self) -> list[Any]:
        """The dtypes of the components."""
        return self._queue.dtypes

    @property
    def shapes(self) -> list[Any]:
        """The shapes of the components, as far as they are known."""
        return self._queue.shapes

    @property
    def names(self) -> list[str] | None:
        """The names of the components, if they have any."""
        return self._queue.names

    def put(self, values: Any, name: str | None = None) -> Any:
        """Return the operation that adds an element; it waits while there is no room.

        `values` is a tensor, a list of them, or a dict where components have names.
        """
        return self._queue.enqueue(values, name)

    def get(self, name: str | None = None) -> Any:
        """Take the oldest element, or wait for one; return its components.

        A list, or a dict where components have names.
        """
        element = self._queue.dequeue(name)
        return element if isinstance(element, dict | list) else [element]

    def size(self, name: str | None = None) -> Any:
        """Return how many elements wait."""
        return self._queue.size(name)


__getattr__ = refusing("contrib.staging")
