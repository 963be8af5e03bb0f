"""Ending runs from another thread without closing their session.

cancellation = Cancellation()
with cancellation.of_this_thread():     in the thread that runs
    session.run(fetches)                raises CancelledError
cancellation.cancel()                   in another thread
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Final, TypeVar

T = TypeVar("T")

#: The text of the error of a run when its session is closed.
CLOSED: Final = "the session was closed (Session::Close())."


class Cancellation:
    """Ends the runs of some threads, once and for all."""

    def __init__(self) -> None:
        self.is_cancelled = False
        self.calls: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    @contextmanager
    def of_this_thread(self) -> Iterator[None]:
        """Let `cancel` end runs that this thread begins in the block.

        So does that of a block around this one.
        """
        outer = _current.get()
        token = _current.set(self)
        try:
            with nullcontext() if outer is None else outer.during(self.cancel):
                yield
        finally:
            _current.reset(token)

    def cancel(self) -> None:
        """End the runs under way, and all that begin later, with `CancelledError`."""
        with self._lock:
            self.is_cancelled = True
            # Under the lock: once `during` is left, the link may be another run's.
            for call in self.calls:
                call()

    @contextmanager
    def during(self, call: Callable[[], None]) -> Iterator[None]:
        """Call back when this is cancelled during the block, or was before."""
        with self._lock:
            self.calls.append(call)
            is_late = self.is_cancelled
        try:
            if is_late:
                call()
            yield
        finally:
            with self._lock:
                self.calls.remove(call)


async def in_thread(call: Callable[[], T]) -> T:
    """Call in a thread; cancelling the wait cancels the runs that it makes there.

    A thread cannot be cancelled itself, and who ends the loop waits for it.
    """
    cancellation = Cancellation()

    def work() -> T:
        with cancellation.of_this_thread():
            return call()

    try:
        return await asyncio.to_thread(work)
    except asyncio.CancelledError:
        cancellation.cancel()
        raise


_current: ContextVar[Cancellation | None] = ContextVar("cancellation", default=None)


def current_cancellation() -> Cancellation | None:
    """Return what can cancel the runs of this thread; None if nothing can."""
    return _current.get()
