"""Trainings without a notebook: every worker's program makes the same call.

    ps      server.join()
    worker  run = kit.train(step, params, data, ..., cluster=server);  run.wait()

The first worker coordinates: it begins the training on the parameter servers, and the
other workers ask it which run to join. They may start in any order; each waits for
missing tasks until the settings' `start_deadline_s`. A worker that calls `kit.train`
with other arguments than the first worker ends the training for all, with a
`MemberMismatch`.

There is no election here: without the first worker nothing begins, and a restarted
worker joins the next training, not the one under way.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from kit import arithmetic
from kit.arithmetic import Arithmetic
from kit.errors import (
    ClusterBusy,
    DeadlineExceededError,
    FailedPreconditionError,
    KitError,
    noted_at,
)
from kit.server.directory import Directory
from kit.server.trainings import Trainings
from kit.task import Task
from kit.training.client.run import Run
from kit.training.core.job import Job, Work
from kit.training.core.member import Member
from kit.training.core.terms import terms_of
from kit.wire.handshake.messages import Role
from kit.wire.rpc import Caller

_LOOK_S = 0.02
# A parameter server hears a moment later than the workers that a training is over.
_ENDING_S = 5.0


@dataclass
class TrainingRendezvous:
    """How the task `me` begins trainings together with the tasks like it."""

    me: Task
    trainings: Trainings
    directory: Callable[[], Directory]
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def launch(self, job: Job, work: Work) -> Run:
        """Begin this worker's part, and return when all members have begun theirs.

        Raises `MemberMismatch` when the workers' calls differ, `DeadlineExceededError`
        naming a task that did not come, `ClusterBusy` while another training runs here,
        and `FailedPreconditionError` on a parameter server, which needs no such call.
        """
        if self.me not in (job.tasks[worker] for worker in job.workers):
            raise FailedPreconditionError(
                f"{self.me} computes nothing: it serves the workers' trainings while "
                f"it runs. Call server.join() here and kit.train() on the workers.",
                task=str(self.me),
            )
        self.trainings.check_free()
        deadline = self.clock() + job.settings.start_deadline_s
        if job.tasks[job.coordinator] == self.me:
            member = self._lead(job, work, deadline)
        else:
            joined = replace(job, run=self._ask_to_join(job, deadline))
            member = self.trainings.begin(joined, work)
        self.wait_until_begun(member)
        return Run(member.job, self._dial, trusted=member.me)

    def _lead(self, job: Job, work: Work, deadline: float) -> Member:
        member = self.trainings.begin(job, work)
        try:
            for server in job.ps:
                self._begin_server(job, job.tasks[server], member, deadline)
        except BaseException as error:
            # Before giving up: the first error counts, and workers that have joined
            # should hear this one.
            with noted_at(error):
                if isinstance(error, KitError) and member.coordinator is not None:
                    member.coordinator.fail(error)
            with noted_at(error):
                self.trainings.give_up(job.run)
            raise
        return member

    def _begin_server(
        self, job: Job, task: Task, member: Member, deadline: float
    ) -> None:
        ending = self.clock() + _ENDING_S
        with self._questions(task, deadline, member.check) as ask:
            while True:
                try:
                    reply = ask("run.begin", {"job": job.to_plain()})
                    if member.coordinator is not None:
                        its = member.coordinator.arithmetic
                        self._compare((self.me, its), (task, _arithmetic_of(reply)))
                    return
                except ClusterBusy:  # the last training may be ending there
                    if self.clock() > ending:
                        raise
                self.sleep(_LOOK_S)

    def _ask_to_join(self, job: Job, deadline: float) -> str:
        coordinator = job.tasks[job.coordinator]
        number = job.tasks.index(self.me)
        values = {"member": number, "terms": terms_of(job)}
        with self._questions(coordinator, deadline, lambda: None) as ask:
            while not (run := str((reply := ask("run.join", values))["run"])):
                if self.clock() > deadline:
                    raise DeadlineExceededError(
                        f"{coordinator} coordinates, and did not call kit.train() "
                        f"within {job.settings.start_deadline_s:g} s of {self.me}. All "
                        f"workers must make the same calls in the same order.",
                        task=str(coordinator),
                    )
                self.sleep(_LOOK_S)
        self._compare(
            (coordinator, _arithmetic_of(reply)), (self.me, arithmetic.here())
        )
        return run

    def _compare(
        self, leads: tuple[Task, Arithmetic], other: tuple[Task, Arithmetic]
    ) -> None:
        """Warn where a task is set to compute with something else than the first."""
        (first, its), (task, set_to) = leads, other
        pair = [(first.short, its), (task.short, set_to)]
        for words in arithmetic.differences(pair):
            warnings.warn(words, stacklevel=5)
        if set_to.threads != its.threads:
            warnings.warn(
                f"{first.short} computes this training with {its.threads} BLAS threads "
                f"and {task.short} is set to {set_to.threads}: the last bits depend on "
                f"their number, so {task.short} takes {its.threads} too. To choose it, "
                f"start all programs with "
                f"OPENBLAS_NUM_THREADS={min(its.threads, set_to.threads)}.",
                stacklevel=5,
            )

    @contextmanager
    def _questions(
        self, task: Task, deadline: float, check: Callable[[], None]
    ) -> Iterator[Callable[[str, dict[str, Any]], dict[str, Any]]]:
        directory = self.directory()
        link = directory.reach(
            task, self.me, Role.OBSERVER, deadline=deadline, check=check
        )
        caller = Caller(link)
        limit = directory.settings.call_deadline_s
        try:
            yield lambda op, values: caller.call(op, limit, values)[0]
        finally:
            caller.close()

    def wait_until_begun(self, member: Member) -> None:
        """Wait for the first epoch: all members agree on it, so all have begun."""
        while not member.epochs and not member.is_over:
            self.sleep(_LOOK_S)
        if not member.epochs:
            member.check()

    def _dial(self, task: Task, run: str, address: str = "") -> Caller:
        return Caller(
            self.directory().dial(task, self.me, Role.OBSERVER, run, address=address)
        )


def _arithmetic_of(reply: Mapping[str, Any]) -> Arithmetic:
    return Arithmetic.from_plain(reply["arithmetic"])
