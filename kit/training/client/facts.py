"""What is known of a training from outside: one fold of what its members have told.

Theory of operation
    A member tells its rows of steps, transfers, spans and measures, its totals and
    epochs, and how it is doing; the coordinator's word on requests, losses and
    checkpoints goes with that. `Watched.take` folds what one member tells, `RunRows`
    the rows of all. Everybody who looks reads this fold: a `Run`, with what it shows, a
    board, a recorder, by cursors. Two feed it: an `Observer`, which asks the members of
    a training that goes on, and `kit.load_run`, which reads what a recorder has kept.

    So a training that is over can be read like one under way. What only the members
    themselves could do is refused here, and is what an observer adds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from dataclasses import replace
from typing import Any

import numpy as np

from kit.errors import (
    CancelledError,
    DeadlineExceededError,
    FailedPreconditionError,
    KitError,
)
from kit.task import Task
from kit.trace.named_rows import Change, EpochRow
from kit.trace.trace import Trace
from kit.training.client.flight_recorder import Flight, flight
from kit.training.client.report import LOOK
from kit.training.client.statement import versions_here
from kit.training.client.telling import Teller
from kit.training.client.watched import Cursors, RunRows, Tables, Watched, gone
from kit.training.core.job import Job
from kit.training.core.log import Epoch
from kit.wire.rpc import Caller


class TrainingFacts:
    """What is known of a training. Every method may be called from any thread.

    None blocks but `wait`, and in an observer `command`, which asks the coordinator,
    and `params`, which fetches.

    Attributes:
        finished: done when the training is over, or is not watched any more.
        rows: those that all members have told.
        stuck: what became of tasks in which a step has not ended with the training.
    """

    def __init__(
        self, job: Job, watched: Sequence[Watched], trusted: int, limit: int
    ) -> None:
        """`trusted` has the last word; of each table `limit` rows are kept."""
        self.finished: Future[None] = Future()
        self.finished.set_running_or_notify_cancel()
        self.rows, self.stuck = RunRows(limit), StuckTasks()
        self._job, self._watched, self._trusted = job, list(watched), trusted
        self._is_closed = False

    @property
    def job(self) -> Job:
        """The job of the newest generation that is known here."""
        return self._job

    @property
    def coordinator(self) -> Watched:
        """The coordinator, as it is known here."""
        return self._watched[self._job.coordinator]

    def leads(self) -> dict[str, Any]:
        """Return what the coordinator said last."""
        return self.coordinator.leads

    def epoch(self) -> EpochRow | None:
        """Return the epoch that holds now."""
        epochs = self._watched[self._trusted].epochs
        return epochs[-1] if epochs else None

    def epochs(self) -> tuple[EpochRow, ...]:
        """Return the configurations so far."""
        return max((tuple(member.epochs) for member in self._watched), key=len)

    def pending(self) -> str:
        """Return the topology that is requested and does not hold yet."""
        request, epoch = self.requested(), self.leads().get("epoch")
        if not request or not epoch:
            return ""
        requested = Epoch(**request).how
        return requested if requested != Epoch(**epoch).how else ""

    def requested(self) -> dict[str, Any] | None:
        """Return the configuration that is requested and does not hold yet, if any."""
        return None if self.finished.done() else self.leads().get("pending")

    def versions(self) -> dict[str, str]:
        """Return the versions of psring and Python, and the commit."""
        return versions_here()

    def step(self) -> int:
        """Return the number of committed steps."""
        return max(member.step for member in self._watched)

    def state(self) -> str:
        """Return running, paused, done or failed."""
        if self.finished.done() and not self._is_closed:
            return "failed" if self.finished.exception() else "done"
        return "paused" if self.leads().get("paused") else "running"

    def trace(self) -> Trace:
        """Return what is known so far; costs the same however much that is."""
        return self._trace(self.rows.since())

    def news(self, cursors: Cursors) -> tuple[Trace, Cursors]:
        """Return what came after `cursors` (() for the start), and where it ends.

        Epochs and totals are always whole.
        """
        tables = self.rows.since(cursors)
        return self._trace(tables), tables.cursors

    def _trace(self, read: Tables) -> Trace:
        totals = np.concatenate([member.totals for member in self._watched])
        transfers, spans, steps, measures = read.tables
        tasks = tuple(map(str, self._job.tasks))
        tables = (transfers, spans, steps, totals)
        saves = self.coordinator.saves
        trace = Trace(tasks, self.epochs(), *tables, saves, measures, read.kept)
        return replace(trace, insecure=self._job.settings.insecure)

    def n_steps(self) -> dict[tuple[int, int], int]:
        """Return by member and epoch how many steps it has done, exact."""
        return {
            (member, epoch): n_steps
            for member, item in enumerate(self._watched)
            for epoch, n_steps in item.n_steps.items()
        }

    def flight(self) -> Flight:
        """Return what all members do and wait for, as far as is known here."""
        pairs = zip(self._job.tasks, self._watched, strict=True)
        seen = [
            member.seen(task.short, is_worker=task.job != "ps")
            for task, member in pairs
        ]
        error = self.finished.exception() if self.state() == "failed" else None
        return flight(
            seen,
            self.trace(),
            time.monotonic_ns(),
            missing=self.leads().get("missing", ()),
            error=error if isinstance(error, KitError) else None,
            is_paused=self.state() == "paused",
        )

    def lost(self) -> dict[int, str]:
        """Return the members that are gone, and what was said of them."""
        return gone(
            self._watched, self.leads().get("lost", {}), is_done=self._is_done()
        )

    def _is_done(self) -> bool:
        return self._watched[self._trusted].state == "done"

    def is_silent(self, member: int) -> bool:
        """Whether a member was not heard for as long as a suspect."""
        limit_s = self._job.settings.suspect_after_s
        return self._watched[member].silent_s(time.monotonic()) > limit_s

    def stuck_tasks(self) -> list[Task]:
        """Return the tasks in which a step goes on although the training has ended."""
        return hosts_of(self._job, self._watched)

    def changes(self) -> tuple[Change, ...]:
        """Return why the generations of an elastic training followed each other."""
        changes: tuple[Change, ...] = self._job.generation.changes
        return changes

    def unrepeatable(self) -> dict[int, int]:
        """Return by member the first step that had another loss when done again.

        Asynchronous steps may: they meet other parameters then.
        """
        if any(row.is_asynchronous for row in self.epochs()):
            return {}
        steps_differing = {
            n: member.once.differs_at
            for n, member in enumerate(self._watched)
            if member.once
        }
        return {member: step for member, step in steps_differing.items() if step >= 0}

    def wait(self, timeout: float | None) -> None:
        """Block until the training is over; see `Run.wait`."""
        try:
            self.finished.result(timeout)
        except NotInTime:
            if self.finished.done():
                raise
            raise DeadlineExceededError(
                f"the training is at step {self.step()} of {self._job.steps} after "
                f"{timeout:g} s; it goes on. Wait longer, or end it with run.stop(); "
                f"run.flight() shows who waits for whom."
            ) from None

    # -- what takes members that can be asked: see `Observer` --------------------

    def command(self, what: str, **values: Any) -> None:
        """Send a request to the coordinator."""
        raise over()

    def reach(self, member: int) -> Caller:
        """Return a link for questions to a member, which the caller closes."""
        raise over()

    def at_end(self, call: Callable[[KitError | None], None]) -> bool:
        """Call back with what it failed with, before `finished` is set; if it will."""
        return False

    def let_tell(self, teller: Teller) -> None:
        """Show what steps and hooks print and report, from the first line on."""

    def catch_up(self, timeout: float) -> None:
        """Wait until all that members had recorded is here, or they are over."""

    def close(self) -> None:
        """Stop watching; what is known stays."""

    def params(self) -> bytearray:
        """Return the flat parameters of the last committed step."""
        raise over()

    def final(self) -> bytearray | None:
        """Return the flat parameters with which it ended, None if nobody had them."""
        return None


# --------------------------------------------------------------------------------------
# What is said to those who ask too late.


def over() -> FailedPreconditionError:
    """Return what a command to a training that is over is refused with."""
    return FailedPreconditionError(
        "the training is over; start another one with kit.train()."
    )


def closed(run: str, step: int) -> CancelledError:
    """Return what is raised for a training that was to be watched no more."""
    return CancelledError(
        f"run.close() ended the watching of the training {run[:8]} at step {step}; it "
        f"goes on in its tasks. Take the run of kit.attach(...) to watch it again."
    )


# --------------------------------------------------------------------------------------
# What becomes of tasks in which a step goes on although its training has ended.


class StuckTasks:
    """Restarts the tasks of one training that are stuck at its end, and says so.

    Attributes:
        restart: gives a task a new process; None where nobody here can.
        said: what became of each, for the user.
    """

    def __init__(self) -> None:
        self.restart: Callable[[Task], None] | None = None
        self.said: list[str] = []

    def end(
        self, tasks: Sequence[Task], finished: Future[None], error: KitError | None
    ) -> None:
        """Give these tasks new processes, then say that the training has ended so."""
        self.said = [self._come_back(task) for task in tasks]
        if error is None:
            finished.set_result(None)
        else:
            for text in (*self.said, f"{LOOK}."):
                error.add_note(text)
            finished.set_exception(error)

    def _come_back(self, task: Task) -> str:
        said = f"The step in {task.short} goes on although the training has ended"
        if self.restart is None:
            return f"{said}: end its process, it can begin no other training."
        try:
            self.restart(task)
        except (
            Exception,
            asyncio.CancelledError,
        ) as error:  # a cluster may be stopped now
            return f"{said}, and it could not be restarted: {error}"
        return f"{said}, so it was restarted: its variables are gone."


def hosts_of(job: Job, watched: Sequence[Watched]) -> list[Task]:
    """Return the tasks in whose processes members of a training are stuck."""
    stuck = [number for number, member in enumerate(watched) if member.stuck]
    return [*dict.fromkeys(map(job.process_of, stuck))]
