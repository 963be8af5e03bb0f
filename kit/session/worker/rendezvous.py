"""Where tensors from other tasks wait for the op that needs them.

A tensor may come before its step has begun here. What comes for a step that has ended
is dropped, and so is what no step has asked for within a minute, or what came for more
steps than can be about to begin.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from kit.session.worker.step import Step

_ENDED_KEPT: Final = 1024
_UNASKED_S: Final = 60.0
_MOST_UNASKED: Final = 1024
_MOST_TENSORS: Final = 2**16  # of one step


class Rendezvous:
    """The tensors that have arrived, by step and number."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._arrived: dict[int, dict[int, Any]] = {}
        self._since: dict[int, float] = {}
        self._begun: set[int] = set()
        self._ended: OrderedDict[int, None] = OrderedDict()
        self._changed = threading.Condition()

    def __len__(self) -> int:
        """How many steps have something here."""
        return len(self._arrived)

    def put(self, step: int, number: int, value: Any) -> None:
        """Keep a tensor of a step."""
        with self._changed:
            if step in self._ended:
                return
            self._drop_unasked()
            self._since.setdefault(step, self._clock())
            box = self._arrived.setdefault(step, {})
            if len(box) < _MOST_TENSORS:
                box[number] = value
            self._changed.notify_all()

    def take(self, step: Step, number: int, what: str) -> Any:
        """Return a tensor when it is there; raises as `Step.check` does."""
        with self._changed:
            box = self._arrived.setdefault(step.number, {})
            while number not in box:
                step.check(what)
                self._changed.wait(step.left_s)
            return box.pop(number)

    def begin(self, step: int) -> None:
        """Note that a step has begun here."""
        with self._changed:
            self._begun.add(step)

    def end(self, step: int) -> None:
        """Forget a step."""
        with self._changed:
            self._forget(step)
            self._ended[step] = None
            while len(self._ended) > _ENDED_KEPT:
                self._ended.popitem(last=False)

    def wake(self) -> None:
        """Let all who wait look at their step again."""
        with self._changed:
            self._changed.notify_all()

    def _forget(self, step: int) -> None:
        self._arrived.pop(step, None)
        self._since.pop(step, None)
        self._begun.discard(step)

    def _drop_unasked(self) -> None:
        before = self._clock() - _UNASKED_S
        waiting = [one for one in self._since.items() if one[0] not in self._begun]
        n_too_many = len(waiting) - _MOST_UNASKED
        for n_older, (step, at) in enumerate(waiting):
            if at < before or n_older < n_too_many:
                self._forget(step)
