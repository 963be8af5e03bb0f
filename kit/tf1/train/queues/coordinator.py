"""`tf.train.Coordinator`: threads that stop together, and whose errors come out.

coord = tf.train.Coordinator()
with coord.stop_on_exception():          in each thread
    while not coord.should_stop(): ...
coord.join(threads)                      in the main one: raises what a thread raised
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from kit.errors import OutOfRangeError
from kit.tf1 import logging

_LOOK_S = 0.02  # how long the end of the last thread may go unnoticed


class Coordinator:
    """Lets threads know when to stop, and waits for them.

    `clean_stop_exception_types` are errors that are an end, not a failure: by default
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
        self._is_joined = False
        self._threads: set[threading.Thread] = set()

    def request_stop(self, ex: Any = None) -> None:
        """Ask all threads to stop; `join` raises the first error given here.

        `ex` is an exception that is being handled, or what `sys.exc_info()` returned.
        Raises it when `join` has returned already, and `TypeError` for anything else.
        """
        failure = self._failure_in(ex)
        with self._lock:
            if self._is_joined and failure is not None:
                raise failure
            if not self._stopped.is_set():
                if failure is not None:
                    logging.info("Error reported to Coordinator: %s", failure)
                    self._failure = failure
                self._stopped.set()

    def _failure_in(self, ex: Any) -> BaseException | None:
        """Return the error that is meant; None for a clean end, and for nothing."""
        if not ex:
            return None
        found = sys.exc_info()[1]
        if isinstance(ex, tuple):
            found = ex = ex[1] if len(ex) == 3 else None
        if isinstance(ex, self._clean):
            return None
        if not isinstance(found, BaseException):
            raise TypeError(
                f"ex must be a tuple or sys.exc_info must return the current "
                f"exception: call request_stop(error) in the 'except' block that "
                f"caught the error, or with sys.exc_info(), not with {ex!r} elsewhere."
            )
        return found

    def clear_stop(self) -> None:
        """Forget that a stop was asked for, and the error with it."""
        with self._lock:
            self._is_joined, self._failure = False, None
            self._stopped.clear()

    def should_stop(self) -> bool:
        """Return whether a stop was asked for."""
        return self._stopped.is_set()

    @contextmanager
    def stop_on_exception(self) -> Iterator[None]:
        """Ask all to stop when the block raises; the error goes no further."""
        try:
            yield
        except BaseException:  # as the original: `join` raises whatever it is
            self.request_stop(sys.exc_info())

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        """Wait until a stop is asked for, at most `timeout` seconds; returns whether.

        A negative `timeout` counts as 0.
        """
        return self._stopped.wait(timeout)

    def register_thread(self, thread: threading.Thread) -> None:
        """Let `join` wait for a thread too."""
        with self._lock:
            self._threads.add(thread)

    def join(
        self,
        threads: Iterable[threading.Thread] | None = None,
        stop_grace_period_secs: float = 120,
        ignore_live_threads: bool = False,
    ) -> None:
        """Wait for the end of threads, and raise what one of them has raised.

        Those that are registered, and those given. Once a stop was asked for they have
        `stop_grace_period_secs`. Raises `RuntimeError` with the names of those that go
        on, unless `ignore_live_threads`.
        """
        with self._lock:
            waited = [*self._threads.union(threads or ())]
        while any(one.is_alive() for one in waited):
            if self.wait_for_stop(_LOOK_S):
                break
        end = time.monotonic() + stop_grace_period_secs
        for one in waited:
            if one.is_alive():
                one.join(max(0.0, end - time.monotonic()))
        late = [one.name for one in waited if one.is_alive()]
        with self._lock:
            self._is_joined = True
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

    @property
    def joined(self) -> bool:
        """Whether `join` has returned or raised."""
        return self._is_joined

    def raise_requested_exception(self) -> None:
        """Raise the error that a stop was asked for with, if there is one."""
        if self._failure is not None:
            raise self._failure
