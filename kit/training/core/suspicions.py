"""Reports that a member is lost, until the cause is clear.

When one member dies, those that exchange with it notice first. Each reports the loss
and ends, which closes its own links; so its neighbours report *it*, and so on around
the ring. The reports reach the coordinator in any order, and often before it notices
the death itself. They form a chain: a member that has reported a loss was alive to do
so, and its end needs no other explanation. The cause is where the chain ends, at a
member that has reported nothing; or, if the chain is a circle, a line between two live
members.

Pure: the coordinator holds its lock and gives the time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from kit.errors import KitError, PeerLost
from kit.training.core import member_errors
from kit.training.core.agreement import Agreement, Verdict
from kit.training.core.axes import writers_of
from kit.training.core.digests import DigestComparison, DigestReport
from kit.training.core.job import Job


class Suspicion(NamedTuple):
    """What one member has reported: whom it lost, and when."""

    other: int
    error: KitError
    since: float


class Suspicions:
    """The first report of each member of a training."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._by: dict[int, Suspicion] = {}

    def add(self, by: int, other: int, error: KitError, now: float) -> None:
        """Note that `by` has lost `other`; later reports of it add nothing."""
        self._by.setdefault(by, Suspicion(other, error, now))

    def other(self, error: KitError, by: int | None) -> int | None:
        """Return the other member that a member's error says is lost."""
        names = [str(task) for task in self._job.tasks]
        if by is None or type(error) is not PeerLost or error.task not in names:
            return None
        found = names.index(error.task)
        return None if found == by else found

    def explain(self, member: int) -> bool:
        """Whether a member ended because of a loss that it has reported."""
        return member in self._by

    @property
    def errors(self) -> list[KitError]:
        """What the reports said."""
        return [found.error for found in self._by.values()]

    def verdict(
        self, gone: Collection[int], heard: Mapping[int, float], now: float
    ) -> KitError | None:
        """Return what the training ends with; None while that is not clear.

        `gone` are the members known to be lost or to have left, and `heard` is when
        each was last heard. A suspect that is still heard `suspect_after_s` after the
        report is alive, so the line to it is cut. One that was silent for as long is
        lost.
        """
        if not self._by:
            return None
        patience_s = self._job.settings.suspect_after_s
        member, found = next(iter(self._by.items()))
        passed = {member}
        while found.other in self._by:
            if found.other in passed:  # they report each other, so both are alive
                return self._line_cut(member, found)
            member, found = found.other, self._by[found.other]
            passed.add(member)
        is_silent = now - heard.get(found.other, float("-inf")) > patience_s
        if found.other in gone or is_silent:
            return found.error  # of the member next to the cause: it names the cause
        if now - found.since > patience_s:
            return self._line_cut(member, found)
        return None

    def _line_cut(self, member: int, found: Suspicion) -> KitError:
        return member_errors.line_cut(self._job, member, found.other, found.error)


# --------------------------------------------------------------------------------------
# Whose parameters are not those of the others.


class Damage:
    """What members report of their parameters, until it is clear which are wrong."""

    def __init__(self, job: Job, agreement: Agreement) -> None:
        self._job, self._agreement = job, agreement
        self._comparison = DigestComparison()
        self._since: float | None = None
        self._holders: dict[int, frozenset[int]] = {}

    def note(self, member: int, report: DigestReport, now: float) -> bool:
        """Take what a member reports; return whether all reports are the same."""
        self._comparison.note(member, report, self._who_holds())
        if self._comparison.difference is not None and self._since is None:
            self._since = now
        return self._since is None

    @property
    def error(self) -> KitError | None:
        """What the training has to end with; None as long as nothing differs."""
        found, agreed_at = self._comparison.difference, self._comparison.agreed_at
        return member_errors.differ(self._job, found, agreed_at) if found else None

    def is_certain(self, now: float) -> bool:
        """Whether all have reported the state that differs, or had time to do so."""
        since_s = 0.0 if self._since is None else now - self._since
        is_late = since_s > self._job.settings.suspect_after_s
        return is_late or self._comparison.is_complete

    def agreed(self, since: int) -> tuple[list[Any], int]:
        """See `DigestComparison`."""
        return self._comparison.agreed(since)

    def _who_holds(self) -> frozenset[int]:
        """Return who holds parameters in the epoch that holds."""
        job, epoch = self._job, self._agreement.epoch
        if epoch.number not in self._holders:
            writers = writers_of(job.owners(epoch), job.coordinator)
            self._holders = {epoch.number: frozenset((*writers, *job.workers))}
        return self._holders[epoch.number] - self._agreement.lost


