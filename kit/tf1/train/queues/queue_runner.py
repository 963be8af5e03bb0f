"""`tf.train.QueueRunner`: threads that fill a queue while others take from it.

Each thread runs one operation again and again, and waits while the queue is full. It
ends with the input, on an error, or with the coordinator.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from kit.errors import (
    KitError,
    OutOfRangeError,
    error_code_from_exception_type,
    exception_type_from_error_code,
)
from kit.session.client.cancelling import Cancellation
from kit.tf1 import logging
from kit.tf1.graph.collections import GraphKeys, add_to_collection, get_collection
from kit.tf1.graph.graph import get_default_graph
from kit.tf1.graph.message import CheckedMessage
from kit.tf1.session.config import RunOptions
from kit.tf1.session.running import get_default_session
from kit.tf1.session.session import BaseSession
from kit.tf1.train.queues.coordinator import Coordinator

# --------------------------------------------------------------------------------------
# The threads of one queue runner in one session, and how they end.
#
# one for each operation      runs it again and again
# close_on_stop               waits for the coordinator to stop, closes the queue, and
#                             cancels the runs that wait for something else


# A full queue is not a failure, so a run in the background may wait very long.
_UNLIMITED_MS = 7 * 24 * 3600 * 1000
# Closing the queue must not wait long for a task that has died.
_CLOSE_MS = 5_000
# A run that works, and does not wait, may finish.
_GRACE_S = 0.5


class QueueThreads:
    """The threads of `runner` in one session."""

    def __init__(
        self,
        runner: Any,
        session: Any,
        coord: Coordinator | None,
        keep: Callable[[Exception], None],
    ) -> None:
        """`keep` receives the errors for which there is no coordinator."""
        self._runner, self._coord, self._keep = runner, coord, keep
        self._session = session
        self.n_left = len(runner.enqueue_ops)
        self._all_done = threading.Event()
        self._lock = threading.Lock()
        self._cancellation = Cancellation()

    def make(self) -> list[threading.Thread]:
        """Return the threads, not started."""
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
        return RunOptions(timeout_in_ms=_UNLIMITED_MS)

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
        # Closing ends the runs that wait for this queue. What is left then waits for
        # something else, such as the queue that its input comes from.
        self._quietly(self._runner.cancel_op)
        if not self._all_done.wait(_GRACE_S):
            self._cancellation.cancel()

    def _quietly(self, op: Any) -> None:
        """Run an operation that closes the queue, which may fail: it may be closed."""
        try:
            self._session.run(op, options=RunOptions(timeout_in_ms=_CLOSE_MS))
        except Exception as error:
            logging.debug("Ignored exception: %s", error)


class QueueRunnerDef(CheckedMessage):
    """A queue runner by the names of its operations."""

    queue_name: str
    enqueue_op_name: list[str]
    close_op_name: str
    cancel_op_name: str
    queue_closed_exception_types: list[int]


class QueueRunner:
    """Operations that enqueue elements, each run by a thread."""

    def __init__(
        self,
        queue: Any = None,
        enqueue_ops: Sequence[Any] | None = None,
        close_op: Any = None,
        cancel_op: Any = None,
        queue_closed_exception_types: tuple[type[KitError], ...] | None = None,
        queue_runner_def: QueueRunnerDef | None = None,
        import_scope: str | None = None,
    ) -> None:
        """Add what closes the queue to the graph, unless it is given.

        `queue_closed_exception_types` are the errors that mean the end of the input, by
        default `OutOfRangeError`. Raises `ValueError` without a queue or operations,
        `TypeError` for what is not an error type.
        """
        # Weak on both sides: a session of a notebook's cell ends with the cell.
        self._sessions: weakref.WeakKeyDictionary[
            Any, weakref.ReferenceType[QueueThreads]
        ] = weakref.WeakKeyDictionary()
        self.exceptions_raised: list[Exception] = []
        self._lock = threading.Lock()
        if queue_runner_def is not None:
            if queue or enqueue_ops:
                raise ValueError("queue_runner_def and queue are mutually exclusive.")
            self._read(queue_runner_def, import_scope)
            return
        if not queue or not enqueue_ops:
            raise ValueError("Must provide queue and enqueue_ops.")
        self.queue, self.enqueue_ops = queue, enqueue_ops
        self.queue_closed_exception_types = _closed_types(queue_closed_exception_types)
        self.close_op = queue.close() if close_op is None else close_op
        self.cancel_op = cancel_op
        if cancel_op is None:
            self.cancel_op = queue.close(cancel_pending_enqueues=True)

    @property
    def name(self) -> str:
        """The name of the queue."""
        return str(self.queue.name)

    def create_threads(
        self,
        sess: Any,
        coord: Coordinator | None = None,
        daemon: bool = False,
        start: bool = False,
    ) -> list[threading.Thread]:
        """Return threads that run the operations in a session.

        With a coordinator they stop with it, and another one closes the queue then. No
        new ones are made while earlier ones of the same session still run.
        """
        with self._lock:
            earlier = self._sessions.get(sess, lambda: None)()
            if earlier is not None and earlier.n_left > 0:
                return []
            mine = QueueThreads(self, sess, coord, self._keep)
            self._sessions[sess] = weakref.ref(mine)
            self.exceptions_raised = []
        made = mine.make()
        for thread in made:
            if coord is not None:
                coord.register_thread(thread)
            thread.daemon = daemon
            if start:
                thread.start()
        return made

    def to_proto(self, export_scope: str | None = None) -> QueueRunnerDef | None:
        """Return it as a message; None if its queue is not below `export_scope`."""
        if export_scope is not None and not self.name.startswith(export_scope):
            return None
        types = self.queue_closed_exception_types
        return QueueRunnerDef(
            queue_name=_without(self.name, export_scope),
            enqueue_op_name=[
                _without(enqueue_op.name, export_scope)
                for enqueue_op in self.enqueue_ops
            ],
            close_op_name=_without(self.close_op.name, export_scope),
            cancel_op_name=_without(self.cancel_op.name, export_scope),
            queue_closed_exception_types=[
                error_code_from_exception_type(kind) for kind in types
            ],
        )

    @staticmethod
    def from_proto(
        queue_runner_def: QueueRunnerDef, import_scope: str | None = None
    ) -> QueueRunner:
        """Return the queue runner that a message describes, in the default graph."""
        return QueueRunner(queue_runner_def=queue_runner_def, import_scope=import_scope)

    def _keep(self, error: Exception) -> None:
        logging.error("Exception in QueueRunner: %s", error)
        with self._lock:
            self.exceptions_raised.append(error)

    def _read(self, definition: QueueRunnerDef, scope: str | None) -> None:
        def find(name: str) -> Any:
            full = f"{scope}/{name}" if scope else name
            return get_default_graph().as_graph_element(full)

        self.queue = find(definition.queue_name)
        self.enqueue_ops = [find(op_name) for op_name in definition.enqueue_op_name]
        self.close_op, self.cancel_op = map(
            find, (definition.close_op_name, definition.cancel_op_name)
        )
        codes = definition.queue_closed_exception_types
        self.queue_closed_exception_types = _closed_types(
            tuple(exception_type_from_error_code(code) for code in codes) or None
        )


def _closed_types(closed: Any) -> tuple[type[KitError], ...]:
    if closed is None:
        return (OutOfRangeError,)
    is_fine = isinstance(closed, tuple) and closed
    if not is_fine or not all(issubclass(kind, KitError) for kind in closed):
        raise TypeError(
            f"queue_closed_exception_types, when provided, must be a tuple of "
            f"tf.error types, but saw: {closed!r}"
        )
    kinds: tuple[type[KitError], ...] = closed
    return kinds


def _without(name: str, scope: str | None) -> str:
    return name.removeprefix(f"{scope}/") if scope else name


def add_queue_runner(
    qr: QueueRunner, collection: Any = GraphKeys.QUEUE_RUNNERS
) -> None:
    """Add a queue runner to a collection, for `start_queue_runners`."""
    add_to_collection(collection, qr)


def start_queue_runners(
    sess: Any = None,
    coord: Coordinator | None = None,
    daemon: bool = True,
    start: bool = True,
    collection: Any = GraphKeys.QUEUE_RUNNERS,
) -> list[threading.Thread]:
    """Start the threads of all queue runners of the default graph; returns them.

    Raises `ValueError` without a session, `TypeError` for what is not one. A monitored
    session has started them itself.
    """
    chosen = get_default_session() if sess is None else sess
    if chosen is None:
        raise ValueError(
            "Cannot start queue runners: No default session is registered. Use `with "
            "sess.as_default()` or pass an explicit session to "
            "tf.start_queue_runners(sess=sess)"
        )
    if not isinstance(chosen, BaseSession):
        if type(chosen).__name__ in ("MonitoredSession", "SingularMonitoredSession"):
            return []
        raise TypeError(f"sess must be a `tf.Session` object. Given {type(chosen)}")
    runners = get_collection(collection)
    if not runners:
        logging.warning(
            "`tf.train.start_queue_runners()` was called when no queue runners were "
            "defined. You can safely remove the call to this deprecated function."
        )
    with chosen.graph.as_default():
        made = [
            runner.create_threads(chosen, coord, daemon, start) for runner in runners
        ]
    return [thread for threads in made for thread in threads]
