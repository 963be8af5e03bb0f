"""How one generation of an elastic training follows another: who leads, who joins.

`kit.training.features.elastic.generation` has the rules and their theory. Leading and
joining are coroutines: they decide what to ask of which process, and `OtherProcesses`
asks it. So tests can play all histories of a few processes without threads or links.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import Final

from kit.errors import (
    AbortedError,
    DeadlineExceededError,
    Fenced,
    InternalError,
    InvalidArgumentError,
    KitError,
    LinkLost,
    NotFoundError,
    PeerLost,
    ResourceExhaustedError,
    StepFailed,
    UnavailableError,
    UnknownError,
    from_plain,
)
from kit.server.elastic.begun_here import Begun
from kit.server.elastic.other_processes import OtherProcesses
from kit.server.elastic.standing import Plain, Standing
from kit.trace.named_rows import Change
from kit.training.core.job import Job
from kit.training.core.log import DecisionLog
from kit.training.core.snapshot import CopyPoint, Held
from kit.training.features.elastic import generation as rules
from kit.training.features.elastic.asking import Ask, Coroutine, Pause, Told, ask_one
from kit.training.features.elastic.generation import Generation, Holder
from kit.training.features.elastic.placing import Placing, in_order, is_server

# A member that could not begin because of one of these would fail at every other try.
_FINAL: Final = (
    InvalidArgumentError,
    InternalError,
    UnknownError,
    StepFailed,
    ResourceExhaustedError,
)
#: The name of the thread in which a standby looks for the coordinator.
STANDBY: Final = "kit-standby"
_LOOK_S: Final = 0.02
_ASK_S: Final = 0.25
# A process that has heard for this long of a generation, and was not told to begin it,
# has missed the message: until then it may be on its way.
_MISSED_S: Final = 1.0
# How long a process may take to end its members once enough others have.
_ENDS_S: Final = 1.0


class Succession:
    """One process's part in finding the next generation."""

    def __init__(self, standing: Standing, processes: OtherProcesses) -> None:
        self.now, self._processes = standing, processes
        # A generation that has not begun here: which, and when it was heard of.
        self._heard_of = 0, 0.0
        self._lacks_since = inf  # there is no whole copy on those that answer

    def notice(self, number: int, reason: str) -> None:
        """Note why generation `number` must be followed by another; returns at once.

        Ignored when another has followed already.
        """
        # Several threads notice the same loss: only the first starts a coroutine.
        with self.now.changed:
            if self.now.has_moved(number) or self.now.noticed is not None:
                return
            self.now.noticed = now, _ = self.now.clock(), reason
            self._lacks_since = inf
            # One that lasted was no failure to begin: a new series of failures starts.
            lasted_s = now - self.now.began_at
            has_lasted = lasted_s > self.now.job.settings.start_deadline_s
            if self.now.failing_since is None or has_lasted:
                self.now.failing_since = now
        self._processes.run(f"kit-elastic-{self.now.me}", self._go_on(number, reason))

    def _go_on(self, number: int, reason: str) -> Coroutine[None]:
        """Lead, or let another lead, until there is another generation or none."""
        # Counted from the first of a series of failures: where two members cannot reach
        # each other, each generation fails as soon as it begins.
        give_up = self._give_up_at(self.now.failing_since)
        while not self.now.has_moved(number):
            if self.now.clock() > give_up:
                text = f"{self.now.me}: no new generation could begin: {reason}"
                self.now.fail(PeerLost(text, task=self.now.me))
                return
            try:
                if not (yield from self._is_led_by_another(number, reason)):
                    yield from self._lead()
            except KitError as error:
                if isinstance(error, _FINAL) or self.now.clock() > give_up:
                    self.now.fail(error)
            yield Pause(lambda: self.now.has_moved(number), _LOOK_S)

    def _give_up_at(self, since: float | None = None) -> float:
        limits = self.now.job.settings
        if since is None:
            since = self.now.clock()
        return since + limits.dead_after_s + limits.start_deadline_s

    def stand_by(self) -> None:
        """Check now and then that the coordinator is there, and still coordinates.

        A standby has no links. So nothing else tells it of a loss, nor that it was
        stopped itself and the training went on without it.
        """
        self._processes.run(STANDBY, self._look_around())

    def _look_around(self) -> Coroutine[None]:
        job, number = self.now.job, self.now.generation.number
        coordinator = self.now.generation.places[job.coordinator]
        limit_s = job.settings.dead_after_s
        while not self.now.has_moved(number):
            yield Pause(lambda: self.now.has_moved(number), limit_s)
            asked = yield Ask([coordinator], "elastic.look", {}, limit_s=limit_s)
            reply = asked[coordinator]
            if isinstance(reply, KitError):
                self.notice(number, reply.message)
                return
            if reply["done"]:
                return
            self._take(reply, number)

    def join(self, job: Job) -> None:
        """Ask to take part in a training whose newest generation is that of `job`.

        This process was lost, or taken for lost: it was stopped, and wakes up. The
        copies that it holds are old, but the others may lose what has followed them.
        """
        with self.now.changed:
            self.now.job, self.now.noticed = job, None
            self.now.has_begun = False
            self.now.changed.notify_all()
        self._processes.run(f"kit-join-{self.now.me}", self._ask_to_join())

    def _ask_to_join(self) -> Coroutine[None]:
        give_up, values = self._give_up_at(), Plain(process=self.now.me)
        while not self.now.takes_part and self.now.clock() < give_up:
            for process in self.now.generation.processes:
                if self.now.takes_part:  # nobody else is to begin another one for it
                    return
                values["number"] = self.now.generation.number
                with suppress(KitError):  # another may answer, or know more
                    self._learn((yield from ask_one(process, "elastic.join", values)))
            yield Pause(lambda: self.now.takes_part, _ASK_S)
        if not self.now.takes_part:
            text = f"{self.now.me} was not taken back into the training."
            self.now.fail(Fenced(text, task=self.now.me))

    def _learn(self, reply: Plain) -> None:
        """Take what a process says that was asked to let this one join."""
        if reply["error"] or reply["done"]:
            self.now.fail(
                AbortedError("the training has ended before it could be joined.")
            )
        job = Job.from_plain(reply["job"], self.now.job)
        with self.now.changed:
            is_newer = job.generation.number > self.now.generation.number
            is_in = self.now.me in job.generation.processes
            if is_newer and not is_in and not self.now.takes_part:
                self.now.job = job
        if is_newer and is_in:
            self._await_begin(job)

    def _await_begin(self, job: Job) -> None:
        """Adopt a generation that has not begun here for too long."""
        now, (number, since) = self.now.clock(), self._heard_of
        # Where that is the end it has more time: a busy machine begins slowly.
        limit_s = _MISSED_S if job.is_elastic else job.settings.dead_after_s
        if number != job.generation.number:
            self._heard_of = job.generation.number, now
        elif now - since > limit_s and not job.is_elastic:
            if not self.now.has_begun:  # it was for a process before this one
                self.now.job = job
                return
            text = f"another process of {self.now.me} takes part in the training."
            self.now.fail(Fenced(text, task=self.now.me))
        elif now - since > limit_s:
            self._adopt(job, f"{self.now.me} was not told to begin.")

    def _adopt(self, job: Job, reason: str) -> None:
        """Make a generation the newest one without beginning it; ask for the next."""
        with self.now.changed:
            is_newer = job.generation.number > self.now.generation.number
            if self.now.is_over or not is_newer:
                return
            self.now.job, self.now.noticed = job, None
            self.now.changed.notify_all()
        self.notice(job.generation.number, reason)

    def _is_led_by_another(self, number: int, reason: str) -> Coroutine[bool]:
        """Report the loss to the processes before this one; whether one can lead.

        All have them in the same order, so the first that is alive leads. Two that lead
        at once do no harm: the higher number wins.
        """
        limit_s = self.now.job.settings.dead_after_s
        for process in self.now.generation.processes:
            if process == self.now.me:
                return False
            with suppress(UnavailableError, DeadlineExceededError, NotFoundError):
                values = {"number": number, "reason": reason}
                reply = yield from ask_one(process, "elastic.lose", values, limit_s)
                self._take(reply, number)
                theirs = Job.from_plain(reply["job"], self.now.job).generation
                # One that missed the begin of this generation does not lead on from it.
                if theirs is not None and theirs.number >= number and reply["begun"]:
                    return True
        return False

    def _take(self, reply: Plain, number: int) -> None:
        """Take what another process knows: the end, or that others go on without us."""
        if reply["error"]:
            self.now.fail(from_plain(reply["error"]))
            return
        job = Job.from_plain(reply["job"], self.now.job)
        theirs = job.generation
        assert theirs is not None
        with self.now.changed:
            # Another thread, which asks to join, may have heard of a later one.
            if theirs.number <= max(number, self.now.generation.number):
                return
            if self.now.me in theirs.placing.left:
                self.now.leave()
            elif self.now.me not in theirs.processes:
                self.join(job)
            else:
                self._await_begin(job)

    def _lead(self) -> Coroutine[None]:
        job, began = self.now.job, self.now.noticed
        old = self.now.generation
        if began is None:  # another process has led meanwhile
            return
        # Above all that were heard of: a lower one would be refused.
        newest = max(self.now.claimed, self.now.heard, old.number)
        number = rules.number_after(newest, self.now.me)
        asked_at = self.now.clock()
        asked = {*self._replicas, *self.now.joining}
        if self._lacks_since < inf:  # those that were silent may hold older copies
            asked |= {*old.known}
        values = {"number": number, "after": old.number}
        # With a moment for the last: a process that ends its members first is not lost.
        replies = yield Ask(
            asked,
            "elastic.claim",
            values,
            self._is_enough,
            limit_s=0.0 if old.rehosts else job.settings.dead_after_s,
            moment_s=_ENDS_S,
        )
        good = {n: reply for n, reply in replies.items() if isinstance(reply, dict)}
        ended = [n for n, reply in replies.items() if _has_ended(reply)]
        if not self._is_granted(good, old):
            return
        # A process in which nothing has begun is new: the last of that name has ended.
        fresh = [n for n, reply in good.items() if not reply["begun"]]
        stay = [n for n in good if n not in fresh]
        lost = [n for n in old.processes if n not in stay]
        if not self._may_go_on(stay, [*ended, *fresh], _vouched(good)):
            raise self._too_few(lost, stay, began[1])
        steps = [good[n]["step"] for n in stay]
        # What others hold, who were lost on the way, counts where nothing else is left.
        mine = {n: reply for n, reply in good.items() if n in self._replicas}
        copy = self._newest(mine, max(steps)) or self._newest(good, max(steps))
        # Without a whole copy, all begin anew with the initial values. A process that
        # has let go of these knew of a whole copy, which must be somewhere then.
        if copy is None and not all(good[n]["may_begin_anew"] for n in stay):
            has_all = {*good, *ended} >= {*asked, *old.known}
            self._lacks_since = min(self._lacks_since, now := self.now.clock())
            is_late = now - self._lacks_since > job.settings.dead_after_s
            # One whose link has just ended may answer over another.
            may_answer = any(isinstance(reply, LinkLost) for reply in replies.values())
            if has_all or (is_late and not may_answer):
                self.now.fail(_no_copy(lost))
                return
            raise _no_copy(lost)  # a silent process may hold one: `_go_on` asks again
        self._lacks_since = inf
        moment, holders = copy or (CopyPoint(0), {})
        log = yield from self._log(good, holders)
        placing = _placing(old, log, fresh, [*good])
        # If the generation was still repeating steps, only those that it did count.
        reached = max(moment.step, *steps)
        is_paused = log is not None and log.now.is_paused
        since = min(began[0], asked_at if is_paused else _stood_since(good, asked_at))
        change = Change(
            lost=tuple(lost),
            joined=in_order(n for n in good if n in fresh or n not in old.processes),
            left=tuple(n for n in stay if n in placing.left and n in old.processes),
            step=max(reached, old.reached),
            repeated=reached - moment.step,
            seconds=self.now.clock() - since,
            reason=began[1],
        )
        following = rules.next_generation(
            old,
            job.tasks,
            [*good],
            placing,
            change,
            number=number,
            before=self.now.former or old.processes,
        )
        begins = following, [n for n in good if n not in following.processes]
        yield from self._begin_all(begins, (moment, holders), log)

    def _newest(
        self, good: Mapping[str, Plain], step: int
    ) -> tuple[CopyPoint, dict[int, Holder]] | None:
        """Return the newest whole copy to go on from, if there is one."""
        newest = rules.newest_whole({n: _held(reply) for n, reply in good.items()})
        # Where nobody is replaced, a generation that has not ended in good order has
        # none, but from the end of an earlier one.
        is_old = newest is not None and newest[0].step < step
        return None if is_old and not self.now.job.is_elastic else newest

    def _too_few(
        self, lost: Sequence[str], stay: Sequence[str], reason: str
    ) -> PeerLost:
        """Return why those that are here do not go on, which may be the end."""
        if not self.now.job.is_elastic:
            self.now.fail(PeerLost(reason, task=self.now.me))
        return _too_few(lost, stay, self.now.generation)

    def _is_granted(self, good: Mapping[str, Plain], old: Generation) -> bool:
        """Whether all that answered let us have the log, and the training is not over.

        With one refusal there is a later claim, or a later generation: it goes on.
        """
        for reply in good.values():
            self._take(reply, old.number)
            if reply["granted"]:
                self.now.establish(reply["established"])
                number, processes, _ = reply["begun_here"]
                self.now.later = max(self.now.later, Begun(number, tuple(processes)))
            else:
                self.now.heard = max(self.now.heard, reply["claimed"])
        if not all(reply["granted"] for reply in good.values()):
            return False
        hosts = [reply for n, reply in good.items() if n in old.places]
        if hosts and all(reply["done"] for reply in hosts):
            # Those that left last found their links closed, and took that for a loss.
            self.now.fail(AbortedError("the training is complete."))
        return self.now.error is None

    def _log(
        self, good: Mapping[str, Plain], holders: Mapping[int, Holder]
    ) -> Coroutine[DecisionLog | None]:
        """Return what is decided: as the coordinator says, or as others noted it.

        Its copy may be newer than what others have noted, if the coordinator is lost.
        """
        logs = [reply["noted"] for reply in good.values() if reply["noted"]]
        if holders and not any(reply["leads"] for reply in good.values()):
            process, moment = holders[leads := self.now.job.coordinator]
            values = {"moment": list(moment), "member": leads}
            copy = yield from ask_one(process, "elastic.fetch", values)
            logs.append(copy["about"]["requests"])
        return max(
            map(DecisionLog.from_plain, logs), key=lambda log: log.age, default=None
        )

    def _begin_all(
        self,
        begins: tuple[Generation, Sequence[str]],
        newest: tuple[CopyPoint, dict[int, Holder]],
        log: DecisionLog | None,
    ) -> Coroutine[None]:
        """Let the processes of a generation host all members, and begin them.

        `begins` are the generation, and the processes that leave with it.
        """
        following, leaving = begins
        before, places = self.now.job, following.places
        moment, holders = newest
        values = {"number": following.number, "places": places}
        all_of = following.processes
        addresses: dict[int, str] = {}
        limit_s = before.settings.dead_after_s
        asked = yield Ask(all_of, "elastic.host", values, limit_s=limit_s)
        for reply in asked.values():
            if isinstance(reply, KitError):
                raise reply
            addresses |= {int(n): text for n, text in reply["addresses"].items()}
        texts = tuple(addresses.get(n, "") for n in range(len(before.tasks)))
        job = replace(
            before,
            run=rules.run_of(following.origin, following.number),
            generation=replace(following, addresses=texts, resumes=bool(holders)),
            **_configuration(log),
        )
        if log is not None:
            log.claim(
                following.number,
                reached=following.reached,
                placing=following.placing,
                absent=job.absent,
            )
        begin_values: Plain = {
            "job": job.to_plain(),
            "moment": list(moment),
            "holders": {
                str(member): [process, list(of)]
                for member, (process, of) in holders.items()
            },
            "requests": log.to_plain() if log is not None else {},
        }
        # First those that host no member. No step is committed before the members have
        # begun, so a step is never committed while a process has not heard of this
        # generation: it could let another attempt begin. That holds for those that
        # leave, too. Then the coordinator's host, as the other members dial it.
        first = (*following.standby, *leaving)
        coordinator = places[job.coordinator]
        others = [member for member in all_of if member not in (*first, coordinator)]
        has_begun = False
        for some in filter(None, (first, [coordinator], others)):
            for reply in (yield Ask(some, "elastic.begin", begin_values)).values():
                if isinstance(reply, KitError):
                    if has_begun:  # in some: the next one must follow this one
                        self._adopt(job, f"not all could begin: {reply.message}")
                    raise reply
            has_begun = True

    def share(self, run: str, log: Plain) -> Coroutine[None]:
        """Tell processes what is requested of a run; return when enough have noted it.

        Any two sets that may go on share a process, so the next coordinator hears of
        it. Raises `UnavailableError` if too few answer.
        """
        values, limits = {"run": run, "requests": log}, self.now.job.settings
        replies = yield Ask(
            self._replicas,
            "elastic.note",
            values,
            self._is_enough,
            limit_s=limits.suspect_after_s,
        )
        if not self._is_enough(replies):
            missing = [
                name for name, reply in replies.items() if isinstance(reply, KitError)
            ]
            raise UnavailableError(
                f"{', '.join(missing)} did not hear of the request, which is lost if "
                f"the others go on without {self.now.me}. It may be taken up all the "
                f"same; look, and ask again.",
                task=self.now.me,
            )

    def _is_enough(self, replies: Told) -> bool:
        here = [name for name, reply in replies.items() if isinstance(reply, dict)]
        ended = [name for name, reply in replies.items() if _has_ended(reply)]
        return self._may_go_on(here, ended, _vouched(replies))

    def _may_go_on(
        self, here: Sequence[str], ended: Sequence[str], vouched: Collection[str]
    ) -> bool:
        """Whether those that are here may go on from the newest generation."""
        job = self.now.job
        if not job.is_elastic:  # nobody goes on without those that are needed
            tasks = enumerate(job.tasks)
            return job.schedule.spares(
                [n for n, task in tasks if task.short not in here]
            )
        needed = filter(None, (self.now.generation.processes, self.now.former))
        may_go_on = all(rules.may_go_on(some, here, ended, vouched) for some in needed)
        return may_go_on and rules.is_over(self.now.elsewhere, here, ended)

    @property
    def _replicas(self) -> set[str]:
        """The processes that keep a replica of the log which counts."""
        now = self.now
        return {*now.generation.processes, *now.former, *now.elsewhere}


