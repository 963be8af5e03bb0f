"""Follows something that goes on, for all its boards: a thread asks and calls them.

What is followed has one follower, however many boards show it, so that they agree and
cost no more than one. Its thread runs while somebody listens. It asks at most ten times
a second, and less often if a beat is costly (`pause_after`): the tasks need the
processors more.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from kit.errors import KitError
from kit.groups.replay import ReplayedCall
from kit.trace.trace import Trace
from widgets.board.history import TrainingHistory
from widgets.board.run_state import Moment

Listener = Callable[["Beat"], None]
Request = Callable[[Any], None]

BEAT_S = 0.1
# The share of one processor for all that a beat does here. What it wakes takes as much
# again: the kernel's thread for output, and the page's server.
SHARE, MOST = 0.01, 0.05
STEADY_S, SLOWEST_S = 0.5, 2.0
_IDLE_S = 0.25  # between two checks whether what nobody watches is over


@dataclass(frozen=True)
class Beat:
    """What boards draw: the moment, all that was in columns, the newest rows."""

    moment: Moment
    history: TrainingHistory
    recent: Trace
    is_last: bool
    n_rows: int = 0  # that are known: by this a figure knows that it is up to date
    calls: tuple[ReplayedCall, ...] = ()  # of a group, to be stepped through


class Follower:
    """Follows one thing that boards show. Any thread may call any method."""

    def __init__(
        self, of: Any, name: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Follow `of`, which requests are made of; `name` is that of the thread."""
        self._of, self._name, self._clock = of, name, clock
        self._refusal = ""
        self._troubles: set[tuple[Any, ...]] = set()  # lines that raised something
        self._listeners: dict[Listener, bool] = {}  # and whether each is visible
        self._requests: SimpleQueue[Request | None] = SimpleQueue()
        self._guard = threading.Lock()  # of the listeners and the thread
        self._looking = threading.Lock()  # news are taken in by one thread at a time
        self._thread: threading.Thread | None = None

    def look(self) -> Beat:
        """Return the present state."""
        raise NotImplementedError

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        raise NotImplementedError

    def formula(self, topology: str) -> int | None:
        """Return the bytes of a step under a topology, if that says it."""
        return None

    # -- for boards ---------------------------------------------------------------

    def listen(self, listener: Listener, *, is_shown: bool = True) -> None:
        """Call `listener` with each beat, on the follower's thread, until it leaves.

        One that is not shown gets only the last beat, and costs nothing until then. To
        change that, call this again.
        """
        with self._guard:
            self._listeners[listener] = is_shown
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._go, name=self._name, daemon=True
                )
                self._thread.start()
        self._requests.put(None)  # wakes the thread

    def leave(self, listener: Listener) -> None:
        """Stop calling; without any listener the thread ends."""
        with self._guard:
            self._listeners.pop(listener, None)
        self._requests.put(None)  # wakes the thread, so that it sees that it is alone

    def request(self, request: Request) -> None:
        """Have the thread make a request soon; errors are shown, not raised."""
        self._requests.put(request)

    # -- the thread -----------------------------------------------------------------

    def _go(self) -> None:
        while self._has_listeners():
            if not any(self._listeners.values()) and not self.is_over:
                self._rest(_IDLE_S)
                continue
            begin = time.thread_time()
            try:
                beat = self.look()
            except Exception as error:
                self._trouble(error)
                if self.is_over:  # the next one would be the same
                    with self._guard:
                        self._listeners.clear()  # so that the thread ends
                self._rest(STEADY_S)
                continue
            listeners = list(self._listeners.items())
            for listener, is_shown in listeners:
                if is_shown or beat.is_last:
                    self._tell(listener, beat)
            if beat.is_last:
                with self._guard:  # one that came meanwhile is called next
                    for listener, _ in listeners:
                        self._listeners.pop(listener, None)
                continue
            self._rest(pause_after(time.thread_time() - begin))

    def _has_listeners(self) -> bool:
        """Return whether to go on; if not, the next listener starts another thread."""
        # Under the lock of `listen`: else that could come in between, and leave its
        # listener to a thread that is about to end.
        with self._guard:
            if not self._listeners:
                self._thread = None
            return bool(self._listeners)

    def _tell(self, listener: Listener, beat: Beat) -> None:
        try:
            listener(beat)
        except Exception as error:  # the other boards go on
            self._trouble(error)

    def _trouble(self, error: Exception) -> None:
        """Print an error, once; the next beat is tried all the same.

        If the thread ended here, boards would report that the kernel is gone.
        """
        where = tuple(traceback.extract_tb(error.__traceback__)[-1][:2])
        if where not in self._troubles:  # not by its text, which may differ each time
            self._troubles.add(where)
            traceback.print_exception(error)

    def _rest(self, seconds: float) -> None:
        """Wait for the next beat, or make a request that comes before it."""
        until = self._clock() + seconds
        while (left := until - self._clock()) > 0:
            with suppress(Empty):
                request = self._requests.get(timeout=left)
                if request is None:
                    return
                self._refusal = ""
                try:
                    request(self._of)
                except KitError as error:
                    self._refusal = error.message
                except Exception as error:  # whatever it is: the thread goes on
                    self._refusal = f"{type(error).__name__}: {error}"
                return  # shown at once


def pause_after(cost_s: float) -> float:
    """Return the seconds until the next beat, after one of so many seconds of CPU time.

    With these, beats take `SHARE` of a processor. But there are two in a second as long
    as that takes no more than `MOST`.

    >>> [pause_after(cost_s) for cost_s in (0.001, 0.002, 0.02, 0.05, 0.5)]
    [0.1, 0.2, 0.5, 1.0, 2.0]
    """
    steady = max(STEADY_S, cost_s / MOST)
    return min(max(BEAT_S, cost_s / SHARE), steady, SLOWEST_S)
