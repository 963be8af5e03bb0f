"""Which configuration holds for which steps, and how all members agree on the next.

Pure: no clock, no lock, no link; `kit.training.core.coordinator` gives it those. An
epoch is a numbered, immutable configuration. What changes it (another topology, another
link speed, the start itself) is agreed at a boundary between two steps.

Theory of operation
-------------------

The members are the tasks of the job, numbered by their place in it. The first worker is
the coordinator: its task holds the `TrainingCoordinator`, and its step loop asks that,
before it contributes to a step, whether all have to meet after it. If so, a halt
travels with the messages of that very step, so each member that completes the step
knows of it, and nobody can be a step further. Asynchronous members come to the boundary
as each hears of it. Members come to the coordinator, never the other way round:

    members   arrive ------------------> prepare ----------> go on
                     all are there: what             all could: commit
                     is requested now?                  one could not: nobody does

*Boundaries.* Every member counts its boundaries. A fast one may come to the
next before a slow one has read the answer of the last, so an arrival is taken at the
next boundary and at the one before, and nowhere else. When all members that are not
lost are there, the verdict is decided once, in this order: a checkpoint to save; a copy
for the memory of other tasks; the end, which waits for a checkpoint that is being
written; an epoch to prepare; a pause, which is no verdict yet; to go on. The step is
the largest that a member came with. Synchronous members all come with the same;
asynchronous ones have made different numbers of updates. Time before the start is epoch
0, and the first boundary proposes epoch 1. After the last copy of a generation of an
elastic training there is no verdict any more: all stay there.

*Halts.* Where every result depends on all workers, a member that completes a step knows
what the coordinator knew at its start. Elsewhere (`Topology.agrees`) news reaches one
more neighbour with each step. So the coordinator asks before its step s whether all are
to meet before step s + `ahead`, and what is due sooner comes with the verdict to go on.

*Epochs.* To prepare changes nothing. Each member says that it could, or why not; when
all have spoken, all hear COMMIT or all hear ABANDON. The first epoch alone cannot be
abandoned: then the training fails. On COMMIT a member ends what its steps had started,
moves what the change needs (parameters at the start, at a switch the optimizer's slots,
for members that have only what they pulled last the parameters too), and binds the new
plan. It comes to the next boundary before it does a step.

*Asked twice.* A cut line may lose an answer, so each question may be heard again.
Arrivals and readiness are entries of a table, and the verdict is kept: a repeated
question finds the same answer. WAIT means "ask again", not that nothing was noted.

*Who is lost* the coordinator says, when a member was silent for `dead_after_s` or its
links have closed before it left. No boundary waits for one that the training can spare.

*Ends.* After the last step, or a stop, the verdict is FINISH: from then on no report
can make the training fail. Members take their leave, and the coordinator's task stays
until all have, or `stop_deadline_s` is over; a member that is gone by then counts as
having left. Where workers do not agree after a step (`Topology.agrees`), the last step
is done in a topology in which they do, and so is one more after a stop. A failure is
raised at whatever a member asks next, and is in the answer to its next heartbeat, which
ends its waits. If the coordinator's task is gone, every other member finds out by its
own heartbeat and ends with `PeerLost`. It is a failure too when a worker has waited at
a boundary for `step_deadline_s` and not all are there, or not all have been ready for
what was proposed for as long: the error names those that are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Concatenate, NamedTuple

from kit.errors import (
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    KitError,
)
from kit.exchange.ports.port import NO_HALT
from kit.exchange.topologies.topology import agreeing
from kit.training.core.log import DecisionLog, Decisions, Epoch, SaveTurns, Values


class Verdict(Enum):
    """What a member should do now."""

    WAIT = "wait"  # not all are there, or the training is paused
    GO = "go"  # carry on as before
    PREPARE = "prepare"  # get ready for the epoch, then report
    COMMIT = "commit"  # all are ready: the epoch begins
    ABANDON = "abandon"  # one could not: carry on as before
    SAVE = "save"  # copy what is yours, then come to the next boundary
    COPY = "copy"  # the same, for the memory of another task
    FINISH = "finish"  # the training is over


class BoundaryReply(NamedTuple):
    """What a member is to do, the epoch proposed, why not, at which step.

    `halt`, with GO: the first step that nobody may begin, if that is known already.
    """

    verdict: Verdict
    epoch: Epoch | None
    reason: str
    step: int
    halt: int = NO_HALT

    def to_plain(self) -> dict[str, Any]:
        """Return it as data that JSON can carry."""
        epoch = self.epoch.to_plain() if self.epoch else None
        return {**self._asdict(), "verdict": self.verdict.value, "epoch": epoch}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> BoundaryReply:
        """Rebuild it from `to_plain`."""
        epoch = Epoch(**plain["epoch"]) if plain["epoch"] else None
        verdict, reason = Verdict(plain["verdict"]), str(plain["reason"])
        return cls(verdict, epoch, reason, int(plain["step"]), int(plain["halt"]))


@dataclass
class Boundary:
    """One boundary: who has arrived, what was proposed, who is ready for it."""

    arrived: dict[int, int] = field(default_factory=dict)  # member -> step
    prepared: dict[int, str | None] = field(default_factory=dict)  # -> why not
    proposal: Epoch | None = None
    verdict: Verdict = Verdict.WAIT
    outcome: Verdict = Verdict.WAIT
    reason: str = ""
    step: int = 0  # the step that all stand before
    halt: int | None = None  # given with GO: the step that nobody may begin


class Agreement:
    """The coordinator's account of one training's epochs.

    >>> agreement = Agreement([0, 1], Epoch(0, "ring"), steps=10)
    >>> agreement.arrive(0, 0, step=0); agreement.arrive(1, 0, step=0)
    >>> agreement.verdict(0), agreement.boundaries[0].proposal.number
    (<Verdict.PREPARE: 'prepare'>, 1)
    """

    def __init__(
        self,
        members: Sequence[int],
        start: Epoch,
        steps: int,
        *,
        saves: bool = False,
        ends_together: bool = False,
        log: DecisionLog | None = None,
    ) -> None:
        """`start` is epoch 0: what should hold from the first step on.

        What is decided goes to the `log`, which may go on from other coordinators.

        With `saves`, the training does not end before its last state is saved, or an
        attempt to do so has failed. One that `ends_together` ends, if it is
        asynchronous, with an epoch of no steps in which all take the newest parameters
        from the servers: somebody there looks at them.
        """
        self.members = frozenset(members)
        self.epoch = start
        self.steps = steps
        self.boundaries: dict[int, Boundary] = {}
        self.error: KitError | None = None
        self.log = log or DecisionLog(Decisions(start))
        self._generation = self.log.generation
        self._is_ending = False  # whether they must agree now, whatever is requested
        self.is_finished = False  # whether the end was agreed
        self._ends_together, self._saves_last = ends_together, saves
        self.is_copy_due = False  # whether the state is to be copied to other tasks
        self._is_last_copy = False  # whether no step is to be done after that copy
        self.is_held = False  # whether that copy was agreed: all stay where they are

    @property
    def now(self) -> Decisions:
        """What is decided, by this coordinator and those before it."""
        return self.log.now

    @property
    def lost(self) -> frozenset[int]:
        """The members that the training goes on without."""
        return self.now.without

    def append(
        self,
        entry: Callable[Concatenate[Decisions, Values], Decisions],
        *args: Values.args,
        **values: Values.kwargs,
    ) -> None:
        """Append a decision to the log."""
        self.log.append(self._generation, entry, *args, **values)

    def command(self, what: str, nonce: str = "", /, **values: Any) -> None:
        """Note a request; one that is repeated, by its `nonce`, counts once."""
        if what == "pause" and values.get("steps"):
            met = [
                max(boundary.arrived.values(), default=0)
                for boundary in self.boundaries.values()
            ]
            values["to"] = max([self.now.reached, *met]) + values["steps"]
        self.append(Decisions.command, what, values, nonce)

    def _take_up(self, step: int, *, stands: bool = False) -> Decisions:
        """Turn requests for a step not after `step` into what is requested now.

        `stands`: all members stand before it, and it is none that is repeated.
        """
        now = self.log.now
        if (now.later and now.later[0][0] <= step) or (stands and now.budget):
            self.append(Decisions.take_up, step, stands)
            now = self.log.now
        # The last step, and one more after a stop, is done in a topology in which
        # workers agree. Steps that are repeated after a loss are done as they were: a
        # stop that was requested after them must not change them.
        is_stopped = now.is_stopped and step >= now.reached
        self._is_ending = self._is_ending or is_stopped or step >= self.steps - 1
        return now

    def fail(self, error: KitError) -> None:
        """End the training with an error; the first one counts.

        A training that is known to be complete cannot fail any more: its members leave
        one after the other, and one that is gone has left.
        """
        if not self.is_finished:
            self.error = self.error or error

    @property
    def is_over(self) -> bool:
        """Whether the end was agreed, or the training has failed."""
        return self.is_finished or self.error is not None

    @property
    def expected(self) -> Epoch | None:
        """The configuration that is requested, and does not hold yet."""
        return self._due(self.now.foreseen())

    def _due(self, requested: Epoch) -> Epoch | None:
        """Return what is to hold of what is requested, unless it holds already.

        What is requested stays so: steps that are done again after a loss are done in
        what was requested for them.
        """
        if self._is_ending:
            requested = replace(requested, topology=agreeing(requested.topology))
        holds = self.epoch.number and self.epoch.is_like(requested)
        return None if holds else requested

    def call_copy(self, *, is_last: bool = False) -> None:
        """Let all copy at the next boundary where they may; after the last all stay."""
        self.is_copy_due, self._is_last_copy = True, self._is_last_copy or is_last

    @property
    def _may_copy(self) -> bool:
        """Whether to copy now: not while a checkpoint is being written.

        If that save is lost with a process, the steps that lead to it are to be done
        again, and the save with them; from a copy of a later step they would not be.
        """
        return self.is_copy_due and self.now.turns.writing is None

    def wants_halt(self, step: int) -> bool:
        """Whether all members must meet before the step after `step` begins."""
        now = self._take_up(step + 1)
        if self._may_copy or self._due(now.requested) is not None:
            return True
        # Steps that are done again: a save, a pause or a stop came after them.
        if step + 1 < now.reached:
            return False
        return now.turns.is_called or now.is_stopped or now.stands(step + 1)

    def arrive(self, member: int, number: int, step: int) -> None:
        """Note that a member stands at its boundary `number`, before `step`.

        Raises `InvalidArgumentError` for a boundary to which no member can have come
        yet or any more, and for a step that the training does not have.
        """
        self._check(member)
        wait = Verdict.WAIT
        decided = [
            n for n, boundary in self.boundaries.items() if boundary.verdict is not wait
        ]
        # The boundary before is open too: a slow member may ask there again, because
        # its answer was lost, when a fast one has come to the next already.
        due = max(decided, default=-1) + 1
        if not due - 1 <= number <= due:
            raise InvalidArgumentError(
                f"member {member} came to boundary {number}, and boundary {due} is the "
                f"next; each member counts them one by one from 0."
            )
        if step > self.steps and self.epoch.synchronous:
            raise InvalidArgumentError(
                f"member {member} came to step {step} of a training of {self.steps}."
            )
        self.boundaries.setdefault(number, Boundary()).arrived[member] = step
        # A member may still ask about the boundary before this one, never about older.
        self.boundaries.pop(number - 3, None)

    def missing(self, number: int) -> frozenset[int]:
        """Return the members that have not arrived (or are not ready) yet."""
        return self._missing(self.boundaries.get(number, Boundary()))

    @property
    def awaited(self) -> frozenset[int]:
        """The members for which others wait at the newest boundary that any is at."""
        begun = [n for n, boundary in self.boundaries.items() if boundary.arrived]
        return self.missing(max(begun)) if begun else frozenset()

    def _missing(self, boundary: Boundary) -> frozenset[int]:
        prepares = boundary.verdict is Verdict.PREPARE
        there = boundary.prepared if prepares else boundary.arrived
        return self.members - self.lost - there.keys()

    def lose(self, member: int) -> None:
        """Go on without a member: no boundary waits for it."""
        self.append(Decisions.spare, member)
        for boundary in self.boundaries.values():
            is_open = boundary.outcome is Verdict.WAIT and not self._missing(boundary)
            if boundary.verdict is Verdict.PREPARE and is_open:
                self._conclude(boundary)

    def verdict(self, number: int) -> Verdict:
        """Return what to do at a boundary; raises the error of a failed training."""
        if self.error is not None:
            raise self.error
        boundary = self.boundaries.setdefault(number, Boundary())
        if boundary.verdict is Verdict.WAIT and not self.missing(number):
            self._decide(boundary)
        return boundary.verdict

    def _decide(self, boundary: Boundary) -> None:
        boundary.step = step = max(boundary.arrived.values())
        repeats = step < self.now.reached
        now = self._take_up(step, stands=not repeats)
        requested, has_begun = self._due(now.requested), self.epoch.number > 0
        is_stopped = now.is_stopped and not repeats and not now.is_apart(step)
        # A training of no steps begins, too: before the first epoch only one member has
        # parameters.
        ends = has_begun and (is_stopped or step >= self.steps)
        may_save = has_begun and not repeats
        if self.is_held:
            return  # WAIT for ever: the generation ends here, where all have copied
        # Saves come before all that moves the state, and before the end.
        if may_save and now.turns.is_due(step, is_last=ends and self._saves_last):
            boundary.verdict = Verdict.SAVE
            self.append(Decisions.save, SaveTurns.agree, step)
        elif has_begun and self._may_copy and not ends:
            boundary.verdict, self.is_copy_due = Verdict.COPY, False
            self.is_held = self._is_last_copy
        elif ends and self._ends_together and not self.epoch.synchronous:
            self._ends_together = False  # tried once: it is no reason to fail
            self._propose(boundary, replace(self.epoch, synchronous=True))
        elif ends and now.turns.writing is None:
            boundary.verdict, self.is_finished = Verdict.FINISH, True
        elif ends:
            return  # WAIT: what is being written is complete before the training is
        elif requested is not None:
            self._propose(boundary, requested)
        elif repeats or now.is_stopped or not now.stands(step):
            boundary.verdict = Verdict.GO
        # else WAIT: the training is paused

    def _propose(self, boundary: Boundary, epoch: Epoch) -> None:
        number, step = self.epoch.number + 1, boundary.step
        boundary.proposal = replace(epoch, number=number, first_step=step)
        boundary.verdict = Verdict.PREPARE

    @property
    def _agrees(self) -> bool:
        """Whether all workers have the same parameters after a step of this epoch."""
        return agreeing(self.epoch.topology) == self.epoch.topology

    def prepared(self, member: int, number: int, refusal: str | None = None) -> None:
        """Note that a member is ready for the proposal, or why it cannot.

        Raises `InvalidArgumentError` where nothing was proposed.
        """
        self._check(member)
        boundary = self.boundaries.get(number)
        if boundary is None or boundary.verdict is not Verdict.PREPARE:
            raise InvalidArgumentError(
                f"member {member} prepared for boundary {number}, where nothing is "
                f"proposed."
            )
        boundary.prepared[member] = refusal
        if boundary.outcome is Verdict.WAIT and not self.missing(number):
            self._conclude(boundary)

    def outcome(self, number: int) -> Verdict:
        """Return whether the proposal holds; raises as `verdict` does."""
        if self.error is not None:
            raise self.error
        return self.boundaries[number].outcome

    def _conclude(self, boundary: Boundary) -> None:
        if boundary.proposal is None:
            raise InternalError("members prepared where nothing was proposed.")
        refusals = sorted(set(filter(None, boundary.prepared.values())))
        reasons = "; ".join(refusals)
        is_ending = self.now.is_stopped or boundary.step >= self.steps - 1
        if refusals and not self.epoch.number:
            self.fail(FailedPreconditionError(f"the training cannot begin: {reasons}"))
        elif refusals and is_ending and not self._agrees:
            what = "the workers cannot agree on parameters at the end"
            self.fail(FailedPreconditionError(f"{what}: {reasons}"))
        elif refusals:
            boundary.outcome, boundary.reason = Verdict.ABANDON, reasons
            # Else it would be proposed, and refused, at every boundary.
            self.append(Decisions.refuse, reasons, holds=self.epoch.to_plain())
        else:
            boundary.outcome, self.epoch = Verdict.COMMIT, boundary.proposal
            self.append(Decisions.begin, self.epoch.to_plain(), self._agrees)

    def near_halt(
        self, number: int, ahead: int, wants_halt: Callable[[int], bool]
    ) -> int:
        """Return the halt that is due too soon to be announced on the way.

        `wants_halt` is asked about each step in its order, as on the way.
        """
        boundary = self.boundaries[number]
        if boundary.verdict is not Verdict.GO:
            return NO_HALT
        # Once for all members of the boundary: what is requested between two of their
        # questions would halt some of them earlier than others.
        if boundary.halt is None:
            near = range(boundary.step + 1, boundary.step + ahead)
            due = (step for step in near if wants_halt(step - 1))
            boundary.halt = next(due, NO_HALT)
        return boundary.halt

    def _check(self, member: int) -> None:
        if member not in self.members:
            raise InternalError(f"{member} is not a member; there are {self.members}.")


# --------------------------------------------------------------------------------------
# Whether a training stands where it was asked to stand, or is still on its way there.


def halting(agreement: Agreement) -> str:
    """Return what is requested of a training and waits for the end of a step.

    One of "pausing", "stopping" and "".

    >>> from kit.training.core.log import Epoch
    >>> agreement = Agreement([0], Epoch(1, "ring"), steps=10)
    >>> agreement.arrive(0, 0, step=0); agreement.command("pause")
    >>> halting(agreement)
    ''
    >>> agreement.command("resume"); agreement.verdict(0)
    <Verdict.GO: 'go'>
    >>> agreement.arrive(0, 1, step=1); agreement.command("pause", steps=2)
    >>> agreement.verdict(1), halting(agreement)
    (<Verdict.GO: 'go'>, 'pausing')
    """
    if agreement.is_finished or agreement.error is not None:
        return ""
    if agreement.now.is_stopped:
        return "stopping"
    newest = max(agreement.boundaries, default=-1)
    waits = newest >= 0 and agreement.boundaries[newest].verdict is Verdict.WAIT
    stands = waits and not agreement.missing(newest)
    return "pausing" if agreement.now.is_paused and not stands else ""
