"""`tf.train.LooperThread`: a thread that does something again and again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from kit.tf1.train.queues.coordinator import Coordinator


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

        Raises `ValueError` for anything that is not a coordinator, and for arguments of
        nothing.
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
        self._given, self._named = args or (), kwargs or {}
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
        """Do what the thread does; an error is reported to the coordinator."""
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
            next_at += interval_s
            self.run_loop()

    def start_loop(self) -> None:
        """Begin: called once, in the thread."""

    def stop_loop(self) -> None:
        """End: called once, in the thread, when it was not by an error."""

    def run_loop(self) -> None:
        """Do what is to be done each time."""
        if self._call is not None:
            self._call(*self._given, **self._named)
