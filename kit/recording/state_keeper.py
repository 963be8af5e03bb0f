"""The sink of recordings: a member's shard after a certain step.

Nothing stops for it. The recorder asks all members, a little ahead, for the state after
one step; each takes its shard when it has done that step, in the thread of its steps,
and hands it out when it is asked again. Only synchronous steps have a state that all
members share.
"""

from __future__ import annotations

from typing import Any

from kit.errors import UnavailableError
from kit.training.core.axes import writers_of
from kit.training.core.context import MemberContext
from kit.training.core.job import Job
from kit.training.core.member import Member
from kit.training.core.part import StepCallback
from kit.training.core.snapshot import Shard, private, take
from kit.training.worker import kept_state


class StateKeeper(StepCallback):
    """Keeps one shard: of the step that was asked for last."""

    def __init__(self, context: MemberContext) -> None:
        self._context, self._wanted = context, -1
        self._taken: Shard | None = None

    def shard(self, step: int) -> Shard | None:
        """Return the shard after `step` steps; None: it is to be taken, if not done."""
        taken = self._taken
        if taken is not None and taken.moment.step == step:
            return taken
        self._wanted = step
        return None

    def committed(self, step: int) -> None:
        """See `StepCallback`."""
        context, job = self._context, self._context.job
        if step != self._wanted or not context.schedule.in_step:
            return
        first = writers_of(context.owners, job.coordinator)
        writers = tuple(sorted({*first, *states_of(job).values()}))
        self._taken = take(context, step, writers, private)


def states_of(job: Job) -> dict[str, int]:
    """Return what workers keep, by name, and whose: with switches on the way."""
    keep = job.workers if job.own_work.may_keep else job.states.values()
    return {kept_state.name_of(job.tasks[member]): member for member in keep}


def recorded(
    member: Member, at: int | None, since: int
) -> tuple[dict[str, Any], bytes | memoryview]:
    """Return what a recording asks of a member, without stopping anything.

    The state after `at` steps, if it is there, else it is to be kept; and of the
    coordinator, the digests on which all members have agreed, after the first `since`.
    """
    context, coordinator = member.context, member.coordinator
    if context is None:
        raise UnavailableError(f"{member.task} has nothing to record now.")
    digests, cursor = coordinator.agreed(since) if coordinator is not None else ([], 0)
    reply = {"step": context.step, "digests": digests, "cursor": cursor, "state": None}
    events, keeper = member.events, member.keeper
    if at is None or events is None:
        return reply, b""
    if keeper is None:
        keeper = member.keeper = StateKeeper(context)
        events.add(keeper)
    shard = keeper.shard(at)
    if shard is None:
        return reply, b""
    return {**reply, "state": shard.about()}, memoryview(shard.data)
