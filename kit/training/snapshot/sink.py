"""A sink of snapshots: takes shards between the steps, passes them on beside them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from kit.training.member.context import MemberContext
from kit.training.member.step_events import StepObserver
from kit.training.snapshot.shard import writers_of


class Sink(StepObserver):
    """One use of a member's shards, with a thread that passes them on."""

    def __init__(self, context: MemberContext, name: str) -> None:
        """Begin the thread, whose name says what the sink is."""
        self._context = context
        self._to_do = queue.SimpleQueue[Callable[[], None] | None]()
        self._thread = threading.Thread(
            target=self._work, name=f"kit-{name}-{context.task.short}", daemon=True
        )
        self._thread.start()

    def take_part(self, step: int, boundary: int) -> None:
        """Take this member's shard before `step`, as was agreed at a boundary.

        In the thread of the steps.
        """
        raise NotImplementedError

    def writers(self, others: Iterable[int]) -> tuple[int, ...]:
        """Return whose shards make the whole: of all that own something, and others."""
        context = self._context
        first = writers_of(context.owners, context.job.coordinator)
        return tuple(sorted({*first, *others}))

    def beside(self, do: Callable[..., None], *values: Any) -> None:
        """Have something done in the sink's own thread."""
        self._to_do.put(partial(do, *values))

    def close(self) -> None:
        """End the thread when all is done; does not wait for it."""
        self._to_do.put(None)

    def _work(self) -> None:
        while (do := self._to_do.get()) is not None:
            do()
