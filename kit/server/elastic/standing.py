"""What a process knows of an elastic training, and which generation has its log."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from kit.errors import AbortedError, Fenced, KitError
from kit.server.elastic.begun_here import Begun
from kit.training.core.job import Job
from kit.training.core.log import DecisionLog
from kit.training.features.elastic.generation import Generation

Plain = dict[str, Any]


class Standing:
    """The state of one process; hold `changed` to change it.

    Attributes:
        me: the process, by the task that it was started for.
        job: that of the newest generation that has begun here, or is known here.
        has_begun: whether a generation has begun here since the process joined.
        claimed: the number of the generation that this process lets have the log: it
            takes part in no lower one any more, and notes nothing for it.
        heard: the highest number for which a process has refused ours.
        later: the newest generation that has begun on the host of any process that was
            asked, as far as that is known.
        noticed: when and why the newest generation failed; None if it has not.
        began_at: when the newest generation began here.
        failing_since: since when each generation has failed before it made progress.
        established: the number of the newest generation, if it is known to have begun
            everywhere.
        noted: the log of the newest run, as far as its coordinator said.
        joining: the processes that ask to take part.
        seen: the step up to which the notebook has seen the training, if it said so.
        error: what ended the training for this process.
        is_closed: whether the process no longer takes part.
        clock: returns the time in seconds.
    """

    def __init__(self, me: str, job: Job, clock: Callable[[], float]) -> None:
        self.me, self.job, self.clock = me, job, clock
        self.has_begun = False
        self.claimed = self.heard = 0
        self.later = Begun()
        self.noticed: tuple[float, str] | None = None
        self.began_at = 0.0
        self.failing_since: float | None = None
        self.joining: set[str] = set()
        self.established = 0
        self.noted: DecisionLog | None = None
        self.seen = 0
        self.error: KitError | None = None
        self.is_closed = False
        # Re-entrant, as what is done under it calls methods that take it.
        self.changed = threading.Condition(threading.RLock())

    @property
    def generation(self) -> Generation:
        """The newest generation that is known here."""
        generation: Generation = self.job.generation
        return generation

    def establish(self, number: int) -> None:
        """Note that a generation has begun everywhere."""
        if number == self.generation.number:
            self.established = number

    @property
    def former(self) -> tuple[str, ...]:
        """The processes of the generation before, whose logs must be claimed as well.

        Until the newest is known to have begun everywhere: those that have not heard of
        it could go on without it.
        """
        now = self.generation
        return () if self.established == now.number else now.before

    @property
    def elsewhere(self) -> tuple[str, ...]:
        """The processes of a later generation than the newest that is known here."""
        is_later = self.later.number > self.generation.number
        return self.later.processes if is_later else ()

    @property
    def is_over(self) -> bool:
        """Whether no generation begins here any more."""
        return self.is_closed or self.error is not None

    @property
    def takes_part(self) -> bool:
        """Whether this process takes part in the newest generation, or is over."""
        is_in = self.has_begun and self.me in self.generation.processes
        return self.is_over or is_in

    def has_moved(self, number: int) -> bool:
        """Whether there is a newer generation than `number`, or none comes."""
        return self.is_over or self.generation.number > number

    def takes(self, run: str) -> bool:
        """Whether a request of a run may still be noted here.

        Not once a later generation has claimed the log: its coordinator has been told
        already what is noted here, and would not hear of more.
        """
        has_log = self.has_begun and self.claimed == self.generation.number
        return run == self.job.run and has_log and not self.is_closed

    def note(self, log: DecisionLog) -> None:
        """Keep a log of what is decided, unless a newer one is here."""
        if self.noted is None or log.age >= self.noted.age:
            self.noted = log

    def check(self, number: int) -> None:
        """Raise `AbortedError` unless generation `number` has claimed the log last."""
        with self.changed:
            if number != self.claimed or self.is_closed:
                raise AbortedError(
                    f"generation {self.claimed} has claimed the log of {self.me}, "
                    f"which takes no part in generation {number} any more.",
                    task=self.me,
                )

    def leave(self) -> None:
        """Stop taking part, as this process was asked to."""
        text = f"{self.me} has left the training, as it was asked to."
        self.fail(Fenced(text, task=self.me))

    def fail(self, error: KitError) -> None:
        """End the training for this process; the first error counts."""
        with self.changed:
            self.error = self.error or error
            self.changed.notify_all()
