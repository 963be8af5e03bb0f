"""What moves when an epoch begins, and with whom a member deals in it. Pure."""

from __future__ import annotations

from dataclasses import replace

from kit.exchange import state_transfer
from kit.exchange.plan import Owned
from kit.exchange.state_transfer import Move
from kit.exchange.topologies.topology import by_name
from kit.training.coordination.epoch import Epoch
from kit.training.job import Job

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
        return state_transfer.resumed(owners, job.group, n_slots)
    if epoch.number == 1:
        if not epoch.first_step:
            return state_transfer.broadcast(job.layout, job.group, job.coordinator)
        return state_transfer.restored(
            job.layout, job.group, job.coordinator, owners, n_slots
        )
    if not owned:  # we join: as all others, we come from where they are
        owned, before = owners, epoch
    handed = state_transfer.handover(owned, owners, n_slots, job.group)
    joined = [member for member, _ in epoch.joined]
    handed = (*state_transfer.refresh(owners, joined), *handed)
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
    found = {one.target for one in moved if one.source == me}
    found |= {one.source for one in moved if one.target == me}
    plan = job.plan(by_name(epoch.topology), me)
    found |= job.schedule_of(epoch.synchronous).partners(plan, me)
    return frozenset(found - {me})
