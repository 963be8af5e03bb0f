"""Who comes late to a boundary ends the training; who was there long ago does not."""

from __future__ import annotations

import pytest

import kit
from kit.errors import DeadlineExceededError
from kit.exchange.layout import Spec
from kit.task import Task
from kit.training.core.agreement import Verdict
from kit.training.core.coordinator import TrainingCoordinator
from kit.training.core.job import Job

TASKS = (Task("ps", 0), Task("worker", 0), Task("worker", 1))
EVERYBODY = range(3)
LIMIT_S = kit.Settings().step_deadline_s


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def watched() -> tuple[TrainingCoordinator, Clock]:
    """Return a coordinator whose members have begun a training of 100 steps."""
    specs = (Spec("w", (3,), "float32"),)
    job = Job("ab" * 16, TASKS, specs, kit.Adam(0.1), "ps", steps=100, batch=8)
    clock = Clock()
    coordinator = TrainingCoordinator(job, clock)
    change(coordinator, 0, 0)
    meet(coordinator, 1, 0)
    return coordinator, clock


def meet(coordinator: TrainingCoordinator, number: int, step: int) -> Verdict:
    answers = [coordinator.arrive(item, number, step, 0.0) for item in EVERYBODY]
    return answers[-1].verdict


def change(coordinator: TrainingCoordinator, number: int, step: int) -> None:
    """Take all members through a boundary at which an epoch begins."""
    assert meet(coordinator, number, step) is Verdict.PREPARE
    for item in EVERYBODY:
        coordinator.prepared(item, number, None, 0.0)


def beat(coordinator: TrainingCoordinator) -> None:
    for item in EVERYBODY:
        coordinator.beat(item)
    coordinator.watch()


def pass_time(coordinator: TrainingCoordinator, clock: Clock, until: float) -> None:
    """Let all beat meanwhile: one that does not look for long has been asleep."""
    while clock.now < until:
        clock.now = min(until, clock.now + 0.5)
        beat(coordinator)


def test_training_goes_on_when_it_switches_after_a_long_time() -> None:
    coordinator, clock = watched()

    pass_time(coordinator, clock, 10 * LIMIT_S)
    coordinator.command("configure", topology="ring")
    change(coordinator, 2, 50)
    meet(coordinator, 3, 50)
    coordinator.arrive(0, 4, 50, 0.0)  # the server has nothing to do on a ring
    beat(coordinator)

    assert coordinator.error is None


def test_training_fails_when_a_worker_stays_away_from_a_boundary() -> None:
    coordinator, clock = watched()

    for item in (0, 1):
        coordinator.arrive(item, 2, 50, 0.0)
    pass_time(coordinator, clock, 0.9 * LIMIT_S)
    assert coordinator.error is None
    pass_time(coordinator, clock, 1.1 * LIMIT_S)

    assert isinstance(coordinator.error, DeadlineExceededError)
    with pytest.raises(DeadlineExceededError, match="/job:worker/task:1 did not come"):
        coordinator.arrive(1, 2, 50, 0.0)


def switching_after_a_long_pause() -> tuple[TrainingCoordinator, Clock, float]:
    """Return a training that is asked to switch when it has stood for too long."""
    coordinator, clock = watched()
    coordinator.command("pause")
    assert meet(coordinator, 2, 50) is Verdict.WAIT
    pass_time(coordinator, clock, 1.1 * LIMIT_S)
    coordinator.command("configure", topology="ring")
    assert coordinator.arrive(1, 2, 50, 0.0).verdict is Verdict.PREPARE
    return coordinator, clock, LIMIT_S


def test_training_goes_on_when_it_switches_during_a_long_pause() -> None:
    coordinator, clock, LIMIT_S = switching_after_a_long_pause()

    pass_time(coordinator, clock, clock.now + 0.9 * LIMIT_S)
    for item in EVERYBODY:
        coordinator.prepared(item, 2, None, 0.0)
    pass_time(coordinator, clock, clock.now + 1.1 * LIMIT_S)

    assert coordinator.error is None
    assert coordinator.status()["epoch"]["topology"] == "ring"


def test_training_fails_when_a_member_is_not_ready_in_time_after_a_pause() -> None:
    coordinator, clock, LIMIT_S = switching_after_a_long_pause()

    for item in (0, 1):
        coordinator.prepared(item, 2, None, 0.0)
    pass_time(coordinator, clock, clock.now + 0.9 * LIMIT_S)
    assert coordinator.error is None
    pass_time(coordinator, clock, clock.now + 0.9 * LIMIT_S)

    assert isinstance(coordinator.error, DeadlineExceededError)
    assert "/job:worker/task:1 did not come" in coordinator.error.message
