"""Hooks that stop at a step: after how many runs, wherever training began."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.tf1.attempts import attempt
from tests.tf1.folders import in_folder
from tests.tf1.look import Case, makes_case, tf


def loop(hooks: list[Any], train: Any, **named: Any) -> list[Any]:
    """Run until it is told to stop, at most 20 times."""
    result: list[Any] = []
    with tf.train.MonitoredTrainingSession(
        hooks=hooks, log_step_count_steps=None, save_summaries_steps=None, **named
    ) as session:
        while not session.should_stop() and len(result) < 20:
            result.append(session.run(train))
    return result


@makes_case
def counted(by: int = 1, start: int = 0, **named: Any) -> Any:
    """Return a case: training that counts by so many, from a start."""
    step = tf.Variable(start, name="global_step", trainable=False, dtype=tf.int64)
    tf.add_to_collection(tf.GraphKeys.GLOBAL_STEP, step)
    hook = tf.train.StopAtStepHook(**named)
    return loop([hook], step.assign_add(by))


def goes_on(folder: Path, **named: Any) -> Any:
    """Two programs in one folder, with a hook that counts from where it begins."""
    result = []
    for _ in range(2):
        with tf.Graph().as_default():
            step = tf.train.get_or_create_global_step()
            hook = tf.train.StopAtStepHook(**named)
            folder_name = str(folder)
            train = step.assign_add(1)
            result.append(loop([hook], train, checkpoint_dir=folder_name))
    return result


def in_one_folder(**named: Any) -> Case:
    return in_folder(lambda folder: goes_on(folder, **named))


def case_a_run_after_it() -> Any:
    step = tf.train.get_or_create_global_step()
    train = step.assign_add(1)
    hook = tf.train.StopAtStepHook(last_step=1)
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        return [session.run(train), attempt(session.run, train)]


def case_steps_of_two_workers() -> Any:
    """Steps are those of all workers together."""
    server = tf.train.Server.create_local_server()
    step = tf.train.get_or_create_global_step()
    train = step.assign_add(1)
    named = {"master": server.target, "log_step_count_steps": None}
    hooks = [[tf.train.StopAtStepHook(last_step=4)] for _ in range(2)]
    result = []
    kind = tf.train.MonitoredTrainingSession
    with kind(hooks=hooks[0], **named) as chief:
        worker = kind(hooks=hooks[1], is_chief=False, **named)
        for session in (chief, worker, chief, worker, chief):
            result.append(attempt(session.run, train))
            result.append([chief.should_stop(), worker.should_stop()])
        worker.close()
    return result


CASES: dict[str, Case] = {
    "at_the_third": counted(last_step=3),
    "after_three": counted(num_steps=3),
    "after_two_and_a_half": counted(num_steps=2.5),
    "at_two_and_a_half": counted(last_step=2.5),
    "at_the_first": counted(last_step=1),
    "at_none_still_runs_once": counted(last_step=0),
    "after_none_still_runs_once": counted(num_steps=0),
    "at_a_step_that_is_past": counted(start=10, last_step=4),
    "at_the_step_where_it_starts": counted(start=4, last_step=4),
    "after_three_from_ten": counted(start=10, num_steps=3),
    "steps_of_none": counted(by=0, last_step=2),
    "made_of_nothing": counted(),
    "made_of_both": counted(num_steps=1, last_step=1),
    "two_programs_to_one_step": in_one_folder(last_step=3),
    "two_programs_of_two_steps": in_one_folder(num_steps=2),
}
