"""How one generation of an elastic training ends in good order, and its copies.

Pure but for the clock that it is given; the coordinator holds its lock around it.
`kit.training.features.elastic.generation` has the theory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from kit.training.core.agreement import Agreement
from kit.training.core.job import Job
from kit.training.features.elastic.generation import Generation
from kit.training.features.elastic.placing import (
    check_leaves,
    check_shares,
    check_workers,
)

# --------------------------------------------------------------------------------------
# When the coordinator of an elastic training calls for a copy of the state.


#: Least seconds between two copies: this many seconds of steps may be done again.
EVERY_S: Final = 0.3
# A copy may take this share of the time: after a slow one the next comes later.
_SHARE: Final = 0.1
# If a copy is not confirmed for this long, a message was lost: begin another.
_GIVE_UP_S: Final = 5.0


class CopySchedule:
    """The coordinator's account of copies: one is on its way at a time.

    >>> seconds = [0.0]
    >>> copies = CopySchedule(lambda: seconds[0])
    >>> copies.is_due
    True
    >>> copies.begin([0, 1]); copies.agreed(8); copies.end(0, 8), copies.is_due
    (False, False)
    >>> seconds[0] = 0.25; copies.end(1, 8), copies.is_due, copies.step
    (True, False, 8)
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._missing: set[int] = set()
        self._is_called = False  # and the members have not met for it yet
        self._made = -1  # before which step they make the one that is under way
        self.step = -1  # of the newest copy that is whole
        self._next = clock()
        self._begun = clock()

    @property
    def is_due(self) -> bool:
        """Whether the next copy should be made at the next boundary."""
        now = self._clock()
        if self._missing:
            return now - self._begun > _GIVE_UP_S
        return now >= self._next

    def begin(self, writers: Iterable[int]) -> None:
        """Note that a copy is called for; these members make it."""
        self._begun, self._missing = self._clock(), set(writers)
        self._is_called = True

    def agreed(self, step: int) -> None:
        """Note that the members have come to the boundary to make it, before `step`."""
        if self._is_called:
            self._begun, self._is_called, self._made = self._clock(), False, step

    def lose(self, member: int) -> None:
        """Stop waiting for a member; a copy that waited for it alone is not whole."""
        self._missing.discard(member)

    @property
    def is_under_way(self) -> bool:
        """Whether a copy was called for and is not whole yet."""
        return bool(self._missing)

    @property
    def waits_s(self) -> float:
        """For how many seconds one has been under way; 0 if none is."""
        return self._clock() - self._begun if self._missing else 0.0

    def end(self, member: int, step: int) -> bool:
        """Note that a member's copy before `step` is safe; whether all are now.

        The confirmation of an earlier copy, which was given up, may come this late: it
        does not count for the one that was called for since.
        """
        if self._is_called or step != self._made or member not in self._missing:
            return False
        self._missing.remove(member)
        if not self._missing:
            now = self._clock()
            # Counted from the start of this copy: a slow network makes copies rarer,
            # and does not raise the share of the time that they take.
            self._next = self._begun + max(EVERY_S, (now - self._begun) / _SHARE)
            self.step = step
        return not self._missing


# --------------------------------------------------------------------------------------
# How a generation ends in good order.


class Regrouping:
    """The coordinator's account of a generation: its copies, and why it is to end.

    Attributes:
        reason: why it is to end after one more copy; empty if it is not.
    """

    def __init__(
        self, job: Job, agreement: Agreement, clock: Callable[[], float]
    ) -> None:
        self._job, self._agreement = job, agreement
        self._generation: Generation = job.generation
        self._copies = CopySchedule(clock)
        self.reason = ""

    @property
    def copied_before(self) -> int:
        """The step before which the newest whole copy was made; -1 without one."""
        return self._copies.step

    def call_copy(self) -> None:
        """Let the members copy at the next boundary, if it is time."""
        # Where a loss ends the training, copies are for the next generation alone.
        if self._copies.is_due and (self._generation.rehosts or self.reason):
            self._call()

    def _call(self, *, is_last: bool = False) -> None:
        agreement = self._agreement
        if agreement.is_held:
            return  # no other follows the last one
        if not agreement.is_copy_due:
            self._copies.begin(agreement.members - agreement.lost)
        agreement.call_copy(is_last=is_last)

    def copy_agreed(self, step: int) -> None:
        """Note that the members have come to the boundary to copy, before `step`."""
        # A repeated question about an earlier boundary says nothing of the next copy.
        if not self._agreement.is_copy_due:
            self._copies.agreed(step)

    def copied(self, member: int, step: int) -> bool:
        """Note that a member's copy is safe; whether the generation ends now."""
        if not self._copies.end(member, step):
            return False
        if self.reason and not self._agreement.is_held:  # it was the one under way
            self._call(is_last=True)
        return self._agreement.is_held

    def is_late(self, limit_s: float) -> bool:
        """Whether all have waited for the last copy for longer than that.

        Its confirmation may be lost; the next generation can begin from an older copy.
        """
        return self._agreement.is_held and self._copies.waits_s > limit_s

    def regroup(self, reason: str) -> None:
        """End the generation after one more copy, where all members stay."""
        if self.reason:
            return
        self.reason = reason
        # A copy under way is too old: steps may have been done since.
        if self._agreement.is_copy_due or not self._copies.is_under_way:
            self._call(is_last=True)

    def lose(self, member: int, reason: str) -> bool:
        """Go on without a member that is lost, and lose no step of the others.

        If others are to host it, the generation ends. Returns whether that is now:
        nobody else's last copy was waited for.
        """
        self._copies.lose(member)
        if self._generation.rehosts:
            self.regroup(reason)
        return self._agreement.is_held and not self._copies.is_under_way

    def look(self) -> None:
        """Call for another copy if the generation is to end and one was given up.

        Else the steps call for it; in a pause there are none.
        """
        if self.reason:
            self.call_copy()

    def check(
        self,
        *,
        workers: int | None = None,
        shares: Mapping[str, float] | None = None,
        task: str | None = None,
    ) -> None:
        """Raise `InvalidArgumentError` for what these tasks cannot do."""
        processes = self._generation.processes
        if workers is not None:
            check_workers(workers, self._job.tasks, processes)
        if shares is not None:
            check_shares(shares, processes)
        if task is not None:
            check_leaves(task, processes)

    def regroup_as_asked(self, leaves: str = "") -> None:
        """End the generation if the members are to be spread otherwise by now.

        `leaves`: the process that was asked to leave, if one was.
        """
        now, wanted = self._generation, self._agreement.now.placing
        assert wanted is not None, "it is elastic"
        here = set(now.processes) - set(wanted.left)
        then = Generation.first(now.origin, self._job.tasks, here, wanted)
        if (then.places, then.standby) != (now.places, now.standby):
            what = (
                f"{leaves} leaves the training"
                if leaves
                else "the members are spread anew"
            )
            self.regroup(f"{what}, as was asked for.")
