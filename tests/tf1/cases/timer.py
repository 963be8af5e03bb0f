"""The timer of steps and seconds that hooks use."""

from __future__ import annotations

import time
from typing import Any

from tests.tf1.attempts import attempt
from tests.tf1.look import makes_case, tf


@makes_case
def triggered(steps: list[int], **named: Any) -> Any:
    """Return a case: at which of the steps it triggers."""
    timer = tf.train.SecondOrStepTimer(**named)
    result = []
    for step in steps:
        if timer.should_trigger_for_step(step):
            timer.update_last_triggered_step(step)
            result.append(step)
    return result


def case_asking_changes_nothing() -> Any:
    """Asking changes nothing."""
    timer = tf.train.SecondOrStepTimer(every_steps=3)
    return [timer.should_trigger_for_step(step) for step in (5, 5, 6, 1)]


def seconds() -> Any:
    timer = tf.train.SecondOrStepTimer(every_secs=0.05)
    result = [timer.should_trigger_for_step(1)]
    timer.update_last_triggered_step(1)
    result += [timer.should_trigger_for_step(2)]
    time.sleep(0.07)
    result += [timer.should_trigger_for_step(1), timer.should_trigger_for_step(2)]
    taken, steps = timer.update_last_triggered_step(2)
    return [*result, 0.05 < taken < 5.0, steps, timer.should_trigger_for_step(3)]


@makes_case
def made(**named: Any) -> Any:
    """Return a case that tells whether such a timer can be made, and asked."""
    timer = tf.train.SecondOrStepTimer(**named)
    return [attempt(timer.should_trigger_for_step, step) for step in (0, 1)]


CASES = {
    "every_three_steps": triggered(list(range(8)), every_steps=3),
    "every_step": triggered([0, 1, 2, 2, 3], every_steps=1),
    "never_twice_for_one_step": triggered([4, 4, 4], every_steps=1),
    "steps_that_leap": triggered([0, 5, 6, 10, 11, 30], every_steps=5),
    "steps_that_go_back": triggered([10, 2, 12, 15], every_steps=3),
    "a_first_step_that_is_not_zero": triggered(list(range(7, 20)), every_steps=4),
    "every_many_seconds": triggered([0, 1, 2, 3], every_secs=1000),
    "every_instant": triggered([0, 1, 1, 2], every_secs=0),
    "every_few_milliseconds": seconds,
    "made_of_nothing": made(),
    "made_of_both": made(every_secs=1.0, every_steps=1),
    "made_of_no_steps": made(every_steps=0),
    "made_of_less_than_no_steps": made(every_steps=-1),
    "made_of_less_than_no_seconds": made(every_secs=-1.0),
}
