"""Where tensors from other tasks wait for the op that needs them.

A tensor may come before its step has begun here. What comes for a step that has ended
is dropped, and so is what no step has asked for within a minute.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from kit.errors import KitError
from kit.graph.node import Edge
from kit.session.step import Step

_ENDED_KEPT: Final = 1024
_UNASKED_S: Final = 60.0


class Rendezvous:
    """The tensors that have arrived, by step and edge."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._arrived: dict[int, dict[Edge, Any]] = {}
        self._since: dict[int, float] = {}
        self._begun: set[int] = set()
        self._ended: OrderedDict[int, None] = OrderedDict()
        self._changed = threading.Condition()

    def put(self, number: int, edge: Edge, value: Any) -> None:
        """Keep a tensor of a step, or the error that came in its place."""
        with self._changed:
            if number in self._ended:
                return
            self._drop_unasked()
            self._since.setdefault(number, self._clock())
            self._arrived.setdefault(number, {})[edge] = value
            self._changed.notify_all()

    def take(self, step: Step, edge: Edge, source: str) -> Any:
        """Return a tensor when it is there; raises as `Step.check` does."""
        with self._changed:
            box = self._arrived.setdefault(step.number, {})
            step.wait(lambda: edge in box, self._changed, f"{edge[0]!r} from {source}")
            value = box.pop(edge)
        if isinstance(value, KitError):
            raise value
        return value

    def begin(self, number: int) -> None:
        """Note that a step has begun here."""
        with self._changed:
            self._begun.add(number)

    def end(self, number: int) -> None:
        """Forget a step."""
        with self._changed:
            self._forget(number)
            self._ended[number] = None
            while len(self._ended) > _ENDED_KEPT:
                self._ended.popitem(last=False)

    def wake(self) -> None:
        """Let all who wait look at their step again."""
        with self._changed:
            self._changed.notify_all()

    def _forget(self, number: int) -> None:
        self._arrived.pop(number, None)
        self._since.pop(number, None)
        self._begun.discard(number)

    def _drop_unasked(self) -> None:
        before = self._clock() - _UNASKED_S
        old = [n for n, at in self._since.items() if at < before]
        for number in old:
            if number not in self._begun:
                self._forget(number)
