"""One run of a plan on one task: its deadline, its end, and its tensors under way.

A step ends early by an error that somebody sets; whoever waits looks for it several
times a second and at every wake-up. Nothing waits beyond the deadline.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from kit.errors import DeadlineExceededError, KitError
from kit.graph.node import Edge
from kit.task import Task

# How long a wait may not notice what nobody wakes it for.
LOOK_S = 0.1


class Ways(Protocol):
    """How a step's tensors reach other tasks."""

    def send(self, step: Step, edge: Edge, to: Task, value: Any) -> None:
        """Hand a tensor over; returns before it has arrived. `value` may be None."""

    def receive(self, step: Step, edge: Edge, source: Task) -> Any:
        """Return a tensor of this step as soon as it is there."""


@dataclass
class Records:
    """What a traced step notes: nodes and transfers, times in seconds of `clock`."""

    nodes: list[tuple[str, str, float, float]] = field(default_factory=list)
    transfers: list[tuple[str, str, str, int, float, float]] = field(
        default_factory=list
    )


class Step:
    """A run on one task. `session` keys what belongs to one session only."""

    def __init__(
        self,
        number: int,
        session: str,
        me: Task,
        ways: Ways,
        deadline_s: float,
        *,
        traced: bool = False,
        look: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`look` is called while waiting; what it raises ends the wait."""
        self.number, self.session, self.me, self.ways = number, session, me, ways
        self.deadline_s, self.clock = deadline_s, clock
        self.deadline = clock() + deadline_s
        self.records = Records() if traced else None
        self.error: KitError | None = None
        self.look = look

    @property
    def left_s(self) -> float:
        """Seconds until the deadline, 0 when it has passed."""
        return max(0.0, self.deadline - self.clock())

    def check(self, what: str) -> None:
        """Raise what ended the step, or that the deadline passed waiting for `what`."""
        if self.error is not None:
            raise self.error
        if self.clock() >= self.deadline:
            raise DeadlineExceededError(
                f"{what} did not come within the {self.deadline_s:g} s of this run "
                f"(on {self.me}). Allow more with the run's deadline_s, or with the "
                f"setting run_deadline_s.",
                task=str(self.me),
            )
        self.look()

    def wait(
        self, ready: Callable[[], bool], changed: threading.Condition, what: str
    ) -> None:
        """Wait on a condition that is held until `ready()`; see `check`."""
        while not ready():
            self.check(what)
            changed.wait(min(LOOK_S, self.left_s))

    def end(self, error: KitError) -> None:
        """End the step: waits raise `error` from now on. The first error counts."""
        if self.error is None:
            self.error = error
