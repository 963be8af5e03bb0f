"""One run of a plan on one task: its deadline, its end, and its tensors under way.

A step ends early when another thread sets its error: a thread that waits in it is woken
as its link is closed, or by its condition. Nothing waits beyond the deadline.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from kit.errors import DeadlineExceededError, KitError, ProtocolError
from kit.message_fields import shown
from kit.session.master.partition import TensorMove
from kit.session.transport.message import Message
from kit.session.transport.serialization import payload_bytes
from kit.session.worker.state import SessionState
from kit.task import Task
from kit.wire.link import Link

# How late an op may notice the end of its step while it waits on its own condition, of
# which an abort does not know.
LOOK_S: Final = 0.05


# A session as the tasks know it: its master, and the number it has there.
SessionKey = tuple[Task, int]


class Ways(Protocol):
    """How a step's tensors reach other tasks."""

    def send(self, step: Step, move: TensorMove, value: Any) -> None:
        """Hand a tensor over; returns before it has arrived. `value` may be None."""

    def receive(self, step: Step, move: TensorMove) -> Any:
        """Return a tensor of this step as soon as it is there."""


@dataclass
class Records:
    """What a traced step notes: nodes and transfers, times in seconds of `clock`."""

    nodes: list[tuple[str, str, float, float]] = field(default_factory=list)
    transfers: list[tuple[str, str, str, int, float, float]] = field(
        default_factory=list
    )


class Step:
    """A run on one task. `session` keys what belongs to one session only.

    `session_state`, where its ops keep what lasts, is known once its task has begun it.
    """

    session_state: SessionState

    def __init__(
        self,
        number: int,
        session: SessionKey,
        me: Task,
        ways: Ways,
        limit_s: float,
        *,
        traced: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.number, self.session, self.me, self.ways = number, session, me, ways
        self.limit_s, self.clock = limit_s, clock
        self.deadline = clock() + limit_s
        self.records = Records() if traced else None
        self.error: KitError | None = None
        # What its thread waits for, and the task that should know more of it.
        self.waits_for: tuple[Callable[[], str], Task | None] | None = None
        self._held: dict[Link, None] = {}
        self.temporary: dict[str, object] = {}  # variables that end with it, by name
        self._lock = threading.Lock()

    @property
    def left_s(self) -> float:
        """Seconds until the deadline, 0 when it has passed."""
        return max(0.0, self.deadline - self.clock())

    def check(self, what: str) -> None:
        """Raise what ended the step, or that the deadline passed waiting for `what`."""
        if self.error is not None:
            raise self.error
        if self.clock() >= self.deadline:
            raise self.too_late(what)

    def too_late(self, what: str, task: Task | None = None) -> DeadlineExceededError:
        """Return the error for what did not come within the deadline."""
        limit_s = round(self.limit_s, 2)  # on a worker, what the master had left
        return DeadlineExceededError(
            f"{what} did not come within the {limit_s:g} s of this run (waited "
            f"for on {self.me}).",
            task=str(task or self.me),
        )

    def take(self, move: TensorMove, message: Message) -> Any:
        """Return the tensor that came for a move, and note how it came."""
        value = message.arrays[0] if message.arrays else None
        if self.records is not None:
            came = _moment(message, "came", self.clock())
            self.records.transfers.append(
                (
                    move.tensor,
                    str(move.peer),
                    str(self.me),
                    0 if value is None else payload_bytes(value),
                    min(_moment(message, "sent", came), came),
                    came,
                )
            )
        return value

    def note_sending(self) -> dict[str, Any]:
        """Return what goes along with a tensor: when it was handed over, if traced."""
        return {} if self.records is None else {"sent": self.clock()}

    def wait(
        self,
        ready: Callable[[], bool],
        changed: threading.Condition,
        what: Callable[[], str],
    ) -> None:
        """Wait on a condition that is held until `ready()`; see `check`.

        `what()` is asked for at the end of the wait, to say how things stand then.
        """
        with self.waiting(what):
            while not ready():
                if self.error is not None or not self.left_s:
                    self.check(what())
                changed.wait(min(LOOK_S, self.left_s))

    @contextmanager
    def waiting(self, what: Callable[[], str]) -> Iterator[None]:
        """Note for a block that it waits for something."""
        self.waits_for = what, None
        try:
            yield
        finally:
            self.waits_for = None

    def hold(self, link: Link) -> None:
        """Have the step's end close a link; raise what has ended the step already."""
        with self._lock:  # or an abort between these lines would miss this link
            if self.error is not None:
                raise self.error
            self._held[link] = None

    def release(self, link: Link) -> None:
        """Keep the step's end from closing a link."""
        with self._lock:
            self._held.pop(link, None)

    def abort(self, error: KitError, *, spare: Link | None = None) -> None:
        """End the step from another thread; the first error counts.

        All links that it holds are closed, which wakes the threads that wait on them.
        One may be spared, from which something is still to be read.
        """
        with self._lock:
            if self.error is None:
                self.error = error
            for link in self._held:
                if link is not spare:
                    link.close()


def _moment(message: Message, name: str, default: float) -> float:
    moment = message.meta.get(name, default)
    if not isinstance(moment, int | float):
        raise ProtocolError(f"a tensor was {name} at {shown(moment)}; a time is due.")
    return moment
