"""A queue on its task: elements that wait to be taken, in order.

It is found by container and name like a variable, and shared by all sessions. An
element is a tuple of arrays, one for each component.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from kit.errors import CancelledError, InvalidArgumentError, OutOfRangeError
from kit.graph.dtypes import Array, DType
from kit.graph.static import Shape, agrees, text

Element = tuple[Array, ...]


class CanWait(Protocol):
    """Something that can wait: the call of a stateful op."""

    def wait(
        self, ready: Callable[[], bool], changed: Any, what: Callable[[], str]
    ) -> None:
        """Wait on a condition that is held; see `StepCall`."""


@contextmanager
def turn(waiting: deque[object], changed: threading.Condition) -> Iterator[object]:
    """Join the end of a line for the time of a block; the condition is held."""
    me = object()
    waiting.append(me)
    try:
        yield me
    finally:
        waiting.remove(me)
        changed.notify_all()


class FifoQueue:
    """At most `capacity` elements, without bound if that is negative."""

    pads = False

    def __init__(
        self,
        name: str,
        capacity: int,
        dtypes: Sequence[DType],
        shapes: Sequence[Shape] | None,
    ) -> None:
        self.name, self.capacity = name, capacity
        self.dtypes, self.shapes = tuple(dtypes), shapes
        self._elements: deque[Element] = deque()
        # Calls that wait to take elements, and calls that wait to put some in or to
        # close the queue; each in order.
        self.takers, self.putters = deque[object](), deque[object]()
        self._is_closed = False
        self._cancels = False
        self._changed = threading.Condition()

    @property
    def size(self) -> int:
        """How many elements are in the queue."""
        return len(self._elements)

    @property
    def is_closed(self) -> bool:
        """Whether nothing may be put in any more."""
        return self._is_closed

    def enqueue(self, call: CanWait, elements: Sequence[Element]) -> None:
        """Put elements in, one after the other; waits while the queue is full.

        The first call that waits puts in first. Raises `CancelledError` when the queue
        is closed, `InvalidArgumentError` for another shape than the queue's.
        """
        for element in elements:
            self._check_shape(element)
        with self._changed, turn(self.putters, self._changed) as me:
            self._await_turn(call, me)
            if self._is_closed:
                raise CancelledError(f"the queue {self.name!r} is closed.")
            for element in elements:
                call.wait(self._has_room, self._changed, self._lacking_room)
                if self._cancels:
                    raise CancelledError(f"the queue {self.name!r} was closed.")
                self._elements.append(element)
                self._changed.notify_all()

    def dequeue(self, call: CanWait, n: int, *, at_most: bool = False) -> list[Element]:
        """Take `n` elements; waits until they are there.

        The first call that waits is served first, and takes elements as they come, so
        `n` may exceed the capacity. From a closed queue with fewer, `at_most` takes
        what there is, if anything. Else raises `OutOfRangeError`, and nothing is taken.
        """
        if n < 0:
            raise InvalidArgumentError(
                f"{n} elements of the queue {self.name!r} were asked for."
            )
        elements = list[Element]()
        with self._changed, turn(self.takers, self._changed) as me:
            try:
                while len(elements) < n and self._await_some(
                    call, me, n, len(elements)
                ):
                    self._move(elements, n)
                here = len(elements) + self.size
                if len(elements) < n and not (at_most and here):
                    raise OutOfRangeError(
                        f"the queue {self.name!r} is closed and has insufficient "
                        f"elements (requested {n}, current size {here})."
                    )
                self._move(elements, n)
            except BaseException:
                # Also when the run is cancelled: others take them in their old order.
                self._elements.extendleft(reversed(elements))
                raise
        return elements

    def _await_some(self, call: CanWait, me: object, n: int, n_taken: int) -> bool:
        """Wait for our turn and an element; return whether `n` may still be reached."""
        call.wait(
            lambda: self.takers[0] is me and bool(self._n_free or self._is_closed),
            self._changed,
            lambda: self._lacking(n, n_taken + self.size),
        )
        return not self._is_closed or n_taken + self.size >= n

    def _move(self, elements: list[Element], n: int) -> None:
        while self._n_free and len(elements) < n:
            elements.append(self._next())
        self._changed.notify_all()

    @property
    def _n_free(self) -> int:
        """How many elements may be taken now."""
        return self.size

    def _next(self) -> Element:
        return self._elements.popleft()

    def end(self, call: CanWait, *, cancel_pending: bool) -> None:
        """Accept no more elements; those that are there can still be taken.

        Calls that wait for room come first, or are ended, if `cancel_pending`. Raises
        `CancelledError` the second time.
        """
        with self._changed:
            if not cancel_pending:
                with turn(self.putters, self._changed) as me:
                    self._await_turn(call, me)
            if self._is_closed and (self._cancels or not cancel_pending):
                raise CancelledError(f"the queue {self.name!r} is already closed.")
            self._is_closed = True
            self._cancels = cancel_pending
            self._changed.notify_all()

    def _await_turn(self, call: CanWait, me: object) -> None:
        """Wait until all earlier calls have put in their elements, or are cancelled."""
        call.wait(
            lambda: self.putters[0] is me or self._cancels,
            self._changed,
            lambda: f"the end of others that put elements into queue `{self.name}`",
        )

    def check(
        self,
        kind: type[FifoQueue],
        capacity: int,
        dtypes: Sequence[DType],
        shapes: Sequence[Shape] | None,
    ) -> None:
        """Raise `InvalidArgumentError` unless the queue was made with the same."""
        ours = type(self), self.capacity, self.dtypes, self.shapes
        if ours != (kind, capacity, tuple(dtypes), shapes):
            raise InvalidArgumentError(
                f"the queue {self.name!r} exists as a {type(self).__name__} with "
                f"capacity {self.capacity} and the components "
                f"{[str(dtype) for dtype in self.dtypes]}, not with what is asked for "
                f"here; give yours another name."
            )

    def _has_room(self) -> bool:
        is_bounded = self.capacity >= 0
        return self._cancels or not is_bounded or self.size < self.capacity

    def _lacking_room(self) -> str:
        return f"room in queue `{self.name}`"

    def _lacking(self, n: int, n_here: int) -> str:
        if n == 1:
            return f"an element in queue `{self.name}`"
        return f"elements in queue `{self.name}` ({n_here} of {n} are there)"

    def _check_shape(self, element: Element) -> None:
        for number, part in enumerate(element):
            if self.shapes is not None and not agrees(self.shapes[number], part.shape):
                raise InvalidArgumentError(
                    f"component {number} of the queue {self.name!r} has the shape "
                    f"{text(self.shapes[number])}, not {text(part.shape)}."
                )


class PaddingQueue(FifoQueue):
    """Elements that are taken together may differ in size: the shorter are padded."""

    pads = True


class ShuffleQueue(FifoQueue):
    """Gives its elements in random order, and keeps some back to have a choice."""

    def __init__(
        self,
        name: str,
        capacity: int,
        dtypes: Sequence[DType],
        shapes: Sequence[Shape] | None,
        n_kept: int,
        seeds: Sequence[int],
    ) -> None:
        """`n_kept` elements stay in it until it is closed."""
        super().__init__(name, capacity, dtypes, shapes)
        self._n_kept = n_kept
        self._draws = np.random.default_rng([abs(int(seed)) for seed in seeds])

    @property
    def _n_free(self) -> int:
        return self.size if self._is_closed else max(0, self.size - self._n_kept)

    def _next(self) -> Element:
        chosen = int(self._draws.integers(self.size))
        self._elements[0], self._elements[chosen] = (
            self._elements[chosen],
            self._elements[0],
        )
        return self._elements.popleft()


def stacked(elements: Sequence[Element], queue: FifoQueue) -> tuple[Array, ...]:
    """Return elements as one array for each component, with a new first axis."""
    if elements:
        stack = _padded if queue.pads else np.stack
        return tuple(stack(parts) for parts in zip(*elements, strict=True))
    shapes = queue.shapes or [()] * len(queue.dtypes)
    return tuple(
        np.zeros((0, *(size or 0 for size in shape or ())), dtype)
        for shape, dtype in zip(shapes, queue.dtypes, strict=True)
    )


def _padded(parts: Sequence[Array]) -> Array:
    """Return arrays as one, where they are shorter than the longest with zeros."""
    sizes = tuple(map(max, zip(*[part.shape for part in parts], strict=True)))
    empty = b"" if parts[0].dtype == object else 0
    padded = np.full((len(parts), *sizes), empty, parts[0].dtype)
    for row, array in enumerate(parts):
        where: Any = (row, *map(slice, array.shape))
        padded[where] = array[()]
    return padded
