"""Hooks that count, feed, wait, profile, evaluate at the end, and of summaries."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.tf1.attempts import Later
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
}