def _has_ended(reply: Plain | KitError) -> bool:
    """Whether the process that was asked has ended.

    Then nothing listens there, or a new process that knows nothing of the training. A
    lost link does not tell: the line may be cut.
    """
    is_refused = isinstance(reply, UnavailableError) and not isinstance(reply, LinkLost)
    return is_refused or isinstance(reply, NotFoundError)


def _vouched(replies: Told) -> set[str]:
    """Return the processes of which is known what they had begun, if they end."""
    answers = [reply for reply in replies.values() if isinstance(reply, dict)]
    return {name for reply in answers for name in reply.get("begun_here", Begun())[2]}


def _stood_since(good: Mapping[str, Plain], asked_at: float) -> float:
    """Return since when no step was done, by our clock; at the latest, `asked_at`.

    A process that is silent was lost at that time, and not when it was noticed.
    """
    idle = [reply["idle"] for reply in good.values() if reply["idle"] is not None]
    return asked_at - min(idle, default=0.0)


def _held(reply: Plain) -> list[Held]:
    return [
        Held(CopyPoint(*moment), member, tuple(writers))
        for moment, member, writers in reply["held"]
    ]


def _placing(
    before: Generation,
    log: DecisionLog | None,
    fresh: Sequence[str],
    here: Sequence[str],
) -> Placing:
    """Return how members are spread now that some processes have joined.

    Where the number of workers is limited, a new one raises the limit by one. Who is to
    leave stays all the same when nobody else is here any more.
    """
    newest = before.placing
    if log is not None and log.now.placing is not None:
        newest = max(newest, log.now.placing, key=lambda placing: placing.number)
    new = [task for task in fresh if task not in before.known and not is_server(task)]
    left = tuple(task for task in newest.left if task not in fresh)
    left = () if {*here} <= {*left} else left
    workers = newest.workers + len(new) if newest.workers else 0
    if (workers, left) == (newest.workers, newest.left):
        return newest
    return newest.changed(workers=workers, left=left)


def _too_few(lost: Sequence[str], stay: Sequence[str], old: Generation) -> PeerLost:
    names = ", ".join(lost)
    return PeerLost(
        f"{names} did not answer, and only {len(stay)} of {len(old.processes)} tasks "
        f"are here: the others may go on, so these do not.",
        task=names,
    )


def _no_copy(lost: Sequence[str]) -> PeerLost:
    names = ", ".join(lost)
    return PeerLost(
        f"the only copies of a part of the training's state were lost with {names}. "
        f"Go on from a checkpoint, if there is one.",
        task=names,
    )


def _configuration(log: DecisionLog | None) -> Plain:
    """Return the fields of a job that make it begin as was requested."""
    if log is None:
        return {}
    wanted = log.now.requested
    return {
        "topology": wanted.topology,
        "synchronous": wanted.synchronous,
        "link": wanted.link,
    }