# --------------------------------------------------------------------------------------
# Who keeps the others waiting at a boundary, and since when.


class Latecomers:
    """Since when members of one training are waited for, at each boundary.

    >>> from kit.training.core.log import Epoch
    >>> agreement, late = Agreement([0, 1], Epoch(0, "ring"), steps=9), Latecomers()
    >>> agreement.arrive(0, 0, step=0); late.begin(0, now=7.0)
    >>> late.found(agreement, now=36.0, deadline_s=30.0)
    {}
    >>> late.found(agreement, now=38.0, deadline_s=30.0)
    {0: {1}}
    """

    def __init__(self) -> None:
        self._since: dict[int, tuple[Verdict, float]] = {}

    def begin(self, number: int, now: float) -> None:
        """Note that a member waits at boundary `number`; the first one counts."""
        self._since.setdefault(number, (Verdict.WAIT, now))

    def wait_anew(self, now: float) -> None:
        """Count from now on: the coordinator was stopped, and saw nobody come."""
        self._since = {n: (verdict, now) for n, (verdict, _) in self._since.items()}

    def found(
        self, agreement: Agreement, now: float, deadline_s: float
    ) -> dict[int, frozenset[int]]:
        """Return the members that have been waited for too long, by the boundary.

        Ask regularly: the time until all are ready for what was decided begins when
        the decision is first seen here. All may have stood there for long, in a pause.
        """
        late = {}
        for number, (verdict, since) in list(self._since.items()):
            meeting = agreement.rounds.get(number)
            # A round that is forgotten was complete. The time starts anew with each
            # verdict: to prepare is another wait than to arrive.
            if meeting is None:
                del self._since[number]
            elif meeting.verdict is not verdict:
                self._since[number] = meeting.verdict, now
            elif now - since > deadline_s and (missing := agreement.missing(number)):
                late[number] = missing
        return late


# --------------------------------------------------------------------------------------
# How long a stop waits for the end of the step under way.


class Stopping:
    """How long a stop waits for the end of the step under way.

    >>> from kit.training.core.log import Epoch
    >>> agreement, stop = Agreement([0], Epoch(1, "ring"), steps=9), Stopping(10.0)
    >>> agreement.command("stop"); stop.takes_too_long(agreement, 5.0)
    False
    >>> stop.takes_too_long(agreement, 7.5), stop.takes_too_long(agreement, 8.5)
    (False, True)

    Attributes:
        at: the step before which the coordinator's own member has asked for a halt.
    """

    # The rest is for the end of the user's function, and for a new process.
    _PART = 0.3

    def __init__(self, deadline_s: float) -> None:
        """`deadline_s` is that of the whole stop."""
        self._limit_s, self.at = self._PART * deadline_s, -1
        self._since: float | None = None
        self._stood: object = None

    def takes_too_long(self, agreement: Agreement, now: float) -> bool:
        """Return whether members take too long from one step or boundary to the next.

        A halt may take some steps to get to all members; see `Halts`.
        """
        if not agreement.now.is_stopped or agreement.is_over:
            return False
        stands = self.at, tuple(agreement.rounds), agreement.awaited
        if self._since is None or stands != self._stood:
            self._since, self._stood = now, stands
        return now - self._since > self._limit_s
