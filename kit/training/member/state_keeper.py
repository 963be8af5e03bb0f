"""A member's copy of its state after a certain step, for a recording of the training.

Nothing stops for it. Who records asks all members, a little ahead, for the state after
one step; each copies what it updates when it has done that step, in the thread of its
steps, and hands the copy out when it is asked again. Synchronous steps alone have a
state that all members share.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kit.errors import UnavailableError
from kit.training.checkpointing.member_state import OwnState, ranges_of, writers_of
from kit.training.elastic.copies import StateCopy
from kit.training.elastic.generation import Moment
from kit.training.member.context import MemberContext
from kit.training.member.member import Member
from kit.training.member.step_events import StepObserver


class StateKeeper(StepObserver):
    """Keeps one copy: of the step that was asked for last."""

    def __init__(self, context: MemberContext) -> None:
        self._context, self._wanted = context, -1
        self.copy: StateCopy | None = None

    def want(self, step: int) -> None:
        """Copy the state after `step` steps, unless that is done or too late."""
        if self.copy is None or self.copy.moment.step != step:
            self._wanted = step

    def committed(self, step: int) -> None:
        """See `StepObserver`."""
        if step != self._wanted or not self._context.synchronous:
            return
        context, job = self._context, self._context.job
        ranges = ranges_of(context.owners, context.me)
        own, kept = OwnState(job.layout, ranges, job.slots), context.kept()
        own.copy(context.memory, context.now)
        data = np.concatenate([own.data, np.frombuffer(kept, np.uint8)])
        number = job.generation.number if job.generation is not None else 0
        moment = Moment(step, number, 0)
        writers = writers_of(context.owners, job.coordinator)
        sizes = (own.n_bytes, 0, 0, len(kept))
        self.copy = StateCopy(moment, context.me, writers, ranges, {}, sizes, data)


def recorded(
    member: Member, at: int | None, since: int
) -> tuple[dict[str, Any], bytes | memoryview]:
    """Return what a recording asks of a member, without stopping anything.

    The state after `at` steps, if it is there, else it is to be kept; and of the
    coordinator, the digests on which all members have agreed, after the first `since`.
    """
    context, leads = member.context, member.coordinator
    if context is None:
        raise UnavailableError(f"{member.task} has nothing to record now.")
    digests, cursor = leads.agreed(since) if leads is not None else ([], 0)
    found = {"step": context.step, "digests": digests, "cursor": cursor, "state": None}
    if at is None or context.events is None:
        return found, b""
    if context.keeper is None:
        context.keeper = StateKeeper(context)
        context.events.add(context.keeper)
    copy = context.keeper.copy
    if copy is None or copy.moment.step != at:
        context.keeper.want(at)
        return found, b""
    return {**found, "state": copy.about()}, memoryview(copy.data)
