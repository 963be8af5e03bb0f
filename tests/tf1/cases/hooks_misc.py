"""Hooks that count, feed, wait, profile, evaluate; of summaries; their timer."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.tf1.attempts import Later, attempt
from tests.tf1.folders import files
from tests.tf1.look import Case, makes_case, tf


def counted(hooks: list[Any], n_runs: int) -> list[Any]:
    """Count the global step so many times with these hooks."""
    train = tf.train.get_or_create_global_step().assign_add(1)
    with tf.train.MonitoredSession(hooks=hooks) as session:
        return [session.run(train) for _ in range(n_runs)]


@makes_case
def made(kind: str, *arguments: Any, **named: Any) -> Any:
    """Return a case that tells whether such a hook can be made."""
    return type(getattr(tf.train, kind)(*arguments, **named)).__name__


@makes_case
def counter_runs(**named: Any) -> Any:
    tf.train.get_or_create_global_step()
    return counted([tf.train.StepCounterHook(**named)], 5)


def case_a_counter_is_told() -> Any:
    """A kind of it can do something else with what it has measured."""
    result: list[Any] = []

    class Told(tf.train.StepCounterHook):  # type: ignore[misc]
        def _log_and_record(self, steps: Any, seconds: Any, step: Any) -> None:
            result.append([int(steps), seconds > 0.0, int(step)])

    tf.train.get_or_create_global_step()
    counted([Told(every_n_steps=2)], 7)
    return result


def case_a_feeder_of_nothing() -> Any:
    v = tf.Variable(1.0)
    hook = tf.train.FeedFnHook(lambda: None)
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        return session.run(v)


@makes_case
def waits_not(wait_until: int) -> Any:
    step = tf.train.get_or_create_global_step()
    result = []
    hook = tf.train.GlobalStepWaiterHook(wait_until)
    scaffold = tf.train.Scaffold(init_op=step.assign(5))
    creator = tf.train.ChiefSessionCreator(scaffold)
    with tf.train.MonitoredSession(creator, hooks=[hook]) as session:
        result += [session.run(step), session.run(step)]
    return result


def case_a_waiter_waits_for_another() -> Any:
    """The first run waits until others have counted."""
    server = tf.train.Server.create_local_server()
    with tf.Graph().as_default():
        train = tf.train.get_or_create_global_step().assign_add(1)
        creator = tf.train.ChiefSessionCreator(master=server.target)
        chief = tf.train.MonitoredSession(creator)
    step = tf.train.get_or_create_global_step()
    creator = tf.train.WorkerSessionCreator(master=server.target)
    hook = tf.train.GlobalStepWaiterHook(2)
    with chief, tf.train.MonitoredSession(creator, hooks=[hook]) as worker:
        later = Later(worker.run, step)
        result = [later.is_waiting()]
        return [*result, chief.run(train), chief.run(train), later.result()]


@makes_case
def profiled(folder: Path, n_runs: int, **named: Any) -> Any:
    """Return a case: which files a profiler has written."""
    tf.train.get_or_create_global_step()
    hook = tf.train.ProfilerHook(output_dir=str(folder), **named)
    runs = counted([hook], n_runs)
    return [runs, [name for name in files(folder) if "timeline" in name]]


def case_what_a_profiler_writes(folder: Path) -> Any:
    """The file is what Chrome's tracing reads."""
    tf.train.get_or_create_global_step()
    hook = tf.train.ProfilerHook(save_steps=1, output_dir=str(folder))
    counted([hook], 2)
    path = next(folder.glob("timeline-*.json"))
    events = json.loads(path.read_text())["traceEvents"]
    kinds = {event["ph"] for event in events}
    names = {event["name"] for event in events}
    return [{"M", "X"} <= kinds, "process_name" in names, len(events) > 2]


def summary(**named: Any) -> Case:
    return made("SummarySaverHook", **named)


@makes_case
def ended(make: Callable[[Any], Any]) -> Any:
    """Return a case: what the hook has before, during and after a session."""
    v = tf.Variable(0, name="v")
    add = v.assign_add(1)
    hook = make(v)
    result = [hook.final_ops_values]
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        session.run(add)
        session.run(add)
        result.append(hook.final_ops_values)
    return [*result, hook.final_ops_values]


