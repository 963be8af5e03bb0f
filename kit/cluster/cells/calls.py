"""Calls to tasks that end in time: with a result, an error, or the loss of the task.

All of it runs in the cluster's loop thread. It does not know how a call travels
(`submit` is an argument), nor how a loss is noticed (others call `lose`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from kit.cluster.cells import remote
from kit.cluster.cells.failures import ENDED, tells_of_an_end
from kit.errors import DeadlineExceededError, KitError, PeerLost, UnknownError
from kit.task import Task

# How long an error of the transport waits for news of the task's loss, which explains
# it better. ipyparallel may see an engine's end a moment before we do.
_NEWS_S = 1.0


class CallInterrupted(KeyboardInterrupt):
    """Ctrl-C or the stop button ended a call; so it did on the tasks."""


Submit = Callable[[Task, bytes], "Future[bytes]"]


class TaskCalls:
    """Runs packed calls on tasks; see `kit.cluster.cells.remote` for the packing."""

    def __init__(
        self, tasks: Iterable[Task], submit: Submit, news_s: float = _NEWS_S
    ) -> None:
        self._submit = submit
        self._news_s = news_s
        self._lost = {task: asyncio.Event() for task in tasks}
        self._errors: dict[Task, KitError] = {}

    def lose(self, task: Task, error: KitError) -> None:
        """Fail all calls to the task, those under way and those to come."""
        self._errors[task] = error
        self._lost.setdefault(task, asyncio.Event()).set()

    def check(self, task: Task) -> None:
        """Raise the error with which a task was lost, if it was."""
        if self._lost[task].is_set():
            lost = self._errors[task]
            # A new object each time: one object would collect all tracebacks.
            raise type(lost)(lost.message, task=str(task))

    def find_again(self, task: Task) -> None:
        """Let calls go to a lost task again: it has a new process."""
        self._lost[task] = asyncio.Event()
        self._errors.pop(task, None)

    async def perform(
        self,
        payloads: Mapping[Task, bytes],
        deadline_s: float,
        what: str,
        give_up: Callable[[list[Task]], None] = lambda _: None,
    ) -> dict[Task, Any]:
        """Run one call for each task; the first failure is raised.

        `what` completes "worker:1 did not ... within 5 s" in the error. If this is
        cancelled, `give_up` gets the tasks that have not answered yet.
        """
        if not payloads:  # which `asyncio.wait` refuses
            return {}
        calls = {t: asyncio.ensure_future(self._one(t, p)) for t, p in payloads.items()}
        try:
            done, _ = await asyncio.wait(
                calls.values(), timeout=deadline_s, return_when=asyncio.FIRST_EXCEPTION
            )
        except asyncio.CancelledError:
            give_up([task for task, call in calls.items() if not call.done()])
            # Their answers hold what they have printed, which is then shown.
            await asyncio.wait(calls.values(), timeout=self._news_s)
            raise
        finally:
            await cancel(*calls.values())
        values = {task: call.result() for task, call in calls.items() if call in done}
        late = [task for task in calls if task not in values]
        if late:
            raise _too_late(late, deadline_s, what)
        return values

    async def _one(self, task: Task, payload: bytes) -> Any:
        self.check(task)
        answer = follow(self._submit(task, payload))
        error = await self._answer_or_loss(task, answer)
        if error is None:
            return remote.unpack(answer.result(), str(task))
        self.check(task)
        raise _undelivered(task, error) from error

    async def _answer_or_loss(
        self, task: Task, answer: asyncio.Future[bytes]
    ) -> BaseException | None:
        """Wait for either; return the error, None for an answer."""
        lost = asyncio.ensure_future(self._lost[task].wait())
        either: set[asyncio.Future[Any]] = {answer, lost}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                return self._errors[task]
            error = answer.exception()
            if error is not None:  # see `_NEWS_S`
                await asyncio.wait([lost], timeout=self._news_s)
            return error
        finally:
            lost.cancel()


def follow(result: Future[bytes]) -> asyncio.Future[bytes]:
    """Return a future that ends with `result`, and never cancels it.

    ipyparallel sets its results regardless, which a cancelled one answers with an error
    in its own thread.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[bytes] = loop.create_future()

    def settle() -> None:
        if answer.done():
            return
        error = result.exception()
        if error is None:
            answer.set_result(result.result())
        else:
            answer.set_exception(error)
            answer.exception()  # marks it as seen: the call may have been given up

    def tell(_: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(settle)

    result.add_done_callback(tell)
    return answer


async def cancel(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks and wait for their end; those that are done stay as they are."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _undelivered(task: Task, error: BaseException) -> KitError:
    if tells_of_an_end(error):
        return PeerLost(
            f"{task.short} {ENDED}. Its state is lost; start it again with "
            f"cluster.restart({task.short!r}).",
            task=str(task),
        )
    return UnknownError(
        f"the call to {task.short} failed on its way: {type(error).__name__}: {error}. "
        f"cluster.status shows whether the task still lives.",
        task=str(task),
    )


def _too_late(late: list[Task], deadline_s: float, what: str) -> DeadlineExceededError:
    names = ", ".join(task.short for task in late)
    return DeadlineExceededError(
        f"{names} did not {what} within {deadline_s:g} s. It may still be at it: give "
        f"a longer deadline_s, or look with cluster.view({late[0].short!r}).",
        task=str(late[0]),
    )
