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

from kit.errors import CancelledError, FailedPreconditionError
from kit.waking import waking

T = TypeVar("T")

_CLEAN_UP_S = 30.0


class LoopThread:
    """A daemon thread that runs an asyncio loop until `close()`."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # there may be no further thread
            self._loop.close()
            raise

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._end_what_is_left()
        finally:
            asyncio.set_event_loop(None)
            self._loop.close()

    def _end_what_is_left(self) -> None:
        # A caller would wait for it for ever: its deadlines end with the loop.
        while left := asyncio.all_tasks(self._loop):
            # Let each take its first step: before it, there is no `finally` to run.
            self._loop.run_until_complete(asyncio.sleep(0))
            for task in left:
                task.cancel()
            ended = asyncio.gather(*left, return_exceptions=True)
            self._loop.run_until_complete(ended)

    def submit(
        self, work: Coroutine[Any, Any, T], *, must_finish: bool = False
    ) -> LoopTask[T]:
        """Start the coroutine over there; return a handle on it.

        `must_finish`: it goes on when the caller gives up (a stop, for example).
        Raises `FailedPreconditionError` after `close`.
        """
        with self._lock:
            if not self._is_closed:
                return LoopTask(self._loop, work, must_finish)
        work.close()
        raise FailedPreconditionError(
            "the cluster was stopped a moment ago; start a new one and do it there."
        )

    def close(self, timeout_s: float = _CLEAN_UP_S) -> None:
        """End the loop, what is at work in it, and its thread; waits for that.

        Work in the loop may call it too, as its last act, and does not wait.
        """
        if not self._thread.is_alive():
            return
        with self._lock:
            # Once: a second stop would interrupt the end of what is left.
            if not self._is_closed:
                self._is_closed = True
                self._loop.call_soon_threadsafe(self._loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout_s)


class LoopTask(Future[T]):
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
        self.set_running_or_notify_cancel()  # who waits for it does not cancel it
        self._must_finish = must_finish
        self._home = loop
        self._task: asyncio.Task[None] | None = None
        self._is_given_up = False
        loop.call_soon_threadsafe(self._begin, work)

    def _begin(self, work: Coroutine[Any, Any, T]) -> None:
        self._task = self._home.create_task(self._follow(work))

    async def _follow(self, work: Coroutine[Any, Any, T]) -> None:
        try:
            self.set_result(await work)
        except asyncio.CancelledError as error:
            self.set_exception(error if self._is_given_up else _stopped())
        except BaseException as error:  # it is raised again where the caller waits
            self.set_exception(error)

    def give_up(self) -> None:
        """Cancel the work unless it must finish; it is done when it has cleaned up."""
        if not self._must_finish:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and so has it
                self._home.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        assert self._task is not None, "it was begun before it was given up"
        # Once: a second time would interrupt the clean-up that the first one began.
        if not self._is_given_up:
            self._is_given_up = True
            # Let it take its first step: before it, there is no `finally` to run.
            self._home.call_soon(self._task.cancel)

    def result(self, timeout: float | None = None) -> T:
        """Block for the result; Ctrl-C gives the work up, waits, and is raised."""
        try:
            return super().result(timeout)
        except KeyboardInterrupt:
            self.give_up()
            with contextlib.suppress(TimeoutError):
                self.exception(_CLEAN_UP_S)
            raise

    async def over(self, timeout_s: float) -> None:
        """Wait until it is done, whatever it brings, or the time is up."""
        future = asyncio.wrap_future(self)
        await asyncio.wait([future], timeout=timeout_s)
        if future.done():
            future.exception()  # it is raised where the result is asked for

    async def awaited(self) -> T:
        """Await the result; being cancelled gives the work up and waits for that."""
        try:
            return await waking(asyncio.wrap_future(self))
        except asyncio.CancelledError:
            if not self.done():
                self.give_up()
                await self.over(_CLEAN_UP_S)
            raise


def _stopped() -> CancelledError:
    return CancelledError(
        "the cluster was stopped before this was done; start a new one and do it there."
    )


async def to_the_end(work: Coroutine[Any, Any, object]) -> None:
    """Await a clean-up; who is cancelled meanwhile hears of it when it is done."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


async def in_thread(
    make: Callable[[], T],
    *,
    name: str,
    undo: Callable[[T], object],
    patience_s: float,
) -> T:
    """Run what blocks in a thread of its own; cancelled, it waits a while for its end.

    What was made for nobody, because the waiter was cancelled, is handed to `undo`. Not
    the loop's executor: that one starts a thread when the loop closes, which is
    impossible at the interpreter's exit.
    """
    future: Future[T] = Future()

    def work() -> None:
        try:
            value = make()
        except BaseException as error:
            if future.set_running_or_notify_cancel():
                future.set_exception(error)
            return
        if future.set_running_or_notify_cancel():
            future.set_result(value)
        else:
            undo(value)

    threading.Thread(target=work, name=name, daemon=True).start()
    waiter = asyncio.wrap_future(future)
    try:
        return await asyncio.shield(waiter)
    except asyncio.CancelledError:
        try:
            await asyncio.wait([waiter], timeout=patience_s)
        finally:
            # From here on, the thread itself undoes what it makes.
            if not future.cancel() and future.exception() is None:
                undo(future.result())
        raise
