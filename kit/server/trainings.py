"""The trainings of a task: one at a time; the last one is kept for its observers.

Gives a member its links and its way to the coordinator, and answers questions about a
training: those of members to their coordinator, and those of a notebook to any task.

Links and questions arrive in threads of their own, at any time. Each of them reads
`member` once, into a local name, and then works with that member: another one may have
taken its place by the next line.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from kit import arithmetic
from kit.errors import (
    AbortedError,
    ClusterBusy,
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    KitError,
    NotFoundError,
)
from kit.features import load
from kit.server.arrivals import Arrivals
from kit.server.data_links import open_streams
from kit.server.directory import Directory
from kit.server.watchers import Watchers
from kit.settings import Settings
from kit.task import Task
from kit.training.core.coordinator import TrainingCoordinator
from kit.training.core.job import Job, Work
from kit.training.core.member import Member
from kit.training.core.questions import (
    CoordinatorClient,
    OverLinks,
    SameProcess,
)
from kit.training.core.snapshot import Beginning
from kit.wire.frame import Header, cluster_number
from kit.wire.handshake.messages import Role
from kit.wire.link import Link
from kit.wire.rpc import Caller
from kit.wire.stream import Stream

_LOOK_S = 0.02
_MOST_PAST = 32  # trainings that are remembered by their runs
_N_EARLIER = 4
_NEWS_S = 1.0  # to dial for news: without this link, the observer dials itself
# Observers learn of the end of a training a tenth of a second late, if all is well.
WATCHED_S = 1.0


def _silent_s(limits: Settings) -> float:
    """Return how long a task that is known to listen may leave a dial unanswered."""
    return max(limits.dead_after_s, limits.connect_deadline_s)


@dataclass
class _Ways:
    """The links of one member to the coordinator, which is here."""

    links: set[Link] = field(default_factory=set)
    were_used: bool = False


class StandIn(Protocol):
    """A server for a member whose own process was lost."""

    trainings: Trainings

    @property
    def address(self) -> Any:
        """Where it listens."""

    def stop(self) -> None:
        """End everything."""


class Trainings:
    """A server's trainings; also the `Services` of their members."""

    def __init__(
        self,
        me: Task,
        directory: Callable[[], Directory],
        stand_in: Callable[[Task, str], StandIn],
    ) -> None:
        """`directory` is called when it is needed: it may be known only later.

        `stand_in` makes a server of this process for another task.
        """
        self.task, self._directory, self.stand_in = me, directory, stand_in
        self.member: Member | None = None
        # Trainings that are over here: a task that is late must not wait for them.
        self._past: deque[str] = deque(maxlen=_MOST_PAST)
        # Members of earlier generations, for observers that are a little behind.
        self._earlier: deque[Member] = deque(maxlen=_N_EARLIER)
        self._elastic: Any = None  # an `ElasticTraining`, where there is one
        # Why the last training was refused here, and to which members that was said.
        self._refusal: tuple[KitError, set[int]] | None = None
        self._arrivals = Arrivals()
        self.watchers = Watchers()
        self._ways: dict[tuple[bytes, Task], _Ways] = {}
        self._is_closed = False
        # Held while a training begins. It is re-entrant, as a member that is made under
        # it may call these methods.
        self._guard = threading.RLock()

    def begin(self, job: Job, work: Work | None) -> Member:
        """Start this task's part in a training, in threads of its own.

        Waits a moment for the observers of the last training, which is then let go of.
        Raises `ClusterBusy` while another one runs here, `FailedPreconditionError`
        once this is closed.
        """
        if self.task not in job.tasks:
            raise InvalidArgumentError(f"{self.task} is not a member of run {job.run}.")
        number = job.tasks.index(self.task)
        if number in job.workers and work is None:
            raise InvalidArgumentError(
                f"{self.task} computes in run {job.run}, but was given no step "
                f"function."
            )
        # Not under the guard: both wait, and data links must be taken meanwhile.
        self._see_watchers_off()
        with self._guard:
            self._be_elastic(None)
            return self._start(job, number, work)

    def prepare(self, job: Job) -> dict[int, str]:
        """Listen for the members that an elastic training will have in this process.

        Returns their addresses by number; see `Job.needs_preparing`. Raises as `begin`
        does.
        """
        self._see_watchers_off()
        with self._guard:
            elastic = self._new_elastic(job, None)
            self._be_elastic(elastic)
            addresses: dict[int, str] = elastic.prepare()
            return addresses

    def begin_elastic(self, job: Job, work: Work | None) -> None:
        """Start this process's part in generations; raises as `begin` does."""
        generation = job.generation
        is_followed = generation.is_followed
        if not is_followed or self.task.short not in generation.processes:
            raise InvalidArgumentError(f"{self.task} takes no part in run {job.run}.")
        self._see_watchers_off()
        with self._guard:
            elastic = self._elastic
            if elastic is None or elastic.origin != generation.origin:
                elastic = self._new_elastic(job, None)
                self._be_elastic(elastic)
            elastic.begin_first(job, work)

    def join_elastic(self, job: Job, work: Work | None) -> None:
        """Ask to take part in an elastic training; `job` is a generation of it.

        Returns at once.
        """
        with self._guard:
            elastic = self._new_elastic(job, work)
            self._be_elastic(elastic)
        elastic.join(job)

    def _new_elastic(self, job: Job, work: Work | None) -> Any:
        return load("kit.server.elastic.training:ElasticTraining")(
            job, work, self, self
        )

    def _be_elastic(self, elastic: Any) -> None:
        """Let go of the last training's generations, if nothing runs here."""
        self.check_free()
        before, self._elastic = self._elastic, elastic
        if before is not None:
            before.close(self)
        self._earlier.clear()

    def begin_generation(
        self,
        job: Job,
        work: Work | None,
        beginning: Beginning | None,
        elastic: Any,
    ) -> None:
        """Start this task's part in a generation of an elastic training.

        The first generation has no `beginning`.
        """
        with self._guard:
            self.check_free()
            # For a stand-in it is new: what its member does is reported to it.
            self._elastic = elastic
            if self.member is not None:
                self._earlier.append(self.member)
            number = job.tasks.index(self.task)
            self._start(job, number, work, beginning=beginning)

    def _start(
        self,
        job: Job,
        number: int,
        work: Work | None,
        beginning: Beginning | None = None,
    ) -> Member:
        try:
            member = Member(job, number, work, self, beginning)
        except KitError as error:
            self._refusal = error, set()
            raise
        last, self.member, self._refusal = self.member, member, None
        if last is not None:
            last.release()
            # Processes of an elastic training agree themselves on what follows.
            if not last.job.generation.is_followed:
                self._past.append(last.job.run)
        member.start()  # under the guard: `close` finds it started, or not at all
        return member

    def _see_watchers_off(self) -> None:
        """Wait, but not for long, until nobody observes the last training any more."""
        last = self.member
        if last is not None and last.is_over:
            is_done = last.state == "done"
            self.watchers.see_off(last.job.run, WATCHED_S, is_done=is_done)

    def check_free(self) -> None:
        """Raise `ClusterBusy` while a training runs here; see `begin`."""
        if self._is_closed:
            raise FailedPreconditionError(
                f"the server of {self.task} was stopped; make another one.",
                task=str(self.task),
            )
        last = self.member
        if last is not None and last.is_stuck:
            raise ClusterBusy(
                f"{self.task} is still in step {last.step} of a training that has "
                f"ended ({last.job.run[:8]}), at {last.last_doing.get('where')}. Give "
                f"it a new process: cluster.restart({self.task.short!r}).",
                task=str(self.task),
            )
        if last is not None and not last.is_over:
            raise ClusterBusy(
                f"{self.task} is at step {last.step} of another training "
                f"({last.job.run[:8]}). Wait for it with run.wait(), or end it with "
                f"run.stop().",
                task=str(self.task),
            )

    def give_up(self, run: str) -> None:
        """End a run that did not begin everywhere; another one is not touched."""
        member, elastic = self.member, self._elastic
        if elastic is not None and elastic.origin == run:
            elastic.give_up()
        if member is not None and member.job.run == run:
            member.abort(AbortedError("the training did not begin on all tasks."))
            # The next one may begin as soon as this returns.
            member.join(member.job.settings.suspect_after_s)

    def join(self, number: int, terms: Mapping[str, str]) -> str | None:
        """Return the run for member `number` to join; None while there is none.

        Raises what the last one was refused with here, once to each member.
        """
        if self._refusal is not None:
            error, informed = self._refusal
            if number not in informed:  # else it would wait for a run that never begins
                informed.add(number)
                raise error
        member = self.member
        if member is None or member.coordinator is None:
            return None
        run = member.coordinator.join(number, terms)
        if run is not None:
            # A short run may end before this member's program has dialled to watch it.
            self.watchers.expect(run, member.job.tasks[number])
        return run

    def look(self) -> dict[str, Any]:
        """Return the address of each task and this one's training, as plain data."""
        cluster: dict[str, dict[str, str]] = {}
        for task, address in self._directory().addresses.items():
            cluster.setdefault(task.job, {})[str(task.index)] = address
        member = self.member
        return {
            "task": str(self.task),
            "cluster": cluster,
            "run": member.job.run if member else "",
            "state": member.state if member else "",
            "step": member.step if member else 0,
            "arithmetic": arithmetic.here().to_plain(),
        }

    def find(self, run: str) -> Member:
        """Return the member of a run; `InvalidArgumentError` if it is not here."""
        member = self.maybe_find(run)
        if member is None:
            raise InvalidArgumentError(
                f"{self.task} knows nothing of training {run[:8]}; it ended and "
                f"another one has begun, or the task was restarted."
            )
        return member

    def maybe_find(self, run: str) -> Member | None:
        """Return the member of a run, if there is one here."""
        for member in self.member, *self._earlier:
            if member is not None and member.job.run == run:
                return member
        return None

    def elastic(self, origin: str) -> Any:
        """Return what this process knows of an elastic training, by its first run."""
        training = self._elastic
        if training is None or training.origin != origin:
            raise NotFoundError(
                f"{self.task} knows nothing of the elastic training {origin[:8]}; it "
                f"ended and another one has begun, or the task was restarted."
            )
        return training

    def ended(self, member: Member) -> None:
        """See `Services`."""
        if self._elastic is not None and member.job.generation.is_followed:
            self._elastic.ended(member)

    def share(self, run: str) -> None:
        """Tell other processes what is requested of an elastic training."""
        member = self.find(run)
        if member.job.generation.is_followed and member.coordinator is not None:
            elastic = self.elastic(member.job.generation.origin)
            elastic.share(run, member.coordinator.plain_log())

    def dial_process(
        self, task: Task, deadline_s: float, role: Role = Role.CONTROL
    ) -> Caller:
        """See `Neighbours`."""
        where = self._directory()
        return Caller(where.dial(task, self.task, role, deadline_s=deadline_s))

    def begun_here(self, origin: str) -> Any:
        """See `Neighbours`."""
        path = self._directory().runtime_dir / f"{origin}.generations"
        return load("kit.server.elastic.begun_here:BegunHere")(path)

    @property
    def address(self) -> str:
        """The address at which the server of these trainings listens."""
        return self._directory().addresses[self.task]

    @property
    def cluster_number(self) -> int:
        """The number in each frame that tells clusters apart."""
        return cluster_number(self._directory().credentials.cluster_id)

    def streams(
        self,
        job: Job,
        dialled: Sequence[int],
        awaited: Sequence[int],
        deadline: float,
    ) -> dict[int, Stream]:
        """Return a stream to each member that we dial, and from each that dials us."""
        return open_streams(
            dialled,
            awaited,
            lambda peer: self._dial(job.tasks[peer], Role.DATA, job.run, deadline),
            lambda peer: self._await(job.run, job.tasks[peer], deadline),
            job.settings.connect_deadline_s,
            self._directory().settings.transport,
            job.settings.streams,
        )

    def _dial(
        self,
        task: Task,
        role: Role,
        run: str,
        deadline: float,
        attempt_s: float = math.inf,
        *,
        saves: bool = False,
    ) -> Link:
        """Dial a member; one that does not listen yet may be about to start.

        All servers listen before a later generation begins: there, one that refuses has
        ended, and one that is silent is given up when it would count as dead.
        `saves`: the coordinator, which listens, is dialled for a checkpoint; also when
        the training has failed, as a save under way may still succeed.
        """
        member = self.find(run)

        def check() -> None:
            if member.is_over or not saves:
                member.check()

        job = member.job
        if address := job.address(job.tasks.index(task)):
            deadline = min(deadline, time.monotonic() + _silent_s(job.settings))
        return self._directory().reach(
            task,
            self.task,
            role,
            run,
            address=address,
            listens=bool(address) or saves,
            deadline=deadline,
            check=check,
            attempt_s=attempt_s,
        )

    def dial_for_news(self, run: str, number: int) -> Link:
        """Dial another member once, on behalf of an observer of them all."""
        job = self.find(run).job
        job.check_member(number)
        return self._directory().dial(
            job.tasks[number],
            self.task,
            Role.OBSERVER,
            run,
            deadline_s=min(_NEWS_S, job.settings.connect_deadline_s),
            address=job.address(number),
        )

    def _await(self, run: str, task: Task, deadline: float) -> tuple[Link, Header]:
        while (arrival := self._arrivals.maybe_take(run, task)) is None:
            member = self.find(run)
            member.check()
            self._check_listens(member.job, task)
            if time.monotonic() > deadline:
                raise DeadlineExceededError(
                    f"{task} did not open its data link to {self.task}; it has not "
                    f"begun this training. Look at its log.",
                    task=str(task),
                )
        return arrival

    def _check_listens(self, job: Job, task: Task) -> None:
        """Raise `UnavailableError` if nobody listens there, in a later generation.

        A process that is stopped still listens, and may wake up: silence is no answer.
        The link is closed unused, so it is not news at its other end (`link_closed`).
        """
        if address := job.address(job.tasks.index(task)):
            where, limit_s = self._directory(), job.settings.connect_deadline_s
            with suppress(DeadlineExceededError):
                where.dial(
                    task,
                    self.task,
                    Role.CONTROL,
                    deadline_s=limit_s,
                    address=address,
                ).close()

    def take_data_link(self, link: Link) -> None:
        """Keep a data link until its training asks for it."""
        with self._guard:
            member, run = self.member, link.run_id.hex()
            mine = member if member and member.job.run == run else None
            # A second link of the same process is one that it has given up.
            if mine and (mine.is_over or mine.has_link(link.peer)):
                link.close()
                return
            # This run may begin in a moment; others that left links never will.
            current = [member.job.run] if member and not member.is_over else []
            self._arrivals.keep_only([run, *current])
            self._arrivals.put(link)

    def client(
        self, job: Job, me: int, coordinator: TrainingCoordinator | None
    ) -> CoordinatorClient:
        """Return the way to the coordinator, once that has begun."""
        if coordinator is not None:
            return SameProcess(coordinator, me)
        to = job.tasks[job.coordinator]  # also where a stand-in answers for it
        limit_s = job.settings.redial_after_s  # then another attempt

        def dial(deadline: float, *, saves: bool = False) -> Caller:
            about = to, Role.CONTROL, job.run, deadline, limit_s
            return Caller(self._dial(*about, saves=saves))

        way = OverLinks(job.run, me, dial, job.settings)
        try:
            self._await_coordinator(way, job)
        except BaseException:
            way.close()
            raise
        return way

    def _await_coordinator(self, way: OverLinks, job: Job) -> None:
        """Wait until the coordinator has begun, or this member is to end."""
        limits, coordinator = job.settings, job.tasks[job.coordinator]
        # Somebody may still be starting the coordinator of a first generation. In a
        # later one it was begun before this member was (`Succession`).
        is_later = job.generation.number > 0
        limit_s = _silent_s(limits) if is_later else limits.start_deadline_s
        deadline = time.monotonic() + limit_s
        while (now := time.monotonic()) < deadline:
            self.find(job.run).check()
            error = DeadlineExceededError(
                f"{coordinator} did not begin the training that {self.task} is to take "
                f"part in. Look at its log.",
                task=str(coordinator),
            )
            try:  # not for long at a time: it may be stopped, and `check` has news
                if way.has_begun(min(deadline, now + limits.suspect_after_s)):
                    return
            except DeadlineExceededError as late:
                error = late
            time.sleep(_LOOK_S)
        raise error

    def begun(self, run: str) -> dict[str, Any]:
        """Return whether this task takes, or took, part in a run, as plain data.

        And, where it coordinates it, with how many BLAS threads all members compute.
        Raises `AbortedError` for a run that is over, and another has begun since.
        """
        member = self.member
        if member is None or member.job.run != run:
            if run in self._past:
                raise AbortedError(
                    f"that training is over on {self.task}, and another has begun.",
                    task=str(self.task),
                )
            return {"begun": False, "threads": 0}
        leads = member.coordinator
        return {"begun": True, "threads": leads.arithmetic.threads if leads else 0}

    def link_opened(self, link: Link) -> None:
        """Note a new link: of an observer, or of a member to its coordinator."""
        if link.role is Role.OBSERVER:
            self.watchers.opened(link)
        elif link.role is Role.CONTROL:
            with self._guard:
                self._ways.setdefault((link.run_id, link.peer), _Ways()).links.add(link)

    def link_closed(self, link: Link, was_used: bool) -> None:
        """Note the end of a link; the end of a member's last is a loss.

        But not if the member has another link, as it has dialled again, nor if none of
        them was ever used: the dialling side may have given up before it heard that it
        was let in.
        """
        self.watchers.closed(link)
        if link.role is not Role.CONTROL:
            return
        key = link.run_id, link.peer
        with self._guard:
            ways = self._ways.get(key, _Ways())
            ways.links.discard(link)
            ways.were_used |= was_used
            if ways.links:
                return
            self._ways.pop(key, None)
        member = self.member
        if member is None or member.coordinator is None or member.is_over:
            return
        if not ways.were_used:
            return
        if link.run_id.hex() == member.job.run and link.peer in member.job.tasks:
            number = member.job.tasks.index(link.peer)
            reason = "its links closed (its process has ended, or the line is cut)"
            member.coordinator.gone(number, reason)

    def close(self, deadline_s: float) -> None:
        """End the training under way and release everything; no other can begin."""
        with self._guard:
            self._is_closed = True  # first: no training begins while this one ends
            member = self.member
        # Before its members: their end would be taken for a loss, and be followed by
        # another generation.
        if self._elastic is not None:
            self._elastic.close(self)
        if member is not None and member.state == "done":
            self._see_watchers_off()
        if member is not None:
            if not member.is_over:
                text = f"{self.task} was stopped while a training was under way."
                member.abort(ClusterBusy(text, task=str(self.task)))
            if member.join(deadline_s):  # else its thread may still write to the arenas
                member.release()
        self._arrivals.close()
