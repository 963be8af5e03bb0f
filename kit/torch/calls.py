"""Calls of a process group, carried out in order, and what torch waits for.

A call that torch waits for at once runs in the thread that waits, where Interrupt ends
it and errors have their line. One that was begun with `async_op=True` runs in a thread
of the group unless somebody waits for it first.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any
from weakref import ref

import torch
import torch.distributed as dist

from kit.errors import KitError
from kit.groups import scope
from kit.groups.group import TaskGroup

_LOOK_S = 0.05
_IDLE_S = 2.0  # a thread with nothing to do for so long ends


class Call:
    """Something to do, once."""

    def __init__(self, act: Callable[[], None], tensors: Sequence[Any]) -> None:
        self.act: Callable[[], None] | None = act
        self.tensors = tensors
        self.where = scope.caller(sys._getframe(1))
        self.error: BaseException | None = None
        self.done = False

    def run(self) -> None:
        """Do it, in any thread; errors are kept."""
        assert self.act is not None
        try:
            with scope.on_behalf(self.where):
                self.act()
        except BaseException as error:
            self.error = error
        self.act = None  # it holds the tensors
        self.done = True


class CallQueue:
    """The calls of one group that were begun and not finished."""

    def __init__(self, group: TaskGroup) -> None:
        self._group = group
        self._waiting: deque[Call] = deque()
        self._changed = threading.Condition()
        self._is_running = self._has_thread = False

    def begin(self, call: Call, *, is_waited_for: bool) -> None:
        """Add a call; unless it is waited for at once, a thread may carry it out."""
        with self._changed:
            self._waiting.append(call)
            if is_waited_for:
                return
            self._changed.notify_all()
            if self._has_thread:
                return
            self._has_thread = True
        threading.Thread(
            target=_serve, args=(ref(self),), name="kit-torch-calls", daemon=True
        ).start()

    def finish(self, call: Call) -> None:
        """Return when a call is done; raises its error."""
        while not call.done:
            with self._changed:
                following = self._maybe_next()
                if following is None and not call.done:
                    try:
                        self._changed.wait(_LOOK_S)
                    except KeyboardInterrupt:
                        self._group._end_calls(f"was interrupted in {call.where}")
                        raise
            if following is not None:
                self._run(following)
                if isinstance(following.error, KeyboardInterrupt):
                    raise following.error
        if call.error is not None:
            raise call.error

    def serve(self) -> bool:
        """Carry out the next call; whether to go on. For a thread of its own."""
        with self._changed:
            following = self._maybe_next()
            if following is None:
                is_stirred = self._changed.wait(_IDLE_S)
                self._has_thread = is_stirred or bool(self._waiting)
                return self._has_thread
        self._run(following)
        return True

    def _maybe_next(self) -> Call | None:
        if self._is_running or not self._waiting:
            return None
        self._is_running = True
        return self._waiting.popleft()

    def _run(self, call: Call) -> None:
        call.run()
        with self._changed:
            self._is_running = False
            self._changed.notify_all()


def _serve(queue: ref[CallQueue]) -> None:
    while (work := queue()) is not None and work.serve():
        del work  # so that a group that nobody holds any more can go


class CallWork(dist.Work):  # type: ignore[misc]
    """What torch gets for a call: to wait for, or as a future."""

    def __init__(self, queue: CallQueue, call: Call) -> None:
        super().__init__()
        self._queue, self._call = queue, call
        self._future: Any = None

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Return when it is done; raises what has failed."""
        self._queue.finish(self._call)
        return True

    def synchronize(self) -> None:
        """Wait."""
        self.wait()

    def get_future(self) -> Any:
        """Return a future that is done.

        torch would wait for another one in C++, where nothing can end that.
        """
        if self._future is None:
            self.wait()
            self._future = torch.futures.Future()
            self._future.set_result(list(self._call.tensors))
        return self._future

    def is_completed(self) -> bool:
        """Whether it is done, well or not."""
        return self._call.done

    def is_success(self) -> bool:
        """Whether it has ended well."""
        return self.is_completed() and self._call.error is None

    def exception(self) -> BaseException | None:
        """Return what has failed."""
        return self._call.error

    def result(self) -> list[Any]:
        """Return the tensors with the results."""
        self.wait()
        return list(self._call.tensors)


class MessageWork(dist.Work):  # type: ignore[misc]
    """A message that was begun to be sent, or will be received."""

    def __init__(
        self,
        finish: Callable[[], int],
        is_done: Callable[[], bool],
        tensors: Sequence[Any],
    ) -> None:
        super().__init__()
        self._finish, self._is_done, self._tensors = finish, is_done, tensors
        self._source: int | None = None
        self._error: KitError | None = None

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Return when it is done; raises what has failed."""
        if self._source is None:
            try:
                self._source = self._finish()
            except KitError as error:
                self._error = error
                raise
        return True

    def synchronize(self) -> None:
        """Wait."""
        self.wait()

    def get_future(self) -> Any:
        """Wait, and return a future that is done."""
        self.wait()
        future: Any = torch.futures.Future()
        future.set_result(list(self._tensors))
        return future

    def is_completed(self) -> bool:
        """Whether `wait` would return at once."""
        return self._source is not None or self._is_done()

    def is_success(self) -> bool:
        """Whether it has ended well."""
        return self._source is not None

    def exception(self) -> BaseException | None:
        """Return what has failed."""
        return self._error

    def result(self) -> list[Any]:
        """Return the tensors."""
        self.wait()
        return list(self._tensors)

    def source_rank(self) -> int:
        """Return the rank that it came from."""
        self.wait()
        assert self._source is not None
        return self._source

    _source_rank = source_rank
