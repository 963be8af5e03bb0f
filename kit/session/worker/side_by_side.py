"""Run the code of a segment in which several ops may wait, maybe for each other.

One thread runs the code in its order, and leaves out what needs something that is not
there yet. What may wait runs in threads of its own meanwhile: a Python function may
wait for another one of the same run, and who takes from a queue for who puts in.

    order   take, use, function, put        use needs take, put needs function
    main    function's and take's threads begin; put as soon as function is done
            use as soon as take is done, which waited for put
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from heapq import heappop, heappush
from typing import Final

import numpy as np

from kit.errors import KitError
from kit.session.worker.step import LOOK_S, Step

_LEAVE_S: Final = 2 * LOOK_S  # what waits in a queue looks for the end of its step

# Runs the instruction with a number.
Execute = Callable[[int], None]


class OrderOfNeeds:
    """Which instructions may wait, and what each instruction needs; by their numbers.

    `in_order` are those that come after all before them: what another task sends is
    waited for in the order that all tasks share, so that none waits in a circle.
    """

    def __init__(
        self, needs: Sequence[set[int]], waits: set[int], in_order: set[int]
    ) -> None:
        self.waits, self.in_order = waits, in_order
        self.n_needs = [len(item) for item in needs]
        self.users: list[list[int]] = [[] for _ in needs]
        for number, need_of in enumerate(needs):
            for need in need_of:
                self.users[need].append(number)


class SideBySide:
    """One run of the code; `execute` runs the instruction with a number."""

    def __init__(self, order: OrderOfNeeds, step: Step, execute: Execute) -> None:
        self._order, self._step, self._execute = order, step, execute
        self._left = list(order.n_needs)
        self._undone = set(range(len(self._left)))
        # What is ready: what computes, what may wait, and what another task sends.
        self._plain: list[int] = []
        self._waiting: list[int] = []
        self._received: list[int] = []
        for number, n_needs in enumerate(self._left):
            if not n_needs:
                self._is_ready(number)
        self._running: set[int] = set()
        self._ended: list[tuple[int, BaseException | None]] = []
        self._changed = threading.Condition()

    def run(self, what: Callable[[int], str]) -> tuple[int, BaseException] | None:
        """Run all; return the number and the error of the first that failed.

        `what` names an instruction, for the message at a deadline.
        """
        number = -1
        try:
            while self._undone:
                number = self._next()
                if number >= 0:
                    self._execute(number)
                    self._done(number)
                    continue
                number = min(self._running)
                for ended, error in self._await_some(what(number)):
                    if error is not None:
                        return ended, error
                    self._done(ended)
        except Exception as error:
            return number, error
        return None

    def end(self, error: KitError) -> None:
        """Let those that still wait in a queue leave it, after a failure."""
        if self._running:
            self._step.error = self._step.error or error
            with self._changed:
                self._changed.wait_for(self._all_have_ended, _LEAVE_S)

    def _all_have_ended(self) -> bool:
        return len(self._ended) == len(self._running)

    def _next(self) -> int:
        """Return what this thread is to do next; -1: wait for the others."""
        if self._plain:
            return heappop(self._plain)
        is_due = bool(self._received) and self._received[0] == min(self._undone)
        if len(self._waiting) == 1 and not self._running and not is_due:
            return self._waiting.pop()
        # Before this thread may wait for another task, which may wait for them.
        for number in self._waiting:
            self._begin(number)
        self._waiting.clear()
        return heappop(self._received) if is_due else -1

    def _is_ready(self, number: int) -> None:
        if number in self._order.waits:
            self._waiting.append(number)
        else:
            is_received = number in self._order.in_order
            heappush(self._received if is_received else self._plain, number)

    def _done(self, number: int) -> None:
        self._undone.discard(number)
        for user in self._order.users[number]:
            self._left[user] -= 1
            if not self._left[user]:
                self._is_ready(user)

    def _begin(self, number: int) -> None:
        def aside() -> None:
            error: BaseException | None = None
            try:
                with np.errstate(all="ignore"):
                    self._execute(number)
            except BaseException as met:
                error = met
            with self._changed:
                self._ended.append((number, error))
                self._changed.notify_all()

        self._running.add(number)
        context = copy_context()
        threading.Thread(
            target=context.run, args=(aside,), name="kit-side-by-side", daemon=True
        ).start()

    def _await_some(self, what: str) -> list[tuple[int, BaseException | None]]:
        with self._changed:
            while not self._ended:
                if self._step.error is None and self._step.left_s:
                    self._changed.wait(min(LOOK_S, self._step.left_s))
                # One that waits in a queue knows better what did not come.
                elif not self._changed.wait_for(lambda: self._ended, _LEAVE_S):
                    self._step.check(what)
            taken, self._ended = self._ended, []
        self._running -= {number for number, _ in taken}
        return taken
