"""The threads of one queue runner in one session, and how they end.

one for each operation      runs it again and again
close_on_stop               waits for the coordinator, closes the queue, and ends
                            the runs that wait for something else
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from kit.session.client.cancelling import Cancellation
from kit.tf1 import logging
from kit.tf1.session.config import RunOptions
from kit.tf1.train.queues.coordinator import Coordinator

# A full queue is no failure, so the wait of a run in the background is a very long one.
_PATIENCE_MS = 7 * 24 * 3600 * 1000
# What closes the queue shall not wait long for a task that has died.
_CLOSE_MS = 5_000
# A run that works and does not wait is to come to its own end.
_GRACE_S = 0.5


class QueueThreads:
    """What `runner` does in the background of one session."""

    def __init__(
        self,
        runner: Any,
        session: Any,
        coord: Coordinator | None,
        keep: Callable[[Exception], None],
    ) -> None:
        """`keep` is told of the errors that there is no coordinator for."""
        self._runner, self._coord, self._keep = runner, coord, keep
        self._session = session
        self.n_left = len(runner.enqueue_ops)
        self._all_done = threading.Event()
        self._lock = threading.Lock()
        self._cancellation = Cancellation()

    def make(self) -> list[threading.Thread]:
        """Return the threads, which nobody has started."""
        name = f"QueueRunnerThread-{self._runner.name}"
        made = [
            threading.Thread(target=self._repeat, args=(op,), name=f"{name}-{op.name}")
            for op in self._runner.enqueue_ops
        ]
        if self._coord is not None:
            made.append(
                threading.Thread(
                    target=self._close_on_stop, name=f"{name}-close_on_stop"
                )
            )
        return made

    def _repeat(self, op: Any) -> None:
        try:
            with self._cancellation.of_this_thread():
                while self._coord is None or not self._coord.should_stop():
                    self._session.run(op, options=self._options())
        except self._runner.queue_closed_exception_types:
            self._leave(at_end=True)
            return
        except Exception as error:
            if self._coord is None:
                self._keep(error)
            else:
                self._coord.request_stop(error)
        self._leave(at_end=False)

    def _options(self) -> RunOptions | None:
        config = getattr(self._session, "_config", None)
        if config is not None and config.operation_timeout_in_ms > 0:
            return None  # the session says how long
        return RunOptions(timeout_in_ms=_PATIENCE_MS)

    def _leave(self, *, at_end: bool) -> None:
        with self._lock:
            self.n_left -= 1
            is_last = self.n_left == 0
        try:
            if at_end and is_last:
                self._quietly(self._runner.close_op)
        finally:
            if is_last:
                self._all_done.set()

    def _close_on_stop(self) -> None:
        assert self._coord is not None, "the thread is made for a coordinator"
        self._coord.wait_for_stop()
        self._quietly(self._runner.cancel_op)
        if not self._all_done.wait(_GRACE_S):
            self._cancellation.cancel()

    def _quietly(self, op: Any) -> None:
        """Run what closes the queue; it may be closed, and the session too."""
        try:
            self._session.run(op, options=RunOptions(timeout_in_ms=_CLOSE_MS))
        except Exception as error:
            logging.debug("Ignored exception: %s", error)
