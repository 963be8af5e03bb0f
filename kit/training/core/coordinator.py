"""The coordinator's side of a training: the agreement with a lock, and who is alive.

Theory of operation. Members come to it, never the other way round: they arrive at
boundaries, report that they are ready, and send heartbeats; the answers report a
failure. So no member has to be reached in order to be stopped. It decides alone, under
one lock: what changes the training is an entry of the log, by `Agreement`. `watch`,
which the heart of its own member calls, finds who is silent or late; `fail` takes every
report and `gone` every end of a link, and both end the training or do without a member.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from kit import arithmetic
from kit.errors import Fenced, KitError, PeerLost, UnavailableError
from kit.exchange.topologies.topology import by_name, steps_to_all
from kit.features import load
from kit.training.core import failures
from kit.training.core.agreement import Agreement, BoundaryReply, Verdict, halting
from kit.training.core.conflicts import check_change
from kit.training.core.digests import DigestReport
from kit.training.core.failures import Damage, Latecomers, Stopping, Suspicions
from kit.training.core.job import Job
from kit.training.core.log import DecisionLog, Decisions, SaveTurns, check_command
from kit.training.core.terms import difference, terms_of
from kit.training.data.agreement import DataComparison, DataReport

_LOOK_S: Final = 0.1  # between two checks whether the caller has hung up
HungUp = Callable[[], bool]


def never() -> bool:
    """Return False: the caller that waits for an answer is always there."""
    return False


class TrainingCoordinator:
    """Owns the epochs of one training. Every method may be called from any thread."""

    def __init__(
        self,
        job: Job,
        clock: Callable[[], float] = time.monotonic,
        hooks: Any = None,
        log: Mapping[str, Any] | None = None,
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        """Begin with epoch 0, before any member has come.

        `log` is that of the generation before, if there was one. `on_failure` is called
        when the training has failed: the member in the same process need not wait for
        its next sign of life to hear of it.
        """
        self._job, self._clock, self._hooks = job, clock, hooks
        self._on_failure = on_failure
        self._may_stop = hooks is not None and hooks.may_stop
        self._changed = threading.Condition()
        saves = job.checkpoints is not None
        kept = log_of(job, log)
        looks = hooks is not None and hooks.want_last
        members = range(len(job.tasks))
        self._agreement = Agreement(
            members, job.start, job.steps, saves=saves, ends_together=looks, log=kept
        )
        self._regrouping: Any = None  # where it is elastic
        if job.generation.is_followed:
            regrouping = load("kit.training.features.elastic.regrouping:Regrouping")
            self._regrouping = regrouping(job, self._agreement, clock)
        # None without checkpoints. It raises what kit.train raises at once.
        self.store: Any = None
        began, threads = 0, kept.now.threads
        if saves:
            store = load("kit.training.features.checkpointing.resume:CheckpointStore")
            self.store = store(job, self._saving, self._saved)
            began = self.store.step
            if self.store.resumed is not None:
                # It is saved: a training that ends at once must not save it again.
                self._agreement.append(Decisions.save, SaveTurns.succeed, began)
        #: What it computes with; its number of threads is that of all members.
        self.arithmetic = (
            self.store.going_on_with(threads)
            if saves
            else arithmetic.here(threads or None)
        )
        if not log:
            threads = self.arithmetic.threads
            self._agreement.append(Decisions.open, began, threads)
        elif kept.now.saves and self.save_coordinator.take_over(kept.now.saves):
            self._agreement.append(Decisions.ask_save)
        # A member that is not in it may still be starting: others wait for its links.
        self._heard: dict[int, float] = {}
        self._informed: set[int] = set()  # of what it failed with
        self._left: set[int] = set()
        self._latecomers = Latecomers()
        self._watched = clock()
        self._stopping = Stopping(job.settings.stop_deadline_s)
        self._damage = Damage(job, self._agreement)
        self._data = DataComparison()
        self._suspicions = Suspicions(job)

    def arrive(
        self,
        member: int,
        number: int,
        step: int,
        patience_s: float,
        has_hung_up: HungUp = never,
    ) -> BoundaryReply:
        """Take a member to its boundary; WAIT after `patience_s`: ask again.

        Also when the member `has_hung_up`: nobody waits for the answer then.
        """
        with self._changed:
            if member in self._agreement.lost:
                raise failures.left_behind(self._job, member)
            # Only heartbeats keep a member alive: arriving starts the watch over it.
            self._heard.setdefault(member, self._clock())
            self._agreement.arrive(member, number, step)
            if member in self._job.workers:  # an idle server waits as long as it takes
                self._latecomers.begin(number, self._clock())
            if not self._agreement.missing(number):
                self._judge(at_once=True)  # each reports its digests before it arrives
                if self._regrouping is not None and self._agreement.epoch.number == 1:
                    self._regrouping.call_copy()  # the first one of all
            ask = partial(self._agreement.verdict, number)
            verdict = self._wait(ask, patience_s, has_hung_up)
            boundary = self._agreement.boundaries[number]
            if verdict is Verdict.COPY and self._regrouping is not None:
                self._regrouping.copy_agreed(boundary.step)
            halt = self._agreement.near_halt(number, self.ahead, self.wants_halt)
            return BoundaryReply(verdict, boundary.proposal, "", boundary.step, halt)

    def prepared(
        self,
        member: int,
        number: int,
        refusal: str | None,
        patience_s: float,
        has_hung_up: HungUp = never,
    ) -> BoundaryReply:
        """Note that a member is ready; WAIT after `patience_s`: ask again."""
        with self._changed:
            self._agreement.prepared(member, number, refusal)
            ask = partial(self._agreement.outcome, number)
            verdict = self._wait(ask, patience_s, has_hung_up)
            was = self._agreement.boundaries[number]
            return BoundaryReply(verdict, was.proposal, was.reason, was.step)

    def _wait(
        self, ask: Callable[[], Verdict], patience_s: float, has_hung_up: HungUp
    ) -> Verdict:
        """Tell the others of a member's word; return the verdict once there is one."""
        self._changed.notify_all()
        end = self._clock() + patience_s
        while (verdict := ask()) is Verdict.WAIT:
            rest = end - self._clock()
            if rest <= 0 or has_hung_up():
                break
            self._changed.wait(min(rest, _LOOK_S))
        return verdict

    def compare(self, member: int, reports: Sequence[DigestReport]) -> None:
        """Take what a member reports of its parameters; damage ends the training."""
        with self._changed:
            for report in reports:
                is_same = self._damage.note(member, report, self._clock())
                if is_same and report.boundary >= 0 and self.store is not None:
                    key = report.step, report.boundary
                    self.store.save_coordinator.confirm(member, key)
            self._judge()

    def compare_data(self, member: int, reports: Sequence[DataReport]) -> None:
        """Take what a worker reports of its data; others than theirs end the training.

        Not what a lost member reports: it may have stopped in the middle of a step.
        """
        with self._changed:
            for report in reports if member not in self._agreement.lost else ():
                difference_seen = self._data.note(member, report)
                if difference_seen is not None and self._agreement.error is None:
                    self.fail(failures.other_data(self._job, member, *difference_seen))

    def _judge(self, *, at_once: bool = False) -> None:
        """End the training when parameters differ; wait a moment for all reports."""
        error = self._damage.error
        if error is None or self._agreement.error is not None:
            return
        if self.store is not None:
            self.store.save_coordinator.spoil(error.message)
        if at_once or self._damage.is_certain(self._clock()):
            self.fail(error)

    @property
    def ahead(self) -> int:
        """How many steps before it begins a halt must be announced."""
        topology = by_name(self._agreement.epoch.topology)
        return steps_to_all(topology, self._job.group)

    def wants_halt(self, step: int) -> bool:
        """Whether all members must meet after `step`; cheap, asked before each step."""
        saves = self.store.save_coordinator if self.store is not None else None
        with self._changed:
            synchronous = self._agreement.epoch.synchronous
            if saves is not None and saves.is_due(step + 1, synchronous):
                self._agreement.append(Decisions.ask_save)
            if self._regrouping is not None:
                self._regrouping.call_copy()
            # Hooks that may end the training are asked after each synchronous step;
            # asynchronous members that always halted would never make an update.
            always = self._may_stop and synchronous
            self._stopping.at = step
            return self._agreement.wants_halt(step) or always

    def copied(self, member: int, step: int) -> None:
        """Note that a member's copy before `step` is in the memory of another task."""
        with self._changed:
            if self._regrouping is not None and self._regrouping.copied(member, step):
                self._end_generation(self._regrouping.reason)

    def regroup(self, reason: str) -> None:
        """End this generation of an elastic training after one more copy.

        All members stay where they make it. The processes begin another generation from
        there, in which others may take part, or host other members.
        """
        with self._changed:
            if self._regrouping is not None:
                self._regrouping.regroup(reason)
                self._changed.notify_all()

    def _end_generation(self, reason: str) -> None:
        # Where a loss ends the training this is none: see `ElasticTraining.ended`.
        kind = PeerLost if self._job.is_elastic else Fenced
        self.fail(kind(reason, task=str(self._job.tasks[self._job.coordinator])))

    def plain_log(self) -> dict[str, Any]:
        """Return the log of what is decided, for another coordinator."""
        with self._changed:
            if self.store is not None:
                account = self.store.save_coordinator.account()
                self._agreement.append(Decisions.account, account)
            return self._agreement.log.to_plain()

    @property
    def began(self) -> int:
        """Before which step the training began, in its first generation."""
        return self._agreement.now.began

    def _saving(self, step: int) -> None:
        with self._changed:
            self._agreement.append(Decisions.save, SaveTurns.begin, step)

    def _saved(self, step: int, good: bool) -> None:
        with self._changed:
            change = SaveTurns.succeed if good else SaveTurns.fail
            self._agreement.append(Decisions.save, change, step)
            self._changed.notify_all()

    def beat(self, member: int) -> KitError | None:
        """Note that a member lives; returns what its training failed with."""
        with self._changed:
            if member in self._agreement.lost:
                return failures.left_behind(self._job, member)
            self._heard[member] = self._clock()
            return self._agreement.error

    @property
    def lost(self) -> frozenset[int]:
        """The workers that the training goes on without."""
        return self._agreement.lost

    def join(self, member: int, terms: Mapping[str, str]) -> str | None:
        """Take in a member that came by itself; returns the run to join.

        None when there is nothing to join for it: this training is over, or all members
        are in it already and this one asks for the next.

        Raises what the training failed with, once to each member; `MemberMismatch`,
        with which it fails for all, when `terms` are not those of the coordinator's
        job; and `InvalidArgumentError` for a number that no member has.
        """
        self._job.check_member(member)
        with self._changed:
            is_informed = member in self._informed
            self._informed.add(member)
            if self._agreement.error is not None and not is_informed:
                raise self._agreement.error
            has_begun = self._agreement.epoch.number > 0  # so all have joined it
            if self._agreement.is_over or has_begun:
                return None
            if difference_seen := difference(terms_of(self._job), terms):
                error = failures.mismatch(self._job, member, difference_seen)
                self._end(error)
                raise error
            return self._job.run

    @property
    def save_coordinator(self) -> Any:
        """The account of checkpoints; `FailedPreconditionError` without a folder."""
        if self.store is None:
            raise failures.needs_folder()
        return self.store.save_coordinator

    @property
    def is_finished(self) -> bool:
        """Whether the end was agreed."""
        return self._agreement.is_finished

    @property
    def errors(self) -> list[KitError]:
        """All that is kept of errors: what the training failed with, and reports."""
        return [*filter(None, [self.error]), *self._suspicions.errors]

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

        The coordinator stays until the others have heard that the training is over.
        """
        agreed = self._agreement
        with self._changed:
            return self._changed.wait_for(
                lambda: self._left >= agreed.members - agreed.lost, timeout_s
            )

    def fail(
        self,
        error: KitError,
        *,
        by: int | None = None,
        lost: int | None = None,
        patience_s: float = 0.0,
    ) -> KitError | None:
        """End the training for all members; the first cause counts.

        It goes on when the error says no more than that the member `lost` is gone, and
        it can do without that one. What a lost member reports (`by`) is ignored. A
        report that another member is lost may be the effect of something else: then it
        waits until that is clear.

        Returns what the training failed with. None if it goes on, or if that is not
        clear after `patience_s`: ask again.
        """
        with self._changed:
            agreement = self._agreement
            if by is not None and failures.is_too_late(self._job, by, error):
                # An elastic training would begin again, and be as late again.
                spared = not self._job.is_elastic and self._can_spare(by)
                lost = by if spared else lost
            suspect = self._suspicions.suspect(error, by)
            if lost is not None:
                self._lose(lost, error)
            elif by in agreement.lost:
                pass  # nobody counts on it any more
            elif by is None or suspect is None:
                self._end(error)
            else:
                self._suspicions.add(by, suspect, error, self._clock())
                self._settle()
                self._changed.wait_for(lambda: agreement.error is not None, patience_s)
            return agreement.error

    def _lose(self, member: int, error: KitError) -> None:
        """Go on without a member; end the training where that cannot be."""
        agreement, regrouping = self._agreement, self._regrouping
        if member in agreement.lost or self._suspicions.explain(member):
            return  # that is dealt with, or it has reported why it ends
        # A member that closes its links when the training is over is not lost.
        if not agreement.is_over:
            agreement.append(Decisions.lose, member, error.message)
        if not self._can_spare(member):
            self._end(error)
            return
        agreement.lose(member)
        # Its silence is dealt with: `watch` must not find it once more.
        self._heard.pop(member, None)
        if regrouping is not None and regrouping.lose(member, error.message):
            self._end_generation(regrouping.reason)
        self._changed.notify_all()

    def _settle(self) -> None:
        """End the training when it is clear what the reports of losses come from."""
        gone = self._agreement.lost | self._left
        error = self._suspicions.cause(gone, self._heard, self._clock())
        if error is not None and self._agreement.error is None:
            self._end(error)

    def _end(self, error: KitError) -> None:
        self._agreement.fail(error)
        self._changed.notify_all()
        self._on_failure()

    def _can_spare(self, member: int) -> bool:
        agreement = self._agreement
        has_begun = agreement.epoch.number > 0  # the first epoch needs all to agree
        lost = agreement.lost | {member}
        schedule = self._job.schedule_of(agreement.epoch.synchronous)
        return has_begun and schedule.spares(lost, is_elastic=self._job.is_elastic)

    def gone(self, member: int, reason: str) -> None:
        """Take the end of a member: unless it left in order, do without it or fail."""
        with self._changed:  # of two that go at once only one may be spared
            if member in self._left:
                return
            if self.is_finished:  # no need to wait until it takes its leave
                self.leave(member)
                return
            goes_on = self._can_spare(member)
            error = failures.gone(self._job, member, reason, goes_on=goes_on)
            self._lose(member, error)

    def watch(self) -> None:
        """Find members that are silent, and boundaries at which some are missing.

        The heart of the coordinator's own member calls it each `beat_s`, nobody else.
        """
        limits = self._job.settings
        with self._changed:
            now, regrouping = self._clock(), self._regrouping
            if now - self._watched > limits.suspect_after_s:
                # This process was stopped: it could hear nobody, nobody is to blame.
                self._heard = dict.fromkeys(self._heard, now)
                self._latecomers.wait_anew(now)
            self._watched = now
            self._judge()
            self._settle()
            if regrouping is not None:
                regrouping.look()
                if regrouping.is_late(limits.dead_after_s):
                    self._end_generation(regrouping.reason)
            for member, heard in list(self._heard.items()):  # `gone` removes some
                if now - heard > limits.dead_after_s:
                    silence = f"it has been silent for {now - heard:.1f} s"
                    self.gone(member, f"{silence}, so it is stopped or unreachable")
            limit_s = limits.step_deadline_s
            late = self._latecomers.late(self._agreement, now, limit_s)
            for number, missing in late.items():
                self.fail(failures.late(self._job, missing, number, limit_s))
            # What is silent is found out by its silence, and may be done without.
            is_silent = any(
                now - heard > limits.suspect_after_s for heard in self._heard.values()
            )
            if not is_silent and self._stopping.takes_too_long(self._agreement, now):
                awaited = self._agreement.awaited
                self.fail(failures.stopped(self._job, awaited))

    def seen(self, step: int) -> None:
        """Note that the training was seen at `step` by the sender of a request.

        The processes that had done an elastic training's newest steps may all be lost.
        The request takes effect when these steps have been done again, as after any
        other loss.
        """
        with self._changed:
            if self._job.is_elastic:
                self._agreement.append(Decisions.see, min(step, self._job.steps))

    def command(self, what: str, nonce: str = "", /, **values: Any) -> None:
        """Note a request of the user; it is taken up at the next boundary.

        One whose `nonce` is known, from whatever generation, is not taken up again.

        Raises `InvalidArgumentError` for what cannot be meant, and for what these
        members cannot form, and `UnavailableError` when a generation of an elastic
        training has ended: the next one is asked then.
        """
        values = check_command(what, values)
        if what == "look":
            return
        with self._changed:
            agreement, regrouping = self._agreement, self._regrouping
            if regrouping is not None and agreement.error is not None:
                raise UnavailableError("this generation of the training is over.")
            if nonce in agreement.now.nonces:
                return
            if what == "configure":
                check_change(self._job, agreement.now.foreseen, **values)
            elif what == "save" and self.save_coordinator.ask(values["ticket"]):
                agreement.append(Decisions.ask_save)
            elif what in ("place", "leave"):
                if regrouping is None or not self._job.is_elastic:
                    raise failures.needs_elastic()
                regrouping.check(**values)
            agreement.command(what, nonce, **values)
            if what in ("place", "leave") and regrouping is not None:
                regrouping.regroup_as_asked(values.get("task", ""))
            self._changed.notify_all()

    def agreed(self, since: int) -> tuple[list[Any], int]:
        """Return the digests on which all agreed; see `DigestComparison`."""
        with self._changed:
            return self._damage.agreed(since)

    def status(self) -> dict[str, Any]:
        """Return the state of the training: epoch, request, pause, losses."""
        with self._changed:
            agreement, wanted = self._agreement, self._regrouping
            pending = agreement.expected
            return {
                "epoch": agreement.epoch.to_plain(),
                "pending": pending.to_plain() if pending else None,
                "paused": agreement.now.is_paused,
                "missing": sorted(agreement.awaited),
                "halting": halting(agreement),
                "abandoned": agreement.now.abandoned,
                "lost": {str(n): why for n, why in agreement.now.gone.items()},
                "copied": wanted.copied_before if wanted is not None else None,
                "saves": self.store.save_coordinator.status() if self.store else None,
                "said": self._hooks.said() if self._hooks else [],
                "arithmetic": self.arithmetic.to_plain(),
                "libraries": arithmetic.libraries(),
            }


def log_of(job: Job, plain: Mapping[str, Any] | None) -> DecisionLog:
    """Return the log that a coordinator goes on with: a new one, if there is none."""
    if plain:
        return DecisionLog.from_plain(plain)
    generation = job.generation
    now = Decisions(job.start, reached=generation.reached, placing=generation.placing)
    return DecisionLog(now, generation=generation.number)
