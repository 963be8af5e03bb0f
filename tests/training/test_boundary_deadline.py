"""Who comes late to a boundary ends the training; who was there long ago does not."""

from __future__ import annotations

import pytest

import kit
from kit.errors import DeadlineExceededError
from kit.exchange.layout import Spec
from kit.task import Task
from kit.training.coordination.coordinator import TrainingCoordinator
from kit.training.coordination.membership import Verdict
from kit.training.job import Job

TASKS = (Task("ps", 0), Task("worker", 0), Task("worker", 1))
EVERYBODY = range(3)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def watched() -> tuple[TrainingCoordinator, Clock]:
    """Return an authority whose members have begun a training of 100 steps."""
    specs = (Spec("w", (3,), "float32"),)
    job = Job("ab" * 16, TASKS, specs, kit.Adam(0.1), "ps", steps=100, batch=8)
    clock = Clock()
    authority = TrainingCoordinator(job, clock)
    change(authority, 0, 0)
    meet(authority, 1, 0)
    return authority, clock


def meet(authority: TrainingCoordinator, number: int, step: int) -> Verdict:
    answers = [authority.arrive(one, number, step, 0.0) for one in EVERYBODY]
    return answers[-1].verdict


def change(authority: TrainingCoordinator, number: int, step: int) -> None:
    """Take all members through a boundary at which an epoch begins."""
    assert meet(authority, number, step) is Verdict.PREPARE
    for one in EVERYBODY:
        authority.prepared(one, number, None, 0.0)


def beat(authority: TrainingCoordinator) -> None:
    for one in EVERYBODY:
        authority.beat(one)
    authority.watch()


def test_training_goes_on_when_it_switches_after_a_long_time() -> None:
    authority, clock = watched()

    clock.now = 10 * authority._job.settings.step_deadline_s
    authority.command("configure", topology="ring")
    change(authority, 2, 50)
    meet(authority, 3, 50)
    authority.arrive(0, 4, 50, 0.0)  # the server has nothing to do on a ring
    beat(authority)

    assert authority.error is None


def test_training_fails_when_a_worker_stays_away_from_a_boundary() -> None:
    authority, clock = watched()

    for one in (0, 1):
        authority.arrive(one, 2, 50, 0.0)
    clock.now = 0.9 * authority._job.settings.step_deadline_s
    beat(authority)
    assert authority.error is None
    clock.now = 1.1 * authority._job.settings.step_deadline_s
    beat(authority)

    assert isinstance(authority.error, DeadlineExceededError)
    with pytest.raises(DeadlineExceededError, match="/job:worker/task:1 did not come"):
        authority.arrive(1, 2, 50, 0.0)


def switching_after_a_long_pause() -> tuple[TrainingCoordinator, Clock, float]:
    """Return a training that is asked to switch when it has stood for too long."""
    authority, clock = watched()
    limit_s = authority._job.settings.step_deadline_s
    authority.command("pause")
    assert meet(authority, 2, 50) is Verdict.WAIT
    clock.now = 1.1 * limit_s
    beat(authority)
    authority.command("configure", topology="ring")
    assert authority.arrive(1, 2, 50, 0.0).verdict is Verdict.PREPARE
    return authority, clock, limit_s


def test_training_goes_on_when_it_switches_during_a_long_pause() -> None:
    authority, clock, limit_s = switching_after_a_long_pause()

    beat(authority)
    clock.now += 0.9 * limit_s
    beat(authority)
    for one in EVERYBODY:
        authority.prepared(one, 2, None, 0.0)
    clock.now += 1.1 * limit_s
    beat(authority)

    assert authority.error is None
    assert authority.status()["epoch"]["topology"] == "ring"


def test_training_fails_when_a_member_is_not_ready_in_time_after_a_pause() -> None:
    authority, clock, limit_s = switching_after_a_long_pause()

    for one in (0, 1):
        authority.prepared(one, 2, None, 0.0)
    for _ in range(2):
        beat(authority)
        assert authority.error is None
        clock.now += 0.9 * limit_s
    beat(authority)

    assert isinstance(authority.error, DeadlineExceededError)
    assert "/job:worker/task:1 did not come" in authority.error.message
