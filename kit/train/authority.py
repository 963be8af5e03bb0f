"""The coordinator's side of a training: the agreement with a lock, and who is alive.

Members come to it, never the other way round: they arrive at boundaries, report that
they are ready, and send a heartbeat, whose answer tells them of a failure. So nobody
has to be reached in order to be stopped.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kit.errors import (
    DeadlineExceededError,
    InternalError,
    KitError,
    MemberMismatch,
    PeerLost,
)
from kit.membership import Agreement, Epoch, Verdict
from kit.train.job import Job
from kit.train.terms import difference, terms_of


class Answer(NamedTuple):
    """What a member is told: what to do, the epoch proposed, why not, at which step."""

    verdict: Verdict
    epoch: Epoch | None
    reason: str
    step: int


class Authority:
    """Owns the epochs of one training. Every method may be called from any thread."""

    def __init__(self, job: Job, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with epoch 0, before any member has come."""
        self._job, self._clock = job, clock
        self._changed = threading.Condition()
        self._agreement = Agreement(range(len(job.tasks)), job.start, job.steps)
        # Who has not been heard of yet may still be starting: others wait for its
        # links.
        self._heard: dict[int, float] = {}
        self._told: set[int] = set()
        self._left: set[int] = set()
        self._waiting_since: dict[int, float] = {}
        self._watched = clock()

    def arrive(self, member: int, number: int, step: int, patience_s: float) -> Answer:
        """Take a member to its boundary; WAIT after `patience_s`: ask again."""
        with self._changed:
            self._heard.setdefault(member, self._clock())
            self._agreement.arrive(member, number, step)
            if member in self._job.workers:  # an idle server waits as long as it takes
                self._waiting_since.setdefault(number, self._clock())
            self._changed.notify_all()
            verdict = self._until(patience_s, lambda: self._agreement.verdict(number))
            meeting = self._agreement.rounds[number]
            return Answer(verdict, meeting.proposal, "", meeting.step)

    def prepared(
        self, member: int, number: int, refusal: str | None, patience_s: float
    ) -> Answer:
        """Note that a member is ready; WAIT after `patience_s`: ask again."""
        with self._changed:
            self._agreement.prepared(member, number, refusal)
            self._changed.notify_all()
            verdict = self._until(patience_s, lambda: self._agreement.outcome(number))
            meeting = self._agreement.rounds[number]
            return Answer(verdict, meeting.proposal, meeting.reason, meeting.step)

    def _until(self, patience_s: float, ask: Callable[[], Verdict]) -> Verdict:
        end = self._clock() + patience_s
        while (verdict := ask()) is Verdict.WAIT:
            rest = end - self._clock()
            if rest <= 0:
                break
            self._changed.wait(rest)
        return verdict

    def wants_halt(self, step: int) -> bool:
        """Whether all members must meet after `step`; cheap, asked before each step."""
        with self._changed:
            return self._agreement.wants_halt(step)

    def beat(self, member: int) -> KitError | None:
        """Note that a member lives; returns what the training failed with."""
        self._heard[member] = self._clock()
        return self._agreement.error

    def join(self, member: int, terms: Mapping[str, str]) -> str | None:
        """Take in a member that came by itself; returns the run that it shall join.

        None when there is nothing to join for it: this training is over, or the member
        is in it already and asks for the next one. Raises what the training failed
        with, once to each member, and `MemberMismatch`, with which it fails for all,
        when `terms` are not those of the coordinator's job.
        """
        with self._changed:
            if member in self._told:
                return None
            self._told.add(member)
            if self._agreement.error is not None:
                raise self._agreement.error
            if self._agreement.is_finished:
                return None
            found = difference(terms_of(self._job), terms)
            if found:
                name = str(self._job.tasks[member])
                leader = self._job.tasks[self._job.coordinator]
                error = MemberMismatch(
                    f"{name} would train something else than {leader}, which leads: "
                    f"{found}. Give kit.train() the same arguments on all workers.",
                    task=name,
                )
                self._agreement.fail(error)
                self._changed.notify_all()
                raise error
            return self._job.run

    @property
    def error(self) -> KitError | None:
        """What the training failed with."""
        return self._agreement.error

    def leave(self, member: int) -> None:
        """Note that a member has ended in good order."""
        with self._changed:
            self._left.add(member)
            self._changed.notify_all()

    def see_off(self, timeout_s: float) -> bool:
        """Wait until all members have left; whether they have.

        Who leads stays until the others have heard that the training is over.
        """
        everybody = self._agreement.members
        with self._changed:
            return self._changed.wait_for(lambda: self._left >= everybody, timeout_s)

    def fail(self, error: KitError) -> None:
        """End the training for all members; the first error counts."""
        with self._changed:
            self._agreement.fail(error)
            self._changed.notify_all()

    def gone(self, member: int, reason: str) -> None:
        """Take a closed link: unless the member left in order, the training fails."""
        if member in self._left:
            return
        name = str(self._job.tasks[member])
        text = f"{name} is gone: {reason}. The training cannot go on without it."
        self.fail(PeerLost(text, task=name))

    def watch(self) -> None:
        """Find members that are silent, and boundaries that not all come to."""
        now = self._clock()
        limits = self._job.settings
        if now - self._watched > limits.suspect_after_s:
            # We were not awake ourselves: nobody could be heard.
            self._heard = dict.fromkeys(self._heard, now)
        self._watched = now
        for member, heard in list(self._heard.items()):
            if now - heard > limits.dead_after_s:
                self.gone(member, f"it has been silent for {now - heard:.1f} s")
        with self._changed:
            self._watch_rounds(now, limits.step_deadline_s)

    def _watch_rounds(self, now: float, deadline_s: float) -> None:
        agreement = self._agreement
        for number, since in list(self._waiting_since.items()):
            if number < max(self._waiting_since) - 2:
                del self._waiting_since[number]
            elif now - since > deadline_s and agreement.missing(number):
                self._late(agreement.missing(number), number, deadline_s)

    def _late(self, missing: frozenset[int], number: int, deadline_s: float) -> None:
        names = ", ".join(str(self._job.tasks[member]) for member in sorted(missing))
        text = (
            f"{names} did not come to boundary {number} within {deadline_s:g} s. "
            f"Allow more with settings(step_deadline_s=...)."
        )
        self._agreement.fail(DeadlineExceededError(text, task=names))
        self._changed.notify_all()

    def command(self, what: str, **values: Any) -> None:
        """Note a wish of the user; it is taken up at the next boundary.

        Raises `InvalidArgumentError` for a topology that these members cannot form.
        """
        with self._changed:
            agreement = self._agreement
            if what == "configure":
                if values.get("topology") is not None:
                    self._job.check_topology(values["topology"])
                agreement.wish(**values)
            elif what == "pause":
                agreement.pause(int(values.get("steps", 0)))
            elif what == "resume":
                agreement.resume()
            elif what == "stop":
                agreement.stop()
            else:
                raise InternalError(f"{what!r} is no command.")
            self._changed.notify_all()

    def status(self) -> dict[str, Any]:
        """Return what the training is in: epoch, wish, pause and failure."""
        agreement = self._agreement
        pending = agreement.pending
        return {
            "epoch": agreement.epoch.to_plain(),
            "pending": pending.to_plain() if pending else None,
            "paused": agreement.is_paused,
            "abandoned": agreement.abandoned,
        }
