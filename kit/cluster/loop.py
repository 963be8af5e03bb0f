"""An event loop in a thread of its own, for callers with and without a loop.

Blocking calls work inside a running loop (a notebook cell) because the work runs over
here. A caller who gives up (Ctrl-C, a cancelled `await`) cancels the work and waits
until it has cleaned up behind itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

_CLEAN_UP_S = 30.0


class LoopThread:
    """A daemon thread that runs an asyncio loop until `close()`."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            asyncio.set_event_loop(None)
            self._loop.close()

    def submit(
        self, work: Coroutine[Any, Any, T], *, must_finish: bool = False
    ) -> Work[T]:
        """Start the coroutine over there; return a handle on it.

        `must_finish`: it goes on when the caller gives up (a stop, for example).
        """
        return Work(self._loop, work, must_finish)

    def close(self, timeout_s: float = _CLEAN_UP_S) -> None:
        """End the loop and its thread; a second call does nothing."""
        if not self._thread.is_alive():
            return
        with contextlib.suppress(RuntimeError):  # closed a moment ago
            self._loop.call_soon_threadsafe(self._loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout_s)


class Work(Future[T]):
    """A coroutine at work in another thread; done when it has really ended.

    `asyncio.run_coroutine_threadsafe` calls a cancelled future done at once; this one
    is done when the coroutine has finished its `finally` blocks.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        work: Coroutine[Any, Any, T],
        must_finish: bool,
    ) -> None:
        super().__init__()
        self._must_finish = must_finish
        self._home = loop
        self._task: asyncio.Task[None] | None = None
        self._is_given_up = False
        loop.call_soon_threadsafe(self._begin, work)

    def _begin(self, work: Coroutine[Any, Any, T]) -> None:
        self._task = self._home.create_task(self._follow(work))
        if self._is_given_up:
            # Let it take its first step: before it, there is no `finally` to run.
            self._home.call_soon(self._task.cancel)

    async def _follow(self, work: Coroutine[Any, Any, T]) -> None:
        try:
            self.set_result(await work)
        except BaseException as error:  # it is raised again where the caller waits
            self.set_exception(error)

    def give_up(self) -> None:
        """Cancel the work unless it must finish; it is done when it has cleaned up."""
        if self._must_finish:
            return
        self._is_given_up = True
        if self._task is not None:
            self._home.call_soon_threadsafe(self._task.cancel)

    def result(self, timeout: float | None = None) -> T:
        """Block for the result; Ctrl-C gives the work up, waits, and is raised."""
        try:
            return super().result(timeout)
        except KeyboardInterrupt:
            self.give_up()
            self.exception(_CLEAN_UP_S)
            raise

    async def awaited(self) -> T:
        """Await the result; being cancelled gives the work up and waits for that."""
        future = asyncio.wrap_future(self)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            if not future.done():
                self.give_up()
                await asyncio.wait([future], timeout=_CLEAN_UP_S)
            if future.done() and not future.cancelled():
                future.exception()  # known, and less important than the cancellation
            raise


async def in_thread(
    make: Callable[[], T],
    *,
    name: str,
    undo: Callable[[T], object],
    patience_s: float,
) -> T:
    """Run what blocks in a thread of its own; cancelled, it still waits for its end.

    What was made for nobody, because the waiter was cancelled, is handed to `undo`. Not
    the loop's executor: that one starts a thread when the loop closes, which is
    impossible at the interpreter's exit.
    """
    future: Future[T] = Future()

    def work() -> None:
        try:
            future.set_result(make())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, name=name, daemon=True).start()
    waiter = asyncio.wrap_future(future)
    try:
        return await asyncio.shield(waiter)
    except asyncio.CancelledError:
        await asyncio.wait([waiter], timeout=patience_s)
        if waiter.done() and waiter.exception() is None:
            undo(waiter.result())
        raise
