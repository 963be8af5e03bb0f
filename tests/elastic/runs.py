"""The members of one generation: they begin, do steps, keep copies, and end.

A run commits a step when all its members have begun and see each other; each member's
copy is then kept in two processes.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from kit.errors import ClusterBusy, DeadlineExceededError, KitError, PeerLost
from kit.task import Task
from kit.training.core.coordinator import log_of
from kit.training.core.job import Job
from kit.training.core.log import DecisionLog, Decisions
from kit.training.core.snapshot import Beginning, CopyPoint, Shard
from kit.training.features.elastic.asking import Coroutine

if TYPE_CHECKING:
    from tests.elastic.world import Machine, StandIn, World

CONNECT_S = 5.0
N_STEPS = 2  # that each generation does


@dataclass(eq=False)
class Coordinator:
    """What is asked of the coordinator of one run."""

    run: Run
    log: DecisionLog

    def plain_log(self) -> dict[str, Any]:
        return self.log.to_plain()

    def regroup(self, reason: str) -> None:
        self.run.regroup(reason)

    def fail(self, error: KitError) -> None:
        """A member that has ended takes no request: see `Run.leave`."""


@dataclass(eq=False)
class Member:
    """A member of one run, in one process."""

    job: Job
    me: int
    host: Machine
    run: Run
    coordinator: Coordinator | None
    beginning: Beginning | None = None
    state: str = "running"
    error: KitError | None = None
    stepped_at = -1.0  # nothing is told of the time that steps take

    @property
    def task(self) -> Task:
        return self.job.tasks[self.me]

    @property
    def step(self) -> int:
        return self.run.step

    @property
    def is_over(self) -> bool:
        return self.state != "running"

    def join(self, _: float) -> bool:
        return self.is_over

    def read(self) -> None:
        """Read the copies with which it begins, wherever they are."""
        if self.beginning is None or self.is_over:
            return
        try:
            for copy in self.beginning.copies():
                assert copy.moment.step == self.beginning.step
        except KitError as error:
            self.abort(error)

    def abort(self, error: KitError) -> None:
        if self.is_over:
            return
        self.state, self.error = "failed", error
        world, host = self.host.world, self.host
        world.post(f"ended {self.me}", host, lambda: host.tell_end(self))
        self.run.tell_others(self.host)


@dataclass(eq=False)
class Run:
    """The members of one generation that have begun, wherever they are."""

    world: World
    job: Job
    step: int = 0
    members: dict[int, Member] = field(default_factory=dict)
    kept: set[int] = field(default_factory=set)
    n_steps: int = 0
    reason: str = ""  # why it is to end after one more copy
    is_due: bool = False

    @property
    def places(self) -> tuple[str, ...]:
        """The processes that are to host its members."""
        result: tuple[str, ...] = self.job.generation.places
        return result

    @property
    def is_whole(self) -> bool:
        result = [member.host for member in self.members.values() if not member.is_over]
        return len(result) == len(self.job.tasks) and all(
            self.world.sees(item, other) for item in result for other in result
        )

    def add(self, member: Member) -> None:
        self.members[member.me] = member
        self.call_step()
        world, host = self.world, member.host
        for name in sorted({*self.places}):
            machine = world.machines[name]
            here = [item for item in self.members.values() if item.host.name == name]
            # Nobody listens there, or what has begun there is over already; with its
            # process, if another one of that task is there by now.
            is_new = any(item.host is not machine for item in here)
            if machine.is_lost or is_new or any(item.is_over for item in here):
                self.tell_others(machine)
        if len(self.members) < len(self.job.tasks):

            def give_up() -> None:
                if len(self.members) < len(self.job.tasks):
                    member.abort(DeadlineExceededError("not all have begun."))

            world.post(f"waits {member.me}", host, give_up, at=CONNECT_S)

    def call_step(self) -> None:
        if not self.is_due and self.is_whole:
            self.is_due = True
            first = self.members[self.job.coordinator].host
            self.world.post("step", first, self.do_step)

    def do_step(self) -> None:
        self.is_due = False
        if not self.n_steps and self.is_whole:
            for member in [*self.members.values()]:
                member.read()
        if not self.is_whole:
            return
        self.world.invariants.commits(self)
        self.step += 1
        self.n_steps += 1
        self.kept.clear()
        for member in self.members.values():
            member.host.hears(hash(("step", self.step)))
            do = partial(self.copy, member)
            self.world.post(f"copy {member.me}", member.host, do)

    def copy(self, member: Member) -> None:
        if member.is_over:
            return
        generation = self.job.generation
        made = Shard(
            *(CopyPoint(self.step, generation.number, 1), member.me),
            *(tuple(range(len(self.job.tasks))), ()),
            self._log.to_plain(),
            # Its run, by which the invariants know it.
            *((0, 0, 0, 0), np.frombuffer(self.job.run.encode(), np.uint8)),
        )
        try:
            member.host.training.keep_copy(made)
        except KitError:
            return
        self.kept.add(member.me)
        if len(self.kept) == len(self.job.tasks):
            self.world.invariants.confirmed(self, made.moment)
            if self.reason:
                self.members[self.job.coordinator].abort(PeerLost(self.reason))
            elif self.n_steps < N_STEPS:
                self.call_step()

    def regroup(self, reason: str) -> None:
        self.reason = self.reason or reason
        self.call_step()

    @property
    def _log(self) -> DecisionLog:
        """What is decided, as its coordinator knows."""
        leads = self.members[self.job.coordinator].coordinator
        assert leads is not None
        return leads.log

    def leave(self, name: str) -> None:
        """Ask the coordinator to go on without a process, as `run.leave` does."""
        generation, leads = self.job.generation, self.members.get(self.job.coordinator)
        if leads is None or leads.is_over or leads.coordinator is None:
            return
        log = leads.coordinator.log
        assert log.now.placing is not None
        left = log.now.placing.left
        if name in left or set(generation.processes) <= {*left, name}:
            return
        self.world.asked_to_leave.add(name)
        log.append(generation.number, Decisions.command, "leave", {"task": name})
        accept = self._accept(name, leads.host, log.to_plain())
        leads.host.run(f"{name} leaves", accept)
        self.regroup(f"{name} leaves")

    def _accept(
        self, name: str, host: Machine, reply: dict[str, Any]
    ) -> Coroutine[None]:
        with suppress(KitError):  # who asked is told so
            yield from host.succession.share(self.job.run, reply)
            self.world.leaving.add(name)

    def tell_others(self, gone: Machine, silent_s: float = 0.0) -> None:
        """Let the other processes' members notice that one has ended."""
        for member in self.members.values():
            if member.host is not gone and not member.is_over:

                def hear(peer: Member = member) -> None:
                    if not silent_s or not self.world.sees(peer.host, gone):
                        peer.abort(PeerLost(f"{gone.name} is gone."))

                # The end of a link is heard as soon as the way is free.
                peer = None if silent_s or gone.is_lost else gone
                label = f"hears of {gone.name} {member.me}"
                self.world.post(label, member.host, hear, peer, at=silent_s)


def start(
    host: Machine, server: Machine | StandIn, job: Job, beginning: Beginning | None
) -> None:
    """Begin a member in a server, as `Trainings.begin_generation` does."""
    last = server.member
    if last is not None and not last.is_over:
        raise ClusterBusy(f"{server.task} is in run {last.job.run[:8]}")
    run = host.world.runs.setdefault(job.run, Run(host.world, job))
    me = job.tasks.index(server.task)
    leads = None
    if me == job.coordinator:
        run.step = beginning.step if beginning is not None else 0
        reply = beginning.log if beginning is not None else None
        leads = Coordinator(run, log_of(job, reply))
    server.member = Member(job, me, host, run, leads, beginning)
    server.earlier.append(server.member)
    run.add(server.member)


def found_in(server: Machine | StandIn, run: str) -> Member | None:
    """Return the member of a run, if there is one."""
    return next((item for item in server.earlier if item.job.run == run), None)
