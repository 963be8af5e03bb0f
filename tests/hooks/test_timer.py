"""When a `SecondOrStepTimer` is due."""

from __future__ import annotations

import pytest

from kit.hooks import SecondOrStepTimer
from tests.hooks.notes import Time


def test_seconds_count_from_the_last_time_and_not_from_the_last_question() -> None:
    clock = Time()
    timer = SecondOrStepTimer(every_secs=2.0, clock=clock)
    timer.update_last_triggered_step(1)
    due = []

    for step in range(2, 8):
        clock.now += 0.75
        if timer.should_trigger_for_step(step):
            due.append(step)
            timer.update_last_triggered_step(step)

    assert due == [4, 7]


def test_one_step_is_never_due_twice_however_late_it_is() -> None:
    clock = Time()
    timer = SecondOrStepTimer(every_secs=1.0, clock=clock)
    timer.update_last_triggered_step(5)

    clock.now += 60.0

    assert not timer.should_trigger_for_step(5)
    assert timer.should_trigger_for_step(6)


def test_update_tells_seconds_and_steps_since_the_time_before() -> None:
    clock = Time()
    timer = SecondOrStepTimer(every_steps=10, clock=clock)

    first = timer.update_last_triggered_step(20)
    clock.now += 4.0

    assert first == (None, None)
    assert timer.update_last_triggered_step(50) == (4.0, 30)
    assert timer.last_triggered_step() == 50


def test_reset_timer_is_due_at_any_step() -> None:
    timer = SecondOrStepTimer(every_steps=10)
    timer.update_last_triggered_step(20)

    timer.reset()

    assert timer.last_triggered_step() is None
    assert timer.should_trigger_for_step(20)


@pytest.mark.parametrize("time", [None, 1])
def test_timer_wants_exactly_one_of_the_two(time: int | None) -> None:
    with pytest.raises(ValueError, match=r"every_secs (and|or) every_steps"):
        SecondOrStepTimer(every_secs=time, every_steps=time)
