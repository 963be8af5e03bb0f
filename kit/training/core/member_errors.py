"""What is wrong with members of a training, as typed errors that name them.

Pure.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable

from kit.errors import (
    AbortedError,
    DataLossError,
    DeadlineExceededError,
    FailedPreconditionError,
    Fenced,
    KitError,
    LinkLost,
    MemberMismatch,
    PeerLost,
    UnknownError,
)
from kit.task import Task
from kit.training.core.digests import Divergence
from kit.training.core.job import Job

#: What a user can do so that the next training survives a loss.
SURVIVED = "kit.train(..., elastic=True) survives the loss of a task."


def mismatch(job: Job, member: int, found: str) -> MemberMismatch:
    """Say that a worker's call differs from that of the first."""
    name, coordinator = str(job.tasks[member]), job.tasks[job.coordinator]
    return MemberMismatch(
        f"{name} would train something else than {coordinator}, which coordinates: "
        f"{found}. Give kit.train() the same arguments on all workers.",
        task=name,
    )


def other_data(job: Job, member: int, other: int, found: str) -> MemberMismatch:
    """Say that two workers do not read the same data."""
    name = str(job.tasks[member])
    return MemberMismatch(
        f"{name} and {job.tasks[other]} do not read the same data: {found}. Each "
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
    elif job.generation is not None:
        then = "The training begins again from its newest copy."
    else:
        then = f"The training cannot go on without it. {SURVIVED}"
    return PeerLost(f"{name} is gone: {reason}. {then}", task=name)


def line_cut(job: Job, member: int, other: int, error: KitError) -> LinkLost:
    """Say that two members that both answer the coordinator do not reach each other."""
    one, two, coordinator = (
        job.tasks[number] for number in (member, other, job.coordinator)
    )
    return LinkLost(
        f"the line between {one} and {two} is cut: {coordinator} hears both, but they "
        f"do not hear each other ({error.message})",
        step=error.step,
    )


def differ(job: Job, found: Divergence, agreed_at: int | None) -> DataLossError:
    """Say whose parameters are not those of the others."""
    wrong = ", ".join(str(job.tasks[one]) for one in sorted(found.members))
    if found.others:
        others = ", ".join(str(job.tasks[one]) for one in sorted(found.others))
        text = f"{wrong} held other parameters before step {found.step} than {others}"
    else:
        text = f"{wrong} held different parameters before step {found.step}"
    since = "" if agreed_at is None else f" All were the same before step {agreed_at}."
    return DataLossError(
        f"{text}: they were damaged in memory or on the way.{since} Let the machines' "
        f"memory be checked, and go on from a checkpoint; none was written of this.",
        task=wrong,
        step=found.step,
    )


def left_behind(job: Job, member: int) -> PeerLost:
    """Say that a worker was silent, and that the training can do without it."""
    name = str(job.tasks[member])
    return PeerLost(
        f"{name} did not answer for a while, and the training goes on without it: "
        f"{job.aggregate} workers are enough (aggregate).",
        task=name,
    )


def replaced(job: Job, member: int) -> Fenced:
    """Say that a member has a newer process, which alone is heard."""
    name = str(job.tasks[member])
    return Fenced(
        f"another process of {name} has taken its place in this training; what this "
        f"one sends is refused.",
        task=name,
    )


def cannot_return(job: Job, member: int) -> FailedPreconditionError:
    """Say that a training cannot go on without a member, nor take it back."""
    name, coordinator = str(job.tasks[member]), job.tasks[job.coordinator].short
    return FailedPreconditionError(
        f"{name} cannot join a training that is under way: only a worker other than "
        f"{coordinator} can, and only where fewer gradients make a step than there are "
        f"workers (kit.train(..., aggregate=R)). Train again, from a checkpoint with "
        f"kit.train(..., checkpoint=folder).",
        task=name,
    )


def not_lost(job: Job, member: int) -> FailedPreconditionError:
    """Say that a member asks to join although it takes part, or never came back."""
    name = str(job.tasks[member])
    return FailedPreconditionError(
        f"{name} cannot join this training: only the new process of a worker that was "
        f"lost can. Restart it with cluster.restart({job.tasks[member].short!r}).",
        task=name,
    )


def not_taken_back(job: Job, member: int, reason: str) -> PeerLost:
    """Say that a member wanted to take part again and could not."""
    name = str(job.tasks[member])
    return PeerLost(
        f"{name} could not take part in the training again, which goes on without it: "
        f"{reason}. Restart it once more.",
        task=name,
    )


def not_opened(job: Job, error: DeadlineExceededError) -> KitError:
    """Say what becomes of a training of which a member could not open its links.

    A generation that cannot begin is followed by another one.
    """
    if job.generation is None or not job.generation.number:
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


def coordinator_lost(job: Job, step: int, error: KitError) -> PeerLost:
    """Say that the coordinator does not answer; `error` is what was met instead."""
    name = str(job.tasks[job.coordinator])
    if job.generation is not None:
        then = "the training begins again from its newest copy"
    else:
        then = f"it coordinates this training, which ends with it. {SURVIVED}"
    text = f"{name} is gone or does not answer: {then} ({error.message})"
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
