"""What a `Run` asks about its training: an observer of the tasks, or a recording."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

from kit.errors import KitError
from kit.task import Task
from kit.trace.named_rows import EpochRow
from kit.trace.trace import Trace
from kit.training.client.flight_recorder import Flight
from kit.training.client.recorded import Cursors, Recorded
from kit.training.client.stuck_tasks import StuckTasks
from kit.training.client.watched import Teller, Watched
from kit.training.elastic.generation import Change
from kit.training.job import Job
from kit.wire.rpc import Caller


class RunSource(Protocol):
    """Knows a training. Every method may be called from any thread, and none blocks.

    But for `wait`, for `command`, which asks the coordinator, and for `params`, which
    fetches.

    Attributes:
        finished: done when the training is over, or is not watched any more.
        recorded: what all members have reported.
        stuck: what became of tasks in which a step has not ended with the training.
    """

    finished: Future[None]
    recorded: Recorded
    stuck: StuckTasks

    @property
    def job(self) -> Job:
        """The job of the newest generation that is known."""

    @property
    def coordinator(self) -> Watched:
        """The coordinator, as it is known."""

    def let_tell(self, teller: Teller) -> None:
        """Show what steps and hooks print and report, from the first line on."""

    def command(self, what: str, **values: Any) -> None:
        """Ask for a change; raises `FailedPreconditionError` for a training over."""

    def come_back(self, member: int, incarnation: int) -> None:
        """Watch the new process of a member; raises as `command` does, or does nothing.

        Does nothing for a training that has ended meanwhile.
        """

    def wait(self, timeout: float | None) -> None:
        """Block until the training is over, and raise what it failed with."""

    def at_end(self, call: Callable[[KitError | None], None]) -> bool:
        """Call back with what the training failed with, before `finished` is set.

        Returns whether it will be called: not when the training is over already.
        """

    def reach(self, member: int) -> Caller:
        """Return a link for questions to a member, which the caller closes."""

    def close(self) -> None:
        """Stop watching; what is known stays."""

    def catch_up(self, timeout: float) -> None:
        """Wait until all that members had recorded is here, or they are over."""

    def params(self) -> bytearray:
        """Return the flat parameters of the last committed step."""

    def final(self) -> bytearray | None:
        """Return the flat parameters with which it ended, None if nobody had them."""

    def stuck_tasks(self) -> list[Task]:
        """Return the tasks in which a step goes on although the training has ended."""

    def epoch(self) -> EpochRow | None:
        """Return the epoch that holds now."""

    def epochs(self) -> tuple[EpochRow, ...]:
        """Return the configurations so far."""

    def pending(self) -> str:
        """Return the topology that is requested and does not hold yet."""

    def requested(self) -> dict[str, Any] | None:
        """Return the configuration that is requested and does not hold yet, if any."""

    def leads(self) -> dict[str, Any]:
        """Return what the coordinator said last."""

    def step(self) -> int:
        """Return the number of committed steps."""

    def state(self) -> str:
        """Return running, paused, done or failed."""

    def trace(self) -> Trace:
        """Return what is known so far."""

    def news(self, cursors: Cursors) -> tuple[Trace, Cursors]:
        """Return what came after `cursors` (() for the start), and where it ends."""

    def n_steps(self) -> dict[tuple[int, int], int]:
        """Return by member and epoch how many steps it has done, exact."""

    def flight(self) -> Flight:
        """Return what all members do and wait for."""

    def lost(self) -> dict[int, str]:
        """Return the members that are gone, and what was said of them."""

    def is_silent(self, member: int) -> bool:
        """Whether a member was not heard lately, so that to ask it may take long."""

    def changes(self) -> tuple[Change, ...]:
        """Return why the generations of an elastic training followed each other."""

    def unrepeatable(self) -> dict[int, int]:
        """Return by member the first step that had another loss when done again."""
