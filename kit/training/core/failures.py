"""Who is lost, damaged or late, and what is said of it; one's loss is another's report.

Theory of operation. When one member dies, those that exchange with it notice first.
Each reports the loss and ends, which closes its own links; so its neighbours report
*it*, and so on around the ring. The reports reach the coordinator in any order, and
often before it notices the death itself. They form a chain: a member that has reported
a loss was alive to do so, and its end needs no other explanation. The cause is where
the chain ends, at a member that has reported nothing; or, if the chain is a circle, a
line between two live members.

Pure: the coordinator holds its lock and gives the time. It decides; here is by what,
and the errors, which name members.
"""

from __future__ import annotations

import traceback
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from kit.errors import (
    AbortedError,
    DataLossError,
    DeadlineExceededError,
    FailedPreconditionError,
    KitError,
    LinkLost,
    MemberMismatch,
    PeerLost,
    UnknownError,
)
from kit.task import Task
from kit.training.core.agreement import Agreement, Verdict
from kit.training.core.axes import writers_of
from kit.training.core.digests import DigestComparison, DigestReport, Divergence
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

    def suspect(self, error: KitError, by: int | None) -> int | None:
        """Return the other member that a member's error says is lost."""
        names = [str(task) for task in self._job.tasks]
        if by is None or type(error) is not PeerLost or error.task not in names:
            return None
        suspect = names.index(error.task)
        return None if suspect == by else suspect

    def explain(self, member: int) -> bool:
        """Whether a member ended because of a loss that it has reported."""
        return member in self._by

    @property
    def errors(self) -> list[KitError]:
        """What the reports said."""
        return [suspicion.error for suspicion in self._by.values()]

    def cause(
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
        member, suspicion = next(iter(self._by.items()))
        passed = {member}
        while suspicion.other in self._by:
            if suspicion.other in passed:  # they report each other, so both are alive
                return self._line_cut(member, suspicion)
            member, suspicion = suspicion.other, self._by[suspicion.other]
            passed.add(member)
        is_silent = now - heard.get(suspicion.other, float("-inf")) > patience_s
        if suspicion.other in gone or is_silent:
            return (
                suspicion.error
            )  # of the member next to the cause: it names the cause
        if now - suspicion.since > patience_s:
            return self._line_cut(member, suspicion)
        return None

    def _line_cut(self, member: int, suspicion: Suspicion) -> KitError:
        return line_cut(self._job, member, suspicion.other, suspicion.error)


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
        divergence, agreed_at = self._comparison.difference, self._comparison.agreed_at
        return differ(self._job, divergence, agreed_at) if divergence else None

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
    >>> late.late(agreement, now=36.0, deadline_s=30.0)
    {}
    >>> late.late(agreement, now=38.0, deadline_s=30.0)
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

    def late(
        self, agreement: Agreement, now: float, deadline_s: float
    ) -> dict[int, frozenset[int]]:
        """Return the members that have been waited for too long, by the boundary.

        Ask regularly: the time until all are ready for what was decided begins when
        the decision is first seen here. All may have stood there for long, in a pause.
        """
        late = {}
        for number, (verdict, since) in list(self._since.items()):
            boundary = agreement.boundaries.get(number)
            # One that is forgotten was complete. The time starts anew with each
            # verdict: to prepare is another wait than to arrive.
            if boundary is None:
                del self._since[number]
            elif boundary.verdict is not verdict:
                self._since[number] = boundary.verdict, now
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

        A halt may take some steps to get to all members; see `agreement`.
        """
        if not agreement.now.is_stopped or agreement.is_over:
            return False
        stands = self.at, tuple(agreement.boundaries), agreement.awaited
        if self._since is None or stands != self._stood:
            self._since, self._stood = now, stands
        return now - self._since > self._limit_s


# --------------------------------------------------------------------------------------
# What is wrong with members of a training, as typed errors that name them.


def how_to_survive(job: Job) -> str:
    """Say what a user can do about the loss of a task in the next training."""
    if job.settings.transport == "mpi":
        return (
            "A rank of MPI does not come back: kit.train(..., checkpoint=folder) lets "
            "a new start go on from there."
        )
    return "On a kit.Cluster, kit.train(..., elastic=True) survives the loss of a task."


def mismatch(job: Job, member: int, what: str) -> MemberMismatch:
    """Say that a worker's call differs from that of the first."""
    name, coordinator = str(job.tasks[member]), job.tasks[job.coordinator]
    return MemberMismatch(
        f"{name} would train something else than {coordinator}, which coordinates: "
        f"{what}. Give kit.train() the same arguments on all workers.",
        task=name,
    )


def other_data(job: Job, member: int, other: int, what: str) -> MemberMismatch:
    """Say that two workers do not read the same data."""
    name = str(job.tasks[member])
    return MemberMismatch(
        f"{name} and {job.tasks[other]} do not read the same data: {what}. Each "
        f"worker reads whole mini-batches and keeps its own rows, so examples would be "
        f"used twice or never. A DataLoader(shuffle=True) shuffles in each worker by "
        f"itself: give kit.data.torch(loader) instead, or seed what chooses the "
        f"examples alike in all workers. Where workers are to read different data, "
        f"give a source for each: see kit.data.",
        task=name,
    )


def gone(job: Job, member: int, reason: str, *, goes_on: bool) -> PeerLost:
    """Say that a member is gone, and what becomes of the training."""
    name = str(job.tasks[member])
    if goes_on:
        then = "The training goes on without it."
    elif job.is_elastic:
        then = "The training begins again from its newest copy."
    else:
        then = f"The training cannot go on without it. {how_to_survive(job)}"
    return PeerLost(f"{name} is gone: {reason}. {then}", task=name)


def line_cut(job: Job, member: int, other: int, error: KitError) -> LinkLost:
    """Say that two members that both answer the coordinator do not reach each other."""
    first, two, coordinator = (
        job.tasks[number] for number in (member, other, job.coordinator)
    )
    return LinkLost(
        f"the line between {first} and {two} is cut: {coordinator} hears both, but "
        f"they do not hear each other ({error.message})",
        step=error.step,
    )


def differ(job: Job, divergence: Divergence, agreed_at: int | None) -> DataLossError:
    """Say whose parameters are not those of the others."""
    wrong = ", ".join(str(job.tasks[member]) for member in sorted(divergence.members))
    if divergence.others:
        others = ", ".join(str(job.tasks[other]) for other in sorted(divergence.others))
        text = (
            f"{wrong} held other parameters before step {divergence.step} than {others}"
        )
    else:
        text = f"{wrong} held different parameters before step {divergence.step}"
    since = "" if agreed_at is None else f" All were the same before step {agreed_at}."
    return DataLossError(
        f"{text}: they were damaged in memory or on the way.{since} Let the machines' "
        f"memory be checked, and go on from a checkpoint; none was written of this.",
        task=wrong,
        step=divergence.step,
    )


def left_behind(job: Job, member: int) -> PeerLost:
    """Say that a worker was silent, and that the training can do without it."""
    name = str(job.tasks[member])
    return PeerLost(
        f"{name} did not answer for a while, and the training goes on without it: "
        f"{job.aggregate} workers are enough (aggregate).",
        task=name,
    )


def not_opened(job: Job, error: DeadlineExceededError) -> KitError:
    """Say what becomes of a training of which a member could not open its links.

    A generation that cannot begin is followed by another one.
    """
    if not job.generation.number:
        return error
    text = f"{error.message} The training begins again from its newest copy."
    return PeerLost(text, task=error.task)


def late(job: Job, missing: Iterable[int], number: int, deadline_s: float) -> KitError:
    """Say that members did not come to a boundary in time."""
    names = ", ".join(str(job.tasks[member]) for member in sorted(missing))
    text = (
        f"{names} did not come to boundary {number} within {deadline_s:g} s. Allow "
        f"more with settings(step_deadline_s=...)."
    )
    error = DeadlineExceededError(text, task=names)
    return error if number else not_opened(job, error)


def stopped(job: Job, missing: Iterable[int]) -> AbortedError:
    """Say that a stop has ended a training in the middle of a step."""
    names = ", ".join(str(job.tasks[member]) for member in sorted(missing))
    return AbortedError(
        f"run.stop() has ended the training in the middle of a step: "
        f"{names or 'the workers'} did not come to its end. "
        f"run.params are those of the step before; "
        f"run.flight() shows where each worker was."
    )


def is_too_late(job: Job, member: int, error: KitError) -> bool:
    """Whether an error says that a step of this member's own takes too long."""
    is_its_own = error.task == str(job.tasks[member])
    return is_its_own and isinstance(error, DeadlineExceededError)


def what_ends(job: Job, member: int) -> str:
    """Say that the loss of a member ends a training, if it does; else nothing."""
    if job.is_elastic or member != job.coordinator:
        return ""
    return f"It coordinates this training, which ends with it. {how_to_survive(job)}"


def coordinator_lost(job: Job, step: int, error: KitError) -> PeerLost:
    """Say that the coordinator does not answer; `error` is what was met instead."""
    name = str(job.tasks[job.coordinator])
    if job.is_elastic:
        then = "The training begins again from its newest copy."
    else:
        then = what_ends(job, job.coordinator)
    text = f"{name} is gone or does not answer. {then} ({error.message})"
    return PeerLost(text, task=name, step=step)


# --------------------------------------------------------------------------------------
# What an exception in a member's thread means for the training, as a typed error.


def as_failure(error: BaseException, task: Task) -> KitError:
    """Return the error with the task's name; one of Python becomes `UnknownError`."""
    if not isinstance(error, KitError):
        text = f"{task}: {type(error).__name__}: {error}"
        plain = "".join(traceback.format_exception(error))
        return UnknownError(text, task=str(task), remote_traceback=plain)
    if error.task is None:  # what is wrong with the data, for example
        return type(error)(f"{task}: {error.message}", task=str(task))
    return error


def forget_frames(error: BaseException | None) -> None:
    """Let go of the frames that an error went through: they hold on to buffers."""
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def needs_elastic() -> FailedPreconditionError:
    """Say that the tasks of a training cannot change."""
    return FailedPreconditionError(
        "the tasks of this training stay as they are; begin it with "
        "kit.train(..., elastic=True) to change them later."
    )


def needs_folder() -> FailedPreconditionError:
    """Say that a training writes no checkpoints."""
    return FailedPreconditionError(
        "this training has no folder for checkpoints; begin it with "
        "kit.train(..., checkpoint=folder), or take run.params."
    )
