"""`tf.train.Coordinator`: stops threads together, and raises their errors.

coord = tf.train.Coordinator()
with coord.stop_on_exception():          in each thread
    while not coord.should_stop(): ...
coord.join(threads)                      in the main one: raises what a thread raised
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from kit.errors import OutOfRangeError
from kit.tf1 import logging

_LOOK_S = 0.02  # how long the end of the last thread may go unnoticed


class Coordinator:
    """Tells threads when to stop, and waits for them.

    `clean_stop_exception_types` are errors that end a thread normally: by default
    `tf.errors.OutOfRangeError`, the end of the input.
    """

    def __init__(
        self, clean_stop_exception_types: Iterable[type[BaseException]] | None = None
    ) -> None:
        types = clean_stop_exception_types
        self._clean = (OutOfRangeError,) if types is None else tuple(types)
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._failure: BaseException | None = None
        self.joined = False
        self._threads: set[threading.Thread] = set()

    def request_stop(self, ex: Any = None) -> None:
        """Ask all threads to stop; `join` raises the first error given here.

        `ex` is an exception that is being handled, or what `sys.exc_info()` returned.
        Raises it if `join` has already returned, and `TypeError` for anything else.
        """
        failure = self._failure_in(ex)
        with self._lock:
            if self.joined and failure is not None:
                raise failure  # nobody will join again: it would be lost
            if not self._stopped.is_set():
                if failure is not None:
                    logging.info("Error reported to Coordinator: %s", failure)
                    self._failure = failure
                self._stopped.set()

    def _failure_in(self, ex: Any) -> BaseException | None:
        """Return the error that `ex` stands for; None for a clean end, and for None."""
        if not ex:
            return None
        failure = sys.exc_info()[1]
        if isinstance(ex, tuple):
            failure = ex = ex[1] if len(ex) == 3 else None
        if isinstance(ex, self._clean):
            return None
        if not isinstance(failure, BaseException):
            raise TypeError(
                f"ex must be a tuple or sys.exc_info must return the current "
                f"exception: call request_stop(error) in the 'except' block that "
                f"caught the error, or with sys.exc_info(), not with {ex!r} elsewhere."
            )
        return failure

    def clear_stop(self) -> None:
        """Clear the request to stop, and its error."""
        with self._lock:
            self.joined, self._failure = False, None
            self._stopped.clear()

    def should_stop(self) -> bool:
        """Return whether a stop was requested."""
        return self._stopped.is_set()

    @contextmanager
    def stop_on_exception(self) -> Iterator[None]:
        """Ask all threads to stop if the block raises; the error goes no further."""
        try:
            yield
        except BaseException:  # as the original: `join` raises whatever it is
            self.request_stop(sys.exc_info())

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        """Wait up to `timeout` seconds for a request to stop; returns if there is one.

        A negative `timeout` counts as 0.
        """
        return self._stopped.wait(timeout)

    def register_thread(self, thread: threading.Thread) -> None:
        """Make `join` wait for this thread too."""
        with self._lock:
            self._threads.add(thread)

    def join(
        self,
        threads: Iterable[threading.Thread] | None = None,
        stop_grace_period_secs: float = 120,
        ignore_live_threads: bool = False,
    ) -> None:
        """Wait for threads to end, and raise what one of them raised.

        Those that are registered, and those given. After a request to stop they have
        `stop_grace_period_secs`. Raises `RuntimeError` with the names of those
        that still run, unless `ignore_live_threads`.
        """
        with self._lock:
            waited = [*self._threads.union(threads or ())]
        # It polls, because two things end the wait: a stop, and the end of the last
        # thread.
        while any(item.is_alive() for item in waited):
            if self.wait_for_stop(_LOOK_S):
                break
        end = time.monotonic() + stop_grace_period_secs
        for thread in waited:
            if thread.is_alive():
                thread.join(max(0.0, end - time.monotonic()))
        late = [item.name for item in waited if item.is_alive()]
        with self._lock:
            self.joined = True
            self._threads = set()
        self._conclude(late, ignore_live_threads)

    def _conclude(self, late: list[str], ignore_live_threads: bool) -> None:
        self.raise_requested_exception()
        if not late:
            return
        text = f"Coordinator stopped with threads still running: {' '.join(late)}"
        if not ignore_live_threads:
            raise RuntimeError(text)
        logging.info(text)

    def raise_requested_exception(self) -> None:
        """Raise the error that came with the request to stop, if any."""
        if self._failure is not None:
            raise self._failure


class LooperThread(threading.Thread):
    """Calls `target`, or its own `run_loop`, until its coordinator stops.

    Every `timer_interval_secs` seconds, or without a pause if that is None. An error
    ends it and asks all threads of the coordinator to stop.
    """

    def __init__(
        self,
        coord: Coordinator,
        timer_interval_secs: float | None,
        target: Callable[..., Any] | None = None,
        args: Any = None,
        kwargs: Any = None,
    ) -> None:
        """Make the thread and register it; `start` starts it.

        Raises `ValueError` for anything that is not a coordinator, and for arguments
        without a target.
        """
        if not isinstance(coord, Coordinator):
            raise ValueError(f"'coord' argument must be a Coordinator: {coord!r}")
        if target is None and (args or kwargs):
            raise ValueError(
                "'args' and 'kwargs' argument require that you also pass 'target'"
            )
        super().__init__()
        self.daemon = True
        self._coord, self._interval_s = coord, timer_interval_secs
        self._call = target
        self._positional, self._named = args or (), kwargs or {}
        coord.register_thread(self)

    @staticmethod
    def loop(
        coord: Coordinator,
        timer_interval_secs: float | None,
        target: Callable[..., Any],
        args: Any = None,
        kwargs: Any = None,
    ) -> LooperThread:
        """Start a thread that calls `target` and return it."""
        made = LooperThread(coord, timer_interval_secs, target, args, kwargs)
        made.start()
        return made

    def run(self) -> None:
        """Run the loop; an error is reported to the coordinator."""
        with self._coord.stop_on_exception():
            self.start_loop()
            if self._interval_s is None:
                while not self._coord.should_stop():
                    self.run_loop()
            else:
                self._in_time(self._interval_s)
            self.stop_loop()

    def _in_time(self, interval_s: float) -> None:
        next_at = time.monotonic()
        while not self._coord.wait_for_stop(max(0.0, next_at - time.monotonic())):
            next_at += interval_s  # from the schedule: a slow call delays no later one
            self.run_loop()

    def start_loop(self) -> None:
        """Prepare the loop: called once, in the thread."""

    def stop_loop(self) -> None:
        """Clean up: called once, in the thread, unless an error ended the loop."""

    def run_loop(self) -> None:
        """Do one round of the loop: call the target."""
        if self._call is not None:
            self._call(*self._positional, **self._named)
