"""Where a member's steps happen: its buffers, its programs, its share of the work.

The stage knows the current epoch's plan and carries it out, step by step; when an epoch
begins it first does the moves that the change needs.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from kit.arrays import to_numpy
from kit.exchange import moves
from kit.exchange.execution.program import Program
from kit.exchange.layout import Range
from kit.exchange.pipeline import pipelined
from kit.exchange.plan import NOW, SLOT, Owned, Plan
from kit.exchange.ports.memory import physical
from kit.machine import give_back_freed
from kit.training.backup_workers.server import QuorumServer
from kit.training.backup_workers.worker import QuorumWorker
from kit.training.checkpointing.own_state import fill
from kit.training.coordination.membership import Epoch
from kit.training.member.async_steps import AsyncServer, AsyncWorker
from kit.training.member.context import MemberContext, Rounds
from kit.training.member.sync_steps import SyncServer, SyncWorker
from kit.training.optimizers.rule import MeanUpdate
from kit.training.worker.worker import TrainingWorker
from kit.wire.shaping import LineIn, LineOut, LinkSettings


class EpochRunner:
    """Carries out the epochs of one member."""

    def __init__(self, part: MemberContext) -> None:
        """Begin without an epoch: nothing happens until one is adopted."""
        self._part = part
        self._owners: tuple[Owned, ...] = ()
        self._plan: Plan | None = None
        self._epoch = part.job.start
        self._rounds: Rounds | None = None
        self._n_slots = len(part.job.optimizer.slots)
        self._update = MeanUpdate(part.job.optimizer, len(part.job.workers))
        self._place: TrainingWorker | None = None
        if part.work is not None:
            self._place = TrainingWorker(
                part.job, part.me, part.work, part.memory, part.endpoint
            )
            part.measures = self._place

    def prepare(self, epoch: Epoch) -> None:
        """Check that the epoch can be carried out here; raises what speaks against it.

        Nothing is changed: if one member cannot, all go on as before.
        """
        job = self._part.job
        topology = job.check_topology(epoch.topology, epoch.synchronous)
        LinkSettings.parse(epoch.link)
        topology.plan(job.layout, job.group, self._part.me)

    def adopt(self, epoch: Epoch) -> None:
        """Begin an agreed epoch: set the links, do the moves, bind the plan."""
        part, job = self._part, self._part.job
        stamp, before = part.endpoint.stamp, self._epoch
        self._close_rounds()
        self._bring_to_first()
        stamp.epoch, stamp.step = epoch.number, epoch.first_step
        part.step = epoch.first_step
        self._set_links(LinkSettings.parse(epoch.link))
        topology = job.check_topology(epoch.topology, epoch.synchronous)
        owners = topology.owners(job.layout, job.group)
        if epoch.number == 1:
            handed = self._beginning(epoch, owners)
            self._fill(owners)
        else:
            handed = self._change(epoch, owners)
        once = Plan((), moves.ops(handed, part.me))
        Program(once, part.endpoint, part.memory, part.meter, once=True).step()
        part.endpoint.flush()
        self._owners, self._epoch = owners, epoch
        part.synchronous = epoch.synchronous
        part.digests.adopt(epoch.number, owners, job.coordinator)
        if epoch.synchronous or before.synchronous:
            part.digests.note(part.step, part.now)
        self._plan = topology.plan(job.layout, job.group, part.me)
        stamp.overwrites = self._overwrites(epoch)
        part.history.note("epoch", epoch=epoch.number, topology=epoch.topology)
        if part.saves is not None:
            part.saves.adopt(owners, epoch.first_step, epoch.synchronous)

    def run(self, step: int) -> None:
        """Do steps until a halt, or none at all if this member is idle."""
        self._part.step = step
        if self._plan is None:
            return
        if self._rounds is None:
            self._rounds = self._make_rounds(self._plan)
        self._rounds.run(step)

    def close(self) -> None:
        """End what the steps started."""
        self._close_rounds()

    def _overwrites(self, epoch: Epoch) -> bool:
        """Whether two regions are enough: the next parameters where the gradients were.

        All members of the plan come to the same answer. The parameters of the last step
        stay whole all the same until those of the next are complete here, and then
        nothing but the end of a member can keep them from being complete everywhere.
        """
        in_turns = epoch.synchronous and not self._part.job.has_backups
        plan = self._plan
        return plan is not None and in_turns and plan.overwrites and self._update.spends

    def _make_rounds(self, plan: Plan) -> Rounds:
        part, place = self._part, self._place
        if not self._epoch.synchronous:
            return AsyncWorker(part, place) if place else AsyncServer(part)
        if part.job.has_backups:
            return QuorumWorker(part, place) if place else QuorumServer(part)
        plan = pipelined(plan, part.job.layout, early=not self._n_slots)
        program = Program(
            plan,
            part.endpoint,
            part.memory,
            part.meter,
            update=self._update,
            n_slots=self._n_slots,
        )
        return SyncWorker(part, program, place) if place else SyncServer(part, program)

    def _close_rounds(self) -> None:
        if self._rounds is not None:
            self._rounds.close()
            self._rounds = None

    def _bring_to_first(self) -> None:
        """Bring the parameters into the first of the two regions, as all members do.

        Asynchronous members have made different numbers of updates. Some may have begun
        the epoch before us: they read and write here only after our next post.
        """
        stamp, memory = self._part.endpoint.stamp, self._part.memory
        if stamp.parity:
            whole, first = Range(0, self._part.job.layout.n_bytes), physical(NOW, 0)
            memory.raw(first, whole)[:] = memory.raw(self._part.now, whole)
            stamp.parity = 0

    def _set_links(self, settings: LinkSettings) -> None:
        endpoint, shaped = self._part.endpoint, settings.is_shaped
        dice: Callable[[], float] = random.Random(self._part.me).random
        line_out = LineOut(settings, dice) if shaped else None
        endpoint.line_in = LineIn(settings) if shaped else None
        for port in endpoint.ports.values():
            port.line_out = line_out

    def _beginning(
        self, epoch: Epoch, owners: tuple[Owned, ...]
    ) -> tuple[moves.Move, ...]:
        """Return what moves at the start; with a step behind it, slots as well."""
        job = self._part.job
        if not epoch.first_step:
            return moves.broadcast(job.layout, job.group, job.coordinator)
        self._part.history.note("restored", step=epoch.first_step)
        if self._place is not None:  # at their own pace: as if all were equally fast
            self._place.taken = -(-epoch.first_step // len(job.workers))
        return moves.restored(
            job.layout, job.group, job.coordinator, owners, self._n_slots
        )

    def _change(
        self, epoch: Epoch, owners: tuple[Owned, ...]
    ) -> tuple[moves.Move, ...]:
        """Return what moves at a switch: slots, and parameters that workers lack."""
        job, before = self._part.job, self._epoch
        if not self._owners:  # we join: as all others, we come from where they are
            self._owners, before = owners, epoch
        handed = moves.handover(self._owners, owners, self._n_slots, job.group)
        joined = [member for member, _ in epoch.joined]
        handed = (*moves.refresh(owners, joined), *handed)
        if before.synchronous and not epoch.synchronous and self._place is not None:
            # As many as are behind us, so that no worker takes one twice.
            self._place.taken = epoch.first_step
        if before.synchronous or not epoch.synchronous:
            return handed
        return (*moves.refresh(self._owners, job.workers), *handed)

    def _fill(self, owners: tuple[Owned, ...]) -> None:
        """Write the initial parameters and the initial slots of what is ours."""
        part, job = self._part, self._part.job
        mine = [one.range for one in owners if part.me in one.members]
        for number, slot in enumerate(job.optimizer.slots):
            for owned in mine:
                part.memory.typed(SLOT + number, owned)[...] = slot.initial
        if part.restored is not None:
            fill(part.memory, part.now, job.slots, part.restored)
            part.restored = None
        elif part.me == job.coordinator:
            assert part.work is not None
            values: dict[str, Any] = part.work.params or {}
            for name, place in part.memory.leaves(part.now).items():
                np.copyto(place, to_numpy(values[name]))
        if part.work is not None and part.work.params is not None:
            part.work.params = None  # they lie in the arenas now
            give_back_freed()
