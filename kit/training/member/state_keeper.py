"""A member's copy of its state after a certain step, for a recording of the training.

Nothing stops for it. The recorder asks all members, a little ahead, for the state after
one step; each copies what it updates when it has done that step, in the thread of its
steps, and hands the copy out when it is asked again. Only synchronous steps have a
state that all members share.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np

from kit.errors import UnavailableError
from kit.exchange.layout import Range
from kit.training.checkpointing.member_state import OwnState, ranges_of, writers_of
from kit.training.elastic.copies import StateCopy
from kit.training.elastic.generation import CopyPoint
from kit.training.member.context import MemberContext
from kit.training.member.member import Member
from kit.training.member.step_events import StepObserver
from kit.training.worker.kept_state import joined, pack


class Taken(NamedTuple):
    """What a member had after a step, as it was copied in the thread of the steps."""

    step: int
    generation: int
    writers: tuple[int, ...]
    ranges: tuple[Range, ...]
    own: OwnState
    kept: dict[str, Any]


class StateKeeper(StepObserver):
    """Keeps one copy: of the step that was asked for last."""

    def __init__(self, context: MemberContext) -> None:
        self._context, self._wanted = context, -1
        self.taken: Taken | None = None

    def want(self, step: int) -> None:
        """Copy the state after `step` steps, unless that is done or too late."""
        if self.taken is None or self.taken.step != step:
            self._wanted = step

    def committed(self, step: int) -> None:
        """See `StepObserver`."""
        if step != self._wanted or not self._context.synchronous:
            return
        context, job = self._context, self._context.job
        ranges = ranges_of(context.owners, context.me)
        own = OwnState(job.layout, ranges, job.slots)
        own.copy(context.memory, context.now)
        kept = deepcopy(joined(context.state, context.compression))
        number = job.generation.number if job.generation is not None else 0
        writers = writers_of(context.owners, job.coordinator)
        self.taken = Taken(step, number, writers, ranges, own, kept)

    def copied(self, at: int) -> StateCopy | None:
        """Return the state after `at` steps, packed here and not in the step loop."""
        found = self.taken
        if found is None or found.step != at:
            return None
        kept = pack(found.kept)
        data = np.concatenate([found.own.data, np.frombuffer(kept, np.uint8)])
        return StateCopy(
            CopyPoint(at, found.generation, 0),
            self._context.me,
            found.writers,
            found.ranges,
            {},
            (found.own.n_bytes, 0, 0, len(kept)),
            data,
        )


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
    found = {"step": context.step, "digests": digests, "cursor": cursor, "state": None}
    events, keeper = member.events, member.keeper
    if at is None or events is None:
        return found, b""
    if keeper is None:
        keeper = member.keeper = StateKeeper(context)
        events.add(keeper)
    copy = keeper.copied(at)
    if copy is None:
        keeper.want(at)
        return found, b""
    return {**found, "state": copy.about()}, memoryview(copy.data)
