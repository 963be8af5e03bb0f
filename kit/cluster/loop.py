"""An event loop in another thread, for callers with and without a loop.

Blocking calls work inside a running loop (a notebook cell) because the work runs in the
other one. A caller that gives up (Ctrl-C, a cancelled `await`) cancels the work and
waits until it has cleaned up behind itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from concurrent.futures import Future
from typing import Any, TypeVar

from kit.errors import CancelledError, FailedPreconditionError
from kit.waking import waking

T = TypeVar("T")

_CLEAN_UP_S = 30.0
_WORKER = "kit-cluster-worker"


class LoopThread:
    """A daemon thread that runs an asyncio loop until `close()`."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # the system allows no more threads
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
        # Otherwise their callers would wait for ever: deadlines end with the loop.
        while left := asyncio.all_tasks(self._loop):
            # Let each take its first step: a coroutine that is cancelled before it runs
            # none of its `finally` blocks.
            self._loop.run_until_complete(asyncio.sleep(0))
            for task in left:
                task.cancel()
            ended = asyncio.gather(*left, return_exceptions=True)
            self._loop.run_until_complete(ended)

    def submit(
        self, work: Coroutine[Any, Any, T], *, must_finish: bool = False
    ) -> LoopTask[T]:
        """Start a coroutine in the loop; return a handle on it.

        With `must_finish` it goes on when the caller gives up (a stop, for example).
        Raises `FailedPreconditionError` after `close`.
        """
        # Under the lock: `close` ends what is submitted before it, and only that.
        with self._lock:
            if not self._is_closed:
                return LoopTask(self._loop, work, must_finish)
        work.close()
        raise FailedPreconditionError(
            "the cluster was stopped a moment ago; start a new one and do it there."
        )

    def close(self, timeout_s: float = _CLEAN_UP_S) -> None:
        """End the loop, the work in it, and its thread; waits for that.

        Work in the loop may call it too, as its last act, and does not wait then.
        """
        if not self._thread.is_alive():
            return
        with self._lock:
            # Once: a second stop would interrupt `_end_what_is_left`.
            if not self._is_closed:
                self._is_closed = True
                self._loop.call_soon_threadsafe(self._loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout_s)


class LoopTask(Future[T]):
    """A coroutine that runs in another thread; done when it has really ended.

    With `asyncio.run_coroutine_threadsafe` a cancelled future is done at once; this one
    is done when the coroutine has finished its `finally` blocks.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        work: Coroutine[Any, Any, T],
        must_finish: bool,
    ) -> None:
        super().__init__()
        # So that a cancelled wait (`asyncio.wrap_future`) does not cancel the work.
        self.set_running_or_notify_cancel()
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
        except BaseException as error:  # raised again where the caller waits
            self.set_exception(error)

    def give_up(self) -> None:
        """Cancel the work unless it must finish; done when it has cleaned up."""
        if not self._must_finish:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and so has it
                self._home.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        assert self._task is not None, "it was begun before it was given up"
        # Once: a second time would interrupt the clean-up that the first one began.
        if not self._is_given_up:
            self._is_given_up = True
            # After its first step; see `_end_what_is_left`.
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

    async def awaited(self) -> T:
        """Await the result; being cancelled gives the work up and waits for that."""
        future = asyncio.wrap_future(self)
        try:
            return await waking(future)
        except asyncio.CancelledError:
            self.give_up()
            await asyncio.wait([future], timeout=_CLEAN_UP_S)
            if future.done():
                future.exception()  # marks it as seen
            raise

    def __await__(self) -> Generator[Any, None, T]:
        """Await the result, as `awaited` does."""
        return self.awaited().__await__()


def _stopped() -> CancelledError:
    return CancelledError(
        "the cluster was stopped before this was done; start a new one and do it there."
    )


async def to_the_end(work: Coroutine[Any, Any, object]) -> None:
    """Await a clean-up to its end; being cancelled meanwhile takes effect after it."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


async def gather(works: Iterable[Awaitable[T]]) -> list[T]:
    """Await all to their ends; then return their results, or raise the first error.

    `asyncio.gather` raises it at once, and the others go on with nobody to wait for
    them.
    """
    ended = await asyncio.gather(*works, return_exceptions=True)
    results = []
    for result in ended:
        if isinstance(result, BaseException):
            raise result
        results.append(result)
    return results


async def in_thread(
    make: Callable[[], T],
    *,
    undo: Callable[[T], object] = lambda _: None,
    patience_s: float = 1.0,
) -> T:
    """Run a blocking function in a new thread; if cancelled, wait a while for its end.

    Its result goes to `undo` if the waiter was cancelled. It does not use the loop's
    executor, which starts a thread when the loop closes: that is impossible while the
    interpreter exits.
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

    threading.Thread(target=work, name=_WORKER, daemon=True).start()
    waiter = asyncio.wrap_future(future)
    try:
        return await asyncio.shield(waiter)
    except asyncio.CancelledError:
        try:
            await asyncio.wait([waiter], timeout=patience_s)
            if waiter.done():
                waiter.exception()  # marks it as seen: the waiter has gone
        finally:
            # Either the cancel wins, and the thread calls `undo` itself, or the result
            # is there already. The future's own lock decides, so it is never both.
            if not future.cancel() and future.exception() is None:
                undo(future.result())
        raise
