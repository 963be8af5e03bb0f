"""What the coordinator makes of members that are late or gone: spared, lost or done."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kit
from kit.errors import DeadlineExceededError, LinkLost, PeerLost, StepFailed
from kit.settings import Settings
from kit.task import Task
from kit.training.core import failures
from kit.training.core.agreement import Verdict
from kit.training.core.coordinator import TrainingCoordinator
from tests.cases import for_each
from tests.training.jobs import made

TASKS = (Task("ps", 0), *(Task("worker", number) for number in range(3)))
EVERYBODY = range(len(TASKS))
FIRST, SECOND, THIRD = 1, 2, 3  # the workers, as members
LIMIT_S = kit.Settings().step_deadline_s


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def running(
    aggregate: int = 0,
    steps: int = 100,
    clock: Callable[[], float] = lambda: 0.0,
    on_failure: Callable[[], None] = lambda: None,
) -> TrainingCoordinator:
    """Return the coordinator of a training whose members have begun it."""
    job = made(tasks=TASKS, steps=steps, batch=9, aggregate=aggregate)
    coordinator = TrainingCoordinator(job, clock, on_failure=on_failure)
    change(coordinator, 0, 0)
    return coordinator


def change(coordinator: TrainingCoordinator, number: int, step: int) -> None:
    """Take all members through a boundary at which an epoch begins."""
    assert meet(coordinator, number, step) is Verdict.PREPARE
    for item in EVERYBODY:
        coordinator.prepared(item, number, None, 0.0)


def finished() -> TrainingCoordinator:
    """Return the coordinator of a training whose end was agreed."""
    coordinator = running(steps=5)
    assert meet(coordinator, 1, 5) is Verdict.FINISH
    return coordinator


def meet(coordinator: TrainingCoordinator, number: int, step: int) -> Verdict:
    answers = [coordinator.arrive(item, number, step, 0.0) for item in EVERYBODY]
    return answers[-1].verdict


def meanwhile(
    coordinator: TrainingCoordinator, act: Callable[[], None] = lambda: None
) -> bool:
    """Let another thread act if the lock lets it; whether it did."""
    result = []

    def run() -> None:
        result.append(coordinator._changed.acquire(blocking=False))
        if result[0]:
            act()
            coordinator._changed.release()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return result[0]


def test_member_whose_loss_ends_the_training_is_named_as_lost() -> None:
    coordinator = running()

    coordinator.gone(THIRD, "its links closed")

    assert isinstance(coordinator.error, PeerLost)
    assert coordinator.status()["lost"] == {str(THIRD): coordinator.error.message}


@for_each(
    ("transport", "advice"), [("auto", "elastic=True"), ("mpi", "checkpoint=folder")]
)
def test_a_loss_says_what_survives_the_next_one_there(
    transport: str, advice: str
) -> None:
    job = made(settings=Settings(transport=transport))
    error = LinkLost("it was closed")

    for lost in (
        failures.gone(job, 2, "it was killed", goes_on=False),
        failures.coordinator_lost(job, 3, error),
    ):
        assert advice in str(lost)
        assert ("elastic" in str(lost)) == (transport == "auto")


def test_own_member_is_told_at_once_of_a_loss_that_ends_the_training() -> None:
    lines: list[str] = []
    coordinator = running(aggregate=2, on_failure=lambda: lines.append("failed"))

    coordinator.gone(THIRD, "its links closed")  # spared
    assert lines == []
    coordinator.gone(SECOND, "its links closed")

    assert lines == ["failed"]
    assert coordinator.beat(FIRST) is coordinator.error


def test_both_are_named_when_one_was_spared_and_one_could_not_be() -> None:
    coordinator = running(aggregate=2)

    coordinator.gone(THIRD, "its links closed")
    coordinator.gone(SECOND, "it was silent")

    assert list(coordinator.status()["lost"]) == [str(THIRD), str(SECOND)]
    assert "it was silent. The training cannot go on" in str(coordinator.error)


@pytest.mark.parametrize("aggregate", [0, 2])
def test_who_ends_after_a_failure_is_not_lost(aggregate: int) -> None:
    coordinator = running(aggregate)
    coordinator.fail(StepFailed("a mistake of mine"), by=THIRD)

    coordinator.gone(THIRD, "its links closed")
    coordinator.gone(SECOND, "its links closed")

    assert coordinator.status()["lost"] == {}
    assert isinstance(coordinator.error, StepFailed)


def test_two_that_go_together_are_not_both_said_to_be_spared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    coordinator = running(aggregate=2)
    can_spare, overtaken = coordinator._can_spare, list[bool]()

    def asked(member: int) -> bool:
        goes_on = can_spare(member)
        if not overtaken:
            overtaken.append(False)
            overtaken[0] = meanwhile(
                coordinator, lambda: coordinator.gone(SECOND, "too")
            )
        return goes_on

    monkeypatch.setattr(coordinator, "_can_spare", asked)
    coordinator.gone(THIRD, "its links closed")
    if not overtaken[0]:
        coordinator.gone(SECOND, "too")

    assert isinstance(coordinator.error, PeerLost)
    assert "cannot go on without it" in coordinator.error.message


def test_nobody_waits_for_the_last_word_of_who_is_gone_after_the_end() -> None:
    coordinator = finished()
    for item in (0, FIRST, THIRD):
        coordinator.leave(item)
    assert not coordinator.see_off(0.0)

    coordinator.gone(SECOND, "its links closed")

    assert coordinator.see_off(0.0)
    assert coordinator.error is None
    assert coordinator.status()["lost"] == {}


def test_status_is_of_one_moment() -> None:
    coordinator = running()
    overtaken = []

    class Losses(dict[int, str]):
        def items(self) -> Any:
            overtaken.append(meanwhile(coordinator))
            return super().items()

    log = coordinator._agreement.log
    log.now = replace(log.now, gone=Losses())
    coordinator.status()

    assert overtaken == [False]
    assert meanwhile(coordinator)


def test_member_that_is_heard_is_not_lost_because_another_does_not_reach_it() -> None:
    clock = Clock()
    coordinator = running(clock=clock)
    lost = PeerLost("it closed its link", task=str(TASKS[SECOND]), step=7)

    coordinator.fail(lost, by=THIRD)
    coordinator.gone(THIRD, "its links closed")  # it has ended with what it reported
    for clock.now in (0.4, 1.2, 2.0):
        coordinator.beat(SECOND)
        coordinator.watch()
        assert coordinator.error is None
    clock.now = 2.1  # suspect_after_s is 2
    coordinator.watch()

    assert isinstance(coordinator.error, LinkLost)
    assert coordinator.error.task is None
    assert f"between {TASKS[THIRD]} and {TASKS[SECOND]} is cut" in str(
        coordinator.error
    )


def test_member_that_was_killed_is_lost_though_another_was_the_first_to_notice() -> (
    None
):
    coordinator = running()
    coordinator.fail(PeerLost("it closed", task=str(TASKS[SECOND]), step=7), by=THIRD)

    coordinator.gone(SECOND, "its links closed")

    assert isinstance(coordinator.error, PeerLost)
    assert coordinator.error.task == str(TASKS[SECOND])


@given(st.data())
def test_member_that_was_killed_is_named_in_whatever_order_its_loss_is_felt(
    data: st.DataObject,
) -> None:
    """Each one that ends makes others report it, and its links close after that."""
    coordinator = running()
    killed, *others = data.draw(st.permutations(list(EVERYBODY)))
    news = [(killed, -1)]
    for index, member in enumerate(others, 1):
        felt = data.draw(st.sampled_from([killed, *others[: index - 1]]))
        news.insert(data.draw(st.integers(0, len(news))), (member, felt))
    reply = set[int]()

    for member, felt in news:
        if felt < 0:
            coordinator.gone(member, "its links closed")
            continue
        lost = PeerLost("it closed its link", task=str(TASKS[felt]), step=7)
        coordinator.fail(lost, by=member)
        reply.add(member)
        coordinator.gone(data.draw(st.sampled_from(sorted(reply))), "its links closed")

    assert isinstance(coordinator.error, PeerLost)
    assert coordinator.error.task == str(TASKS[killed])


def test_line_between_two_that_report_each_other_is_cut() -> None:
    coordinator = running()
    coordinator.fail(PeerLost("silence", task=str(TASKS[SECOND]), step=7), by=THIRD)
    coordinator.fail(PeerLost("silence", task=str(TASKS[THIRD]), step=7), by=SECOND)

    assert isinstance(coordinator.error, LinkLost)
    assert coordinator.error.task is None
    assert "is cut" in coordinator.error.message


def test_error_of_a_step_counts_though_its_effect_was_reported_before() -> None:
    coordinator = running()
    coordinator.fail(PeerLost("it closed", task=str(TASKS[SECOND]), step=7), by=THIRD)
    coordinator.gone(THIRD, "its links closed")
    mistake = StepFailed("a mistake of mine", task=str(TASKS[SECOND]))

    assert coordinator.fail(mistake, by=SECOND) is mistake


def test_member_of_which_nothing_more_is_heard_is_lost_as_was_reported() -> None:
    clock = Clock()
    coordinator = running(clock=clock)
    lost = PeerLost("it closed its link", task=str(TASKS[SECOND]), step=7)
    coordinator.fail(lost, by=THIRD)

    for clock.now in (0.9, 1.8, 2.5):
        coordinator.watch()

    assert coordinator.error is lost


def test_member_that_is_silent_is_lost_when_another_does_not_reach_it_either() -> None:
    clock = Clock()
    coordinator = running(clock=clock)
    clock.now = 2.5  # suspect_after_s is 2
    lost = PeerLost("it closed its link", task=str(TASKS[SECOND]), step=7)

    coordinator.fail(lost, by=THIRD)

    assert coordinator.error is lost


def test_a_heartbeat_after_a_member_was_found_silent_does_not_mend_it() -> None:
    clock = Clock()
    coordinator = running(clock=clock)
    for clock.now in (1.5, 3.0, 4.5, 6.0, 7.5, 9.0):
        for item in (0, FIRST, THIRD):
            coordinator.beat(item)
        coordinator.watch()
    clock.now = 10.1
    coordinator.watch()

    error = coordinator.beat(SECOND)

    assert isinstance(error, PeerLost)
    assert error.task == str(TASKS[SECOND])


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
    clock = Clock()
    coordinator = running(clock=clock)
    meet(coordinator, 1, 0)

    pass_time(coordinator, clock, 10 * LIMIT_S)
    coordinator.command("configure", topology="ring")
    change(coordinator, 2, 50)
    meet(coordinator, 3, 50)
    coordinator.arrive(0, 4, 50, 0.0)  # the server has nothing to do on a ring
    beat(coordinator)

    assert coordinator.error is None


def test_training_fails_when_a_worker_stays_away_from_a_boundary() -> None:
    clock = Clock()
    coordinator = running(clock=clock)
    meet(coordinator, 1, 0)

    for item in (0, FIRST, SECOND):
        coordinator.arrive(item, 2, 50, 0.0)
    pass_time(coordinator, clock, 0.9 * LIMIT_S)
    assert coordinator.error is None
    pass_time(coordinator, clock, 1.1 * LIMIT_S)

    assert isinstance(coordinator.error, DeadlineExceededError)
    with pytest.raises(DeadlineExceededError, match="/job:worker/task:2 did not come"):
        coordinator.arrive(FIRST, 2, 50, 0.0)


def switching_after_a_long_pause() -> tuple[TrainingCoordinator, Clock]:
    """Return a training that is asked to switch when it has stood for too long."""
    clock = Clock()
    coordinator = running(clock=clock)
    meet(coordinator, 1, 0)
    coordinator.command("pause")
    assert meet(coordinator, 2, 50) is Verdict.WAIT
    pass_time(coordinator, clock, 1.1 * LIMIT_S)
    coordinator.command("configure", topology="ring")
    assert coordinator.arrive(FIRST, 2, 50, 0.0).verdict is Verdict.PREPARE
    return coordinator, clock


def test_training_goes_on_when_it_switches_during_a_long_pause() -> None:
    coordinator, clock = switching_after_a_long_pause()

    pass_time(coordinator, clock, clock.now + 0.9 * LIMIT_S)
    for item in EVERYBODY:
        coordinator.prepared(item, 2, None, 0.0)
    pass_time(coordinator, clock, clock.now + 1.1 * LIMIT_S)

    assert coordinator.error is None
    assert coordinator.status()["epoch"]["topology"] == "ring"


def test_training_fails_when_a_member_is_not_ready_in_time_after_a_pause() -> None:
    coordinator, clock = switching_after_a_long_pause()

    for item in (0, FIRST, SECOND):
        coordinator.prepared(item, 2, None, 0.0)
    pass_time(coordinator, clock, clock.now + 0.9 * LIMIT_S)
    assert coordinator.error is None
    pass_time(coordinator, clock, clock.now + 0.9 * LIMIT_S)

    assert isinstance(coordinator.error, DeadlineExceededError)
    assert "/job:worker/task:2 did not come" in coordinator.error.message