def case_fed() -> Any:
    x = tf.placeholder(tf.float32, [2])
    hook = tf.train.FinalOpsHook(x * 2.0, final_ops_feed_dict={x: [1.0, 2.0]})
    with tf.train.MonitoredSession(hooks=[hook]):
        pass
    return hook.final_ops_values


MAKE: dict[str, Callable[[Any], Any]] = {
    "a_variable": lambda v: tf.train.FinalOpsHook(v),
    "a_tensor": lambda v: tf.train.FinalOpsHook(v * 10),
    "a_list": lambda v: tf.train.FinalOpsHook([v, v * 10]),
    "a_dict": lambda v: tf.train.FinalOpsHook({"a": v, "b": [v * 2]}),
    "a_name": lambda v: tf.train.FinalOpsHook("v:0"),
    "an_operation": lambda v: tf.train.FinalOpsHook(v.initializer),
    "an_update": lambda v: tf.train.FinalOpsHook(v.assign_add(5)),
    "nothing": lambda v: tf.train.FinalOpsHook(None),
    "an_empty_list": lambda v: tf.train.FinalOpsHook([]),
    "a_missing_name": lambda v: tf.train.FinalOpsHook("nowhere:0"),
}


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
def asked(**named: Any) -> Any:
    """Return a case that tells whether such a timer can be made, and asked."""
    timer = tf.train.SecondOrStepTimer(**named)
    return [attempt(timer.should_trigger_for_step, step) for step in (0, 1)]


CASES: dict[str, Case] = {
    "a_counter_of_steps": counter_runs(every_n_steps=2),
    "a_counter_of_seconds": counter_runs(every_n_secs=1000, every_n_steps=None),
    "a_counter_made_of_nothing": made("StepCounterHook"),
    "a_counter_made_of_none": made("StepCounterHook", None, None),
    "a_counter_made_of_both": made("StepCounterHook", 1, 1.0),
    **{f"a_waiter_for_{n}_of_5_waits_not": waits_not(n) for n in (0, 4, 5)},
    "a_profiler_every_two_steps": profiled(6, save_steps=2),
    "a_profiler_every_step": profiled(4, save_steps=1),
    "a_profiler_every_many_steps": profiled(3, save_steps=100),
    "a_profiler_made_of_nothing": made("ProfilerHook"),
    "a_profiler_made_of_both": made("ProfilerHook", 1, 1.0),
    "a_saver_of_summaries_made_of_nothing": summary(),
    "a_saver_of_summaries_made_without_a_source": summary(save_steps=1),
    "a_saver_of_summaries_made_of_two_sources": summary(
        save_steps=1, summary_op=1, scaffold=1
    ),
    "a_saver_of_summaries_made_of_both_times": summary(
        save_steps=1, save_secs=1, summary_op=1
    ),
    **{f"of_{name}": ended(make) for name, make in MAKE.items()},
    "every_three_steps": triggered(list(range(8)), every_steps=3),
    "every_step": triggered([0, 1, 2, 2, 3], every_steps=1),
    "never_twice_for_one_step": triggered([4, 4, 4], every_steps=1),
    "steps_that_leap": triggered([0, 5, 6, 10, 11, 30], every_steps=5),
    "steps_that_go_back": triggered([10, 2, 12, 15], every_steps=3),
    "a_first_step_that_is_not_zero": triggered(list(range(7, 20)), every_steps=4),
    "every_many_seconds": triggered([0, 1, 2, 3], every_secs=1000),
    "every_instant": triggered([0, 1, 1, 2], every_secs=0),
    "every_few_milliseconds": seconds,
    "made_of_nothing": asked(),
    "made_of_both": asked(every_secs=1.0, every_steps=1),
    "made_of_no_steps": asked(every_steps=0),
    "made_of_less_than_no_steps": asked(every_steps=-1),
    "made_of_less_than_no_seconds": asked(every_secs=-1.0),
}
