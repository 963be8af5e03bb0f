"""One process's part in an elastic training: its members, its copies, its answers.

`elastic.lose` reports a loss, `claim`, `host` and `begin` make the next generation,
`join` asks for one, `keep` and `fetch` are for copies, and `look` is for a notebook.

Three kinds of threads meet here: those of the members that are hosted here, those that
answer other processes, and the one that leads to the next generation (`Succession`).
What they agree on is in `Standing`, under its lock. No thread waits for a member while
it holds that lock, since a member takes it when it ends.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kit.errors import (
    AbortedError,
    DeadlineExceededError,
    Fenced,
    KitError,
    UnavailableError,
    to_plain,
)
from kit.message_fields import check
from kit.server.elastic.handlers import ElasticHandlers
from kit.server.elastic.other_processes import Neighbours, OtherProcesses
from kit.server.elastic.standing import Plain, Standing
from kit.server.elastic.succession import Succession
from kit.training.core.job import Job, Work
from kit.training.core.log import DecisionLog
from kit.training.core.member import Member
from kit.training.core.snapshot import Beginning, CopyPoint, Shard
from kit.training.features.elastic.asking import Ask
from kit.training.features.elastic.copies import BuffersByMember, Copies, ToldRows
from kit.training.features.elastic.generation import Holder, run_of
from kit.wire.rpc import Answer

if TYPE_CHECKING:
    from kit.server.trainings import StandIn, Trainings

# A process may ask to join a generation that it is part of and is about to begin; after
# this long it has missed the begin.
_BEGINS_S: Final = 1.0
# How long to wait for a member that was told to end; one that computes ends later.
_ENDS_S: Final = 0.2


class ElasticTraining:
    """An elastic training in one process, through all its generations."""

    def __init__(
        self,
        job: Job,
        work: Work | None,
        own: Trainings,
        neighbours: Neighbours,
        processes: type[OtherProcesses] = OtherProcesses,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin with generation 0; `own` are the trainings of this process's task."""
        self.origin = job.generation.origin
        self.copies, self.buffers = Copies(), BuffersByMember()
        self._own, self._neighbours = own, neighbours
        # Drawn, as a task that was restarted has none of the copies kept before.
        self._name = f"{own.task.short} {secrets.token_hex(8)}"
        self.now = standing = Standing(own.task.short, job, clock)
        self._processes = processes(standing, neighbours, self._answer)
        self._succession = Succession(standing, self._processes)
        self._begun_here = neighbours.begun_here(self.origin)
        self._work = work and replace(work)
        self._first_copy: int | None = None  # of which step
        self._stand_ins: dict[int, StandIn] = {}

    def prepare(self) -> dict[int, str]:
        """Make servers for the members of generation 0 here; return their addresses."""
        job = self.now.job
        return self._hosting(job.run, self.now.generation.places)

    def begin_first(self, job: Job, work: Work | None) -> None:
        """Begin the members that generation 0 has here."""
        self._work = work and replace(work)
        self._begun_here.append(0, job.generation.processes, self.now.me)
        self._become(job)
        for number in self._hosted(job):
            own_work = work if number in job.workers else None
            self._trainings(number).begin_generation(job, own_work, None, self)
        if self._work is not None and not job.is_elastic:
            self._work.params = None  # nothing begins with the initial values again

    def _become(self, job: Job) -> None:
        """Make a generation that begins here the newest one."""
        self._processes.close()  # ends waits for copies of the generation before
        with self.now.changed:
            if job.generation.reached > self.now.generation.reached:
                self.now.failing_since = None  # the one before made progress
            self.now.job, self.now.noticed = job, None
            self.now.has_begun, self.now.began_at = True, self.now.clock()
            self.now.joining -= {*job.generation.processes}
            self.now.changed.notify_all()
        self.buffers.keep_only(job.generation.hosted_by(self.now.me))
        if self.now.me in job.generation.standby:
            self._succession.stand_by()

    def _hosted(self, job: Job) -> list[int]:
        """Return the members that are hosted here, the coordinator first."""
        hosted = job.generation.hosted_by(self.now.me)
        # The others dial the coordinator, and would wait for it to begin.
        return sorted(hosted, key=lambda member: member != job.coordinator)

    def give_up(self) -> None:
        """End what has begun here of a training that did not begin everywhere."""
        for member in self._members():
            member.abort(AbortedError("the training did not begin on all tasks."))
        self.close(self._own)

    def join(self, job: Job) -> None:
        """Ask to take part in a training, whose newest known generation is `job`'s."""
        self._succession.join(job)

    def rebuilt(self, plain: Plain) -> Job:
        """Return the job of a generation of this training that another process sent."""
        return Job.from_plain(plain, self.now.job)

    # -- what the members of this process report -----------------------------------

    def ended(self, member: Member) -> None:
        """Note the end of a member: after a loss, go on in another generation."""
        error = member.error
        is_final = error is not None and not _may_follow(member, error)
        if is_final or member.state == "done":
            self.buffers.keep_only(())
        with self.now.changed:
            # It may be of a generation that has been followed by another already.
            if member.job.run != self.now.job.run or member.state == "done":
                return
            if error is not None and is_final:
                self.now.fail(error)
                return
        reason = error.message if error is not None else "it ended"
        self._succession.notice(member.job.generation.number, reason)

    def keep_copy(self, copy: Shard) -> str:
        """Keep a copy here and in the next process; blocks until it is there.

        Returns the unique name of that process, or of this one if it is alone.
        """
        self._hold(copy)
        if copy.member == self.now.job.coordinator:
            self._look_after_standbys()
        if not self.now.generation.rehosts:
            return self._name  # it is of use to this process alone
        buddies = self._next_processes()
        if len(copy.writers) == len(self.now.job.tasks):
            # Every process hosts a part of the state: without the next one this
            # generation ends, and trying others would only delay that.
            del buddies[1:]
        for buddy in buddies:
            try:
                return self._processes.keep(buddy, copy)
            # Others have gone on. With all members here, no link closes to report it.
            except Fenced as error:
                self._succession.notice(copy.moment.generation, error.message)
                raise
            except UnavailableError:
                if buddy == buddies[-1]:
                    raise
        return self._name

    def _look_after_standbys(self) -> None:
        """Find out whether standbys are there: no member has a link to them."""
        now, limit_s = self.now.generation, self.now.job.settings.dead_after_s
        replies = self._processes.ask_all(
            Ask(now.standby, "elastic.look", {"begun": now.number}, limit_s=limit_s)
        )
        for reply in replies.values():
            if isinstance(reply, KitError):
                self.lose(now.number, reply.message)

    def _hold(self, copy: Shard) -> None:
        self.copies.keep(copy)
        if copy.moment.generation == self.now.generation.number:
            # Copies are made at a boundary that all members have reached: so this
            # generation has begun everywhere.
            self.now.failing_since = None
            self.now.establish(copy.moment.generation)
        if self._first_copy is None:
            self._first_copy = copy.moment.step
        elif self._first_copy < copy.moment.step and self._work is not None:
            # A second copy is made only when the first is whole. So no generation
            # begins with the initial values any more, which may take much memory.
            self._work.params = None

    def share(self, run: str, log: Plain) -> None:
        """Give enough processes the log, so that what is requested cannot be lost.

        Raises `UnavailableError` if too few answer.
        """
        self._processes.finish(self._succession.share(run, log))

    def _next_processes(self) -> list[str]:
        processes, me = self.now.generation.processes, self.now.me
        if me not in processes:
            return []
        mine = processes.index(me)
        return [*processes[mine + 1 :], *processes[:mine]]

    def close(self, of: Trainings) -> None:
        """End it: no generation begins here any more.

        But not when a stand-in is stopped, which closes its trainings as any server
        does: then `of` is not the trainings of this process's own task.
        """
        if of is not self._own:
            return
        self.buffers.keep_only(())
        with self.now.changed:
            # First: threads that are woken by a closed link check it.
            self.now.is_closed = True
            self.now.changed.notify_all()
        self._processes.close()
        self._stop_stand_ins()

    def _stop_stand_ins(self) -> None:
        for server in [*self._stand_ins.values()]:  # another thread may add one
            server.stop()

    # -- what other processes ask -------------------------------------------------

    def look(self, begun: int = 0) -> Plain:
        """Return the newest generation's job, and how this process ended, if it has.

        `begun`: a generation that the caller knows to have begun everywhere, or 0.
        """
        with self.now.changed:
            self.now.establish(begun)
            error, is_done = self.now.error, self._is_done
            members = self._members()
            # One that is fenced: the others go on, so the training has not ended.
            is_end = error is not None and not isinstance(error, Fenced)
            return {
                "job": self.now.job.to_plain(),
                "error": to_plain(error) if error is not None and is_end else None,
                "done": is_done,
                "place": self.now.me,
                "runs": bool(members) and not any(item.is_over for item in members),
                "begun": self.now.has_begun,
            }

    @property
    def _is_done(self) -> bool:
        return {member.state for member in self._members()} == {"done"}

    def lose(self, number: int, reason: str, step: int = 0) -> Plain:
        """Hear of a loss in a generation that had reached `step`.

        Returns what `look` does.
        """
        with self.now.changed:
            now = self.now
            now.seen = max(now.seen, min(step, now.job.steps))
            is_current = now.generation.number == number and not now.is_over
            # A complete training needs no other generation.
            must_go_on = is_current and now.has_begun and not self._is_done
        if must_go_on:
            self._succession.notice(number, reason)
        return self.look()

    def claim(self, number: int, after: int) -> Plain:
        """Let a generation have the log, and none before it; return what is held here.

        Refused where that was said of a later one, and where a later generation than
        `after` is known, which it is to follow.
        """
        # This comes before the members end: a `begin` of an earlier generation that is
        # under way either fails its second check, or sees the claim when it has begun
        # its members, and ends them.
        with self.now.changed:
            newest = self.now.claimed
            is_old = number <= newest or self.now.generation.number > after
            if is_old or self.now.is_closed:
                return {**self.look(), "granted": False, "claimed": newest}
            self.now.claimed = number
        idle_s = self._idle_s()  # before ending the members, which takes a moment
        members = self._end_members()
        coordinator = next(
            (member.coordinator for member in members if member.coordinator), None
        )
        if coordinator is not None:
            # After its end: what it answered until then is in this.
            self._note(DecisionLog.from_plain(coordinator.plain_log()))
        return {
            **self.look(),
            "granted": True,
            "begun_here": self._begun_here.newest(),
            "held": self.copies.held(),
            "step": max([self.now.seen, *(member.step for member in members)]),
            "idle": idle_s,
            "leads": coordinator is not None and self.now.generation.number == after,
            "noted": self.now.noted and self.now.noted.to_plain(),
            "established": self.now.established,
            "may_begin_anew": self._may_begin_anew,
        }

    def _idle_s(self) -> float | None:
        """Return for how long no share of a step has ended here; None if none has yet.

        A log may begin with rows from another process, timed by its clock: only times
        within this generation count.
        """
        now, stepped = (
            self.now.clock(),
            [member.stepped_at for member in self._members()],
        )
        own = [at for at in stepped if self.now.began_at <= at <= now]
        return now - max(own) if own else None

    def _end_members(self) -> list[Member]:
        members = self._members()
        for member in members:
            text = f"{member.task}: the processes that are left begin again."
            if not member.is_over:  # it may not have heard yet that this one ends
                member.abort(Fenced(text, task=str(member.task)))
        self._processes.close()  # it may be fetching a copy, or sending one
        for member in members:
            member.join(_ENDS_S)  # it may be about to commit one more step
            if member.coordinator is not None and member.error is not None:
                # Its thread may end later still. What it was asked for until then, it
                # would answer, and no other process would hear of it.
                member.coordinator.fail(member.error)
        return members

    @property
    def _may_begin_anew(self) -> bool:
        """Whether the initial values are still here, if no copy can be found."""
        return self._work is not None and bool(self._work.params)

    def host(self, number: int, places: Sequence[str]) -> Plain:
        """Make servers for the members to be hosted here; return their addresses."""
        self.now.check(number)
        address_of = self._hosting(run_of(self.origin, number), places)
        return {"addresses": {str(member): text for member, text in address_of.items()}}

    def _hosting(self, run: str, places: Sequence[str]) -> dict[int, str]:
        hosted = [n for n, process in enumerate(places) if process == self.now.me]
        # A stand-in for a member that stays is kept, and with it the member's news.
        for member in [*self._stand_ins]:
            if member not in hosted:
                self._stand_ins.pop(member).stop()
        for member in hosted:
            task = self.now.job.tasks[member]
            if task != self._own.task and member not in self._stand_ins:
                self._stand_ins[member] = self._neighbours.stand_in(task, run)
        if self.now.is_closed:  # since: `close` may have come before they were here
            self._stop_stand_ins()
        return {member: str(self._trainings(member).address) for member in hosted}

    def begin(
        self,
        job: Job,
        moment: CopyPoint,
        holders: Mapping[int, Holder],
        log: Plain,
    ) -> None:
        """Begin the members of a generation that this process hosts.

        They begin with the state at `moment`; `holders` says which process holds each
        member's newest copy up to then.
        """
        self.now.check(fence := job.generation.number)
        for member in self._members():
            if not member.join(job.settings.step_deadline_s):
                raise DeadlineExceededError(
                    f"{member.task} has not ended its part in the previous generation.",
                    task=str(member.task),
                )
        hosted = self._hosted(job)
        # Whatever may fail or take long is done before it is the newest generation, and
        # without the lock: other processes fetch copies here at the same time.
        begins = {
            number: self._beginning(
                number,
                moment,
                holders,
                log if number == job.coordinator else {},
            )
            for number in hosted
        }
        self._begun_here.append(fence, job.generation.processes, self.now.me)
        with self.now.changed:
            self.now.check(fence)  # a later one may have come meanwhile
            # Copies of steps that will be done again must not count as newer ones.
            self.copies.drop_after(moment.step)
            self._become(job)
            if log:  # the coordinator may be lost before it is in a copy
                self.now.note(DecisionLog.from_plain(log))
            if self.now.me not in job.generation.processes:
                self.now.leave()
        for number in hosted:
            work = self._work if number in job.workers else None
            self._trainings(number).begin_generation(job, work, begins[number], self)
        # A later one came while not all of these had begun: see `claim`.
        if self.now.claimed != fence:
            self._end_members()

    def keep(self, run: str, copy: Shard) -> str:
        """Keep a copy of another process; return the unique name of this one."""
        if run != self.now.job.run:
            raise Fenced(f"generation {run[:8]} of this training is over.")
        self._hold(copy)
        return self._name

    def let_join(self, process: str, number: int = 0) -> Plain:
        """Note that a process asks to take part; return what `look` does.

        It knows of generation `number`.
        """
        with self.now.changed:
            self.now.joining.add(process)
            now = self.now.generation
            is_late = self.now.clock() - self.now.began_at > _BEGINS_S
            asks_anew = is_late if now.rehosts else number >= now.number
            if process in now.processes and not asks_anew:
                return self.look()  # it is about to be told to begin
        for member in self._members():
            if member.coordinator is not None and not member.is_over:
                member.coordinator.regroup(f"{process} takes part from here on.")
        return self.look()

    def note(self, run: str, log: DecisionLog) -> Plain:
        """Keep the log of a generation; return what has begun on this host.

        Raises `AbortedError` when another may begin that would not hear of it.
        """
        with self.now.changed:
            if not self.now.takes(run):
                raise AbortedError(
                    f"generation {self.now.claimed} has claimed the log of "
                    f"{self.now.me}, which takes no requests of run {run[:8]}.",
                    task=self.now.me,
                )
            self._note(log)
        return {"begun_here": self._begun_here.newest()}

    def _note(self, log: DecisionLog) -> None:
        with self.now.changed:
            self.now.note(log)

    def fetch(self, moment: CopyPoint, member: int) -> Shard:
        """Return a copy that is held here."""
        try:
            return self.copies.find(moment, member)
        except KeyError:
            name = self.now.job.tasks[member].short
            raise UnavailableError(
                f"{self._own.task} holds no copy of {name} before step {moment.step}: "
                f"it may have gone on. Look for another generation.",
                task=self.now.me,
            ) from None

    def _beginning(
        self,
        member: int,
        moment: CopyPoint,
        holders: Mapping[int, Holder],
        log: Plain,
    ) -> Beginning:
        """Return what a member begins with.

        Fetches the member's newest copy now, and those of others only when it needs a
        part of the state that its own copy lacks.
        """
        own = self._copy(member, holders[member]) if member in holders else None

        def copies() -> Iterator[Shard]:
            if own is not None and own.moment == moment:
                yield own
            for holder_of, holder in holders.items():
                if holder_of != member and holder.moment == moment:
                    yield self._copy(holder_of, holder)

        if own is None:  # it had nothing to copy: the others' copies have all it needs
            return Beginning(moment.step, log, copies)
        # The rows of its steps: an observer may not have read them where it was before.
        put_rows = ToldRows(*map(bytes, own.parts[1:3])).put_into
        return Beginning(moment.step, log, copies, put_rows, own.kept)

    def _copy(self, member: int, holder: Holder) -> Shard:
        """Return a member's copy; fetch it if it is not held here."""
        try:
            return self.copies.find(holder.moment, member)
        except KeyError:
            return self._processes.copy(holder, member)

    # -- what is here ---------------------------------------------------------------

    def _trainings(self, member: int) -> Trainings:
        is_own = self.now.job.tasks[member] == self._own.task
        return self._own if is_own else self._stand_ins[member].trainings

    def _members(self) -> list[Member]:
        """Return the members of the newest generation here."""
        stand_ins = [*self._stand_ins.values()]  # another thread may add one
        hosts = [self._own, *(stand_in.trainings for stand_in in stand_ins)]
        members = [host.maybe_find(self.now.job.run) for host in hosts]
        return [member for member in members if member is not None]

    def _answer(self, op: str, question: Plain) -> Answer:
        handler = ElasticHandlers(lambda _: self).table()[op]
        return handler.finish(check(op, handler.fields, question), bytearray())


def _may_follow(member: Member, error: KitError) -> bool:
    """Whether another generation may follow one that a member has ended with."""
    # What is unavailable may be replaced; any other error would come again. Where
    # nobody is replaced, a generation that has begun ends in good order or for good.
    now = member.job.generation
    if now.rehosts or (now.number and not member.epochs):
        return isinstance(error, UnavailableError | Fenced)
    return isinstance(error, Fenced)
