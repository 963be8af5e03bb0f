"""Where a member's steps happen: its buffers, its programs, its share of the work.

Theory of operation. `prepare` checks that an epoch can be carried out here, and changes
nothing. `adopt` begins it, at the same boundary at all members: it ends what the last
one's steps had started, sets the links' speed, moves what the change needs (`moves`, a
pure function, so both ends of a link do the same), and takes the new plan. `run` does
steps by the member's part in it (`part`), made anew for each epoch. With whom a member
needs a link follows from the plan and the moves alone (`partners`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kit.arrays import to_numpy
from kit.exchange import state_transfer
from kit.exchange.execution.program import Program
from kit.exchange.group.linked_member import shape
from kit.exchange.layout import Range
from kit.exchange.plan import NOW, SLOT, Owned, Plan
from kit.exchange.ports.memory import physical
from kit.exchange.state_transfer import Move
from kit.exchange.topologies.topology import by_name
from kit.features import load
from kit.machine import give_back_freed
from kit.training.core import conflicts
from kit.training.core.axes import ranges_of
from kit.training.core.context import MemberContext
from kit.training.core.coordinator import TrainingCoordinator
from kit.training.core.job import Job, Work
from kit.training.core.log import Epoch
from kit.training.core.part import (
    MeasuresToMeter,
    MemberPart,
    PartRole,
    StepCallback,
    StepEvents,
)
from kit.training.optimizers.rule import MeanUpdate
from kit.training.worker.worker import TrainingWorker
from kit.wire.shaping import LinkSettings


class EpochRunner:
    """Carries out the epochs of one member."""

    def __init__(
        self,
        context: MemberContext,
        work: Work | None,
        coordinator: TrainingCoordinator | None = None,
        callbacks: Sequence[StepCallback] = (),
    ) -> None:
        """Begin without an epoch: nothing happens until one is adopted.

        A worker needs `work`; `coordinator` is given in the coordinator's task alone.
        """
        self._context, self._work, self._coordinator = context, work, coordinator
        self._owners: tuple[Owned, ...] = ()
        self._plan: Plan | None = None
        self._epoch = context.job.start
        self._part: MemberPart | None = None
        self._update = MeanUpdate(context.job.optimizer, len(context.job.workers))
        self._worker: TrainingWorker | None = None
        if work is not None:
            self._worker = TrainingWorker(
                context.job,
                context.me,
                work,
                context.workplace.memory,
                context.endpoint,
                context.state,
                context.own_part,
                context.compression,
                context.workplace,
            )
            context.data_reports = self._worker.reports
            callbacks = (MeasuresToMeter(context, self._worker), *callbacks)
        self.events = StepEvents(context, callbacks)

    def prepare(self, epoch: Epoch) -> frozenset[int]:
        """Check that the epoch can be carried out here; raises what speaks against it.

        Nothing is changed: if one member cannot, all go on as before. Returns the
        members that deal with us in the epoch, and while it begins.
        """
        job = self._context.job
        conflicts.check(job, epoch.topology, epoch.synchronous)
        LinkSettings.parse(epoch.link)
        moved = self._moves(epoch, job.owners(epoch))
        return partners(job, self._context.me, epoch, moved)

    def _moves(self, epoch: Epoch, owners: tuple[Owned, ...]) -> Moves:
        job = self._context.job
        about = self._epoch, self._owners, epoch, owners
        return moves(job, *about, resumes=job.resumes)

    def adopt(self, epoch: Epoch) -> None:
        """Begin an agreed epoch: set the links, do the moves, bind the plan."""
        context, job = self._context, self._context.job
        stamp, before = context.endpoint.stamp, self._epoch
        self.close()  # its exchange thread uses the memory that changes now
        self._bring_to_first()
        # Before anything moves: the bytes of the moves are counted in the new epoch.
        stamp.epoch, stamp.step = epoch.number, epoch.first_step
        context.step = epoch.first_step
        shape(context.endpoint, LinkSettings.parse(epoch.link), job.group.hosts)
        topology = by_name(epoch.topology)
        owners = job.payload.owners(topology)
        moved = self._moves(epoch, owners)
        self._count_from(before, epoch)
        if epoch.number == 1:
            self._fill(owners)  # the moves then send on what was filled in
        once = Plan((), tuple(state_transfer.ops(moved, context.me)))
        Program(once, context.endpoint, context.memory, context.meter, once=True).step()
        self._owners, self._epoch = owners, epoch
        context.owners = owners
        context.topology = topology
        context.schedule = job.schedule_of(epoch.synchronous)
        context.digests.adopt(epoch.number, owners, job.coordinator)
        # At a change from one asynchronous epoch to another, no two members hold the
        # same parameters; at all others everybody does.
        if epoch.synchronous or before.synchronous:
            context.digests.note(context.step, context.now)
        self._plan = job.plan(topology, context.me)
        stamp.overwrites, stamp.stays = self._overwrites(), not topology.agrees
        context.history.note("epoch", epoch=epoch.number, topology=epoch.topology)

    def tell_adopted(self) -> None:
        """Call the callbacks of an epoch that has begun; one may raise."""
        epoch = self._epoch
        self.events.adopted(self._owners, epoch.first_step, epoch.synchronous)

    def run(self, step: int) -> None:
        """Do steps until a halt, or none at all if this member is idle."""
        self._context.step = step
        if self._plan is None:
            return
        context, workplace = self._context, self._context.workplace
        if self._part is None:
            about = context, self.events, self._plan, self._worker, self._coordinator
            self._part = part_of(PartRole(*about, beside=workplace.may_overlap))
        with workplace.at_work(context):
            self._part.run(step)
        if not workplace.stays_bound:
            self._end_part()

    def close(self) -> None:
        """End what the steps started."""
        self._end_part()
        if self._context.workplace.leave() and self._worker is not None:
            self._worker.forget()

    def _end_part(self) -> None:
        if self._part is not None:
            self._part.close()
            self._part = None

    def _overwrites(self) -> bool:
        """Whether two regions are enough: the next parameters where the gradients were.

        All members of the plan come to the same answer. The parameters of the last step
        stay whole all the same until those of the next are complete here, and then
        nothing but the end of a member can keep them from being complete everywhere.
        """
        plan = self._plan
        if plan is None or self._context.schedule.is_served:
            return False
        return plan.overwrites and self._update.spends

    def _bring_to_first(self) -> None:
        """Bring the parameters into the first of the two regions, as all members do.

        Asynchronous members have made different numbers of updates. Some may have begun
        the epoch before us: they read and write here only after our next post.
        """
        stamp, memory = self._context.endpoint.stamp, self._context.memory
        if stamp.parity:
            whole, first = Range(0, self._context.job.layout.n_bytes), physical(NOW, 0)
            memory.raw(first, whole)[:] = memory.raw(self._context.now, whole)
            stamp.parity = 0

    def _count_from(self, before: Epoch, epoch: Epoch) -> None:
        """Count the mini-batches taken so far, so that no worker takes one twice."""
        job, taken_from, step = self._context.job, self._worker, epoch.first_step
        if epoch.number == 1 and step:
            self._context.history.note("restored", step=step)
            if taken_from is not None:
                # How many each had taken at its own pace is not saved: assume that all
                # were equally fast.
                taken_from.taken = -(-step // len(job.workers))
        elif before.synchronous and not epoch.synchronous and taken_from is not None:
            taken_from.taken = step  # as many as are behind us

    def _fill(self, owners: tuple[Owned, ...]) -> None:
        """Write the state to begin with: a restored one, or the initial one."""
        context, job = self._context, self._context.job
        if context.restore is not None:
            own = ranges_of(owners, context.me)
            context.restore(context.memory, context.now, own)
            context.restore = None
        else:
            mine = [item.range for item in owners if context.me in item.members]
            # Only our own: pages of slots that others keep are never touched, and cost
            # no memory.
            for number, slot in enumerate(job.optimizer.slots):
                for owned in mine:
                    context.memory.typed(SLOT + number, owned)[...] = slot.initial
            if context.me == job.coordinator:
                assert self._work is not None
                values: dict[str, Any] = self._work.params or {}
                for name, target in context.memory.leaves(context.now).items():
                    np.copyto(target, to_numpy(values[name]))
        if self._work is not None and self._work.params is not None:
            self._work.params = None  # they are in the arenas now
            give_back_freed()


def part_of(role: PartRole) -> MemberPart:
    """Return what carries out a role in the epoch that holds."""
    schedule, payload = role.context.schedule, role.context.job.payload
    worker = payload.worker or schedule.worker
    part: MemberPart = load(schedule.server if role.worker is None else worker)(role)
    return part


# --------------------------------------------------------------------------------------
# What moves when an epoch begins, and with whom a member deals in it. Pure.


Moves = tuple[Move, ...]


def moves(
    job: Job,
    before: Epoch,
    owned: tuple[Owned, ...],
    epoch: Epoch,
    owners: tuple[Owned, ...],
    *,
    resumes: bool,
) -> Moves:
    """Return what moves when `epoch` follows `before`, and `owners` those that `owned`.

    Slots, and parameters that workers lack. At the start all parameters; with a step
    behind it, slots as well. Where it `resumes` from copies, its owners have theirs.
    """
    n_slots = len(job.optimizer.slots)
    if epoch.number == 1 and resumes:
        there = tuple(worker for worker in job.workers if worker not in job.absent)
        group = replace(job.group, workers=there)
        return state_transfer.resumed(owners, group, n_slots)
    if epoch.number == 1:
        if not epoch.first_step:
            return state_transfer.broadcast(job.layout, job.group, job.coordinator)
        return state_transfer.restored(
            job.layout, job.group, job.coordinator, owners, n_slots
        )
    handed = state_transfer.handover(owned, owners, n_slots, job.group)
    if before.synchronous or not epoch.synchronous:
        return handed
    # After asynchronous steps a worker has only what it pulled last. It takes the
    # servers' before any handover: a new owner is to have the newest parameters.
    return (*state_transfer.refresh(owned, job.workers), *handed)


def first_partners(job: Job, me: int) -> frozenset[int]:
    """Return who needs a link to `me` when the training begins.

    Those of its steps; and those that give it parameters, or get them from it.
    """
    start, owners = replace(job.start, number=1), job.owners(job.start)
    moved = moves(job, job.start, (), start, owners, resumes=job.resumes)
    return partners(job, me, start, moved)


def partners(job: Job, me: int, epoch: Epoch, moved: Moves) -> frozenset[int]:
    """Return the members that deal with `me` in an epoch, and while it begins."""
    members = {move.target for move in moved if move.source == me}
    members |= {move.source for move in moved if move.target == me}
    plan = job.plan(by_name(epoch.topology), me)
    members |= job.schedule_of(epoch.synchronous).partners(plan, me)
    return frozenset(members - {me} - job.absent)
