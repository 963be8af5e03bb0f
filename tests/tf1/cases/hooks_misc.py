"""Hooks that count, feed, wait, profile, and those of summaries."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.tf1.attempts import Later, attempt, noted, noting
from tests.tf1.folders import files, in_folder


def counted(tf: Any, hooks: list[Any], n_runs: int) -> list[Any]:
    """Count the global step so many times with these hooks."""
    train = tf.train.get_or_create_global_step().assign_add(1)
    with tf.train.MonitoredSession(hooks=hooks) as session:
        return [session.run(train) for _ in range(n_runs)]


def made(kind: str, *arguments: Any, **named: Any) -> Callable[[Any], Any]:
    """Return a case that tells whether such a hook can be made."""

    def case(tf: Any) -> Any:
        return type(getattr(tf.train, kind)(*arguments, **named)).__name__

    return case


def counter_runs(**named: Any) -> Callable[[Any], Any]:
    def case(tf: Any) -> Any:
        tf.train.get_or_create_global_step()
        return counted(tf, [tf.train.StepCounterHook(**named)], 5)

    return case


def case_a_counter_is_told(tf: Any) -> Any:
    """A kind of it can do something else with what it has measured."""
    found: list[Any] = []

    class Told(tf.train.StepCounterHook):  # type: ignore[misc]
        def _log_and_record(self, steps: Any, seconds: Any, step: Any) -> None:
            found.append([int(steps), seconds > 0.0, int(step)])

    tf.train.get_or_create_global_step()
    counted(tf, [Told(every_n_steps=2)], 7)
    return found


def case_a_counter_without_a_step(tf: Any) -> Any:
    tf.Variable(1.0)
    hook = tf.train.StepCounterHook(every_n_steps=1)
    return attempt(tf, tf.train.MonitoredSession, hooks=[hook])


def case_a_counter_of_a_step_that_stands(tf: Any) -> Any:
    step = tf.train.get_or_create_global_step()
    hook = tf.train.StepCounterHook(every_n_steps=1)
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        return [session.run(step) for _ in range(8)]


def case_a_feeder(tf: Any) -> Any:
    """The function is called for every run."""
    x = tf.placeholder(tf.float32, [])
    y = x * 2.0
    calls: list[int] = []

    def feed() -> Any:
        calls.append(1)
        return {x: float(len(calls))}

    with tf.train.MonitoredSession(hooks=[tf.train.FeedFnHook(feed)]) as session:
        return [[session.run(y) for _ in range(3)], len(calls)]


def case_two_feeders_of_one(tf: Any) -> Any:
    x = tf.placeholder(tf.float32, [])
    hooks = [tf.train.FeedFnHook(lambda: {x: 1.0}) for _ in range(2)]
    with tf.train.MonitoredSession(hooks=hooks) as session:
        return session.run(x)


def case_a_feeder_of_what_is_fed(tf: Any) -> Any:
    x = tf.placeholder(tf.float32, [])
    hook = tf.train.FeedFnHook(lambda: {x: 1.0})
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        return session.run(x, {x: 2.0})


def case_a_feeder_of_nothing(tf: Any) -> Any:
    v = tf.Variable(1.0)
    hook = tf.train.FeedFnHook(lambda: None)
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        return session.run(v)


def waits_not(wait_until: int) -> Callable[[Any], Any]:
    def case(tf: Any) -> Any:
        step = tf.train.get_or_create_global_step()
        found = []
        hook = tf.train.GlobalStepWaiterHook(wait_until)
        scaffold = tf.train.Scaffold(init_op=step.assign(5))
        creator = tf.train.ChiefSessionCreator(scaffold)
        with tf.train.MonitoredSession(creator, hooks=[hook]) as session:
            found += [session.run(step), session.run(step)]
        return found

    return case


def case_a_waiter_waits_for_another(tf: Any) -> Any:
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
        later = Later(tf, worker.run, step)
        found = [later.is_waiting()]
        return [*found, chief.run(train), chief.run(train), later.result()]


def case_a_waiter_without_a_step(tf: Any) -> Any:
    tf.Variable(1.0)
    hook = tf.train.GlobalStepWaiterHook(1)
    return attempt(tf, tf.train.MonitoredSession, hooks=[hook])


def profiled(n_runs: int, **named: Any) -> Callable[[Any], Any]:
    """Return a case: which files a profiler has written."""

    def body(tf: Any, folder: Path) -> Any:
        tf.train.get_or_create_global_step()
        hook = tf.train.ProfilerHook(output_dir=str(folder), **named)
        runs = counted(tf, [hook], n_runs)
        return [runs, [name for name in files(folder) if "timeline" in name]]

    return in_folder(body)


def case_what_a_profiler_writes(tf: Any, folder: Path) -> Any:
    """The file is what Chrome's tracing reads."""
    tf.train.get_or_create_global_step()
    hook = tf.train.ProfilerHook(save_steps=1, output_dir=str(folder))
    counted(tf, [hook], 2)
    path = next(folder.glob("timeline-*.json"))
    events = json.loads(path.read_text())["traceEvents"]
    kinds = {event["ph"] for event in events}
    names = {event["name"] for event in events}
    return [{"M", "X"} <= kinds, "process_name" in names, len(events) > 2]


def case_a_profiler_without_a_step(tf: Any, folder: Path) -> Any:
    tf.Variable(1.0)
    hook = tf.train.ProfilerHook(save_steps=1, output_dir=str(folder))
    return attempt(tf, tf.train.MonitoredSession, hooks=[hook])


def case_several_in_one(tf: Any, folder: Path) -> Any:
    """The usual set of a training program."""
    log: list[Any] = []
    step = tf.train.get_or_create_global_step()
    v = tf.Variable([2.0, -1.0], name="v")
    loss = tf.reduce_sum(v * v)
    train = tf.train.GradientDescentOptimizer(0.25).minimize(loss, global_step=step)
    hooks = [
        tf.train.StopAtStepHook(last_step=4),
        tf.train.NanTensorHook(loss),
        tf.train.LoggingTensorHook(
            {"loss": tf.constant(1.0)},
            every_n_iter=2,
            formatter=lambda values: noted(log, values["loss"]),
        ),
        tf.train.CheckpointSaverHook(str(folder), save_steps=2),
        noting(tf, log),
    ]
    with tf.train.MonitoredSession(hooks=hooks) as session:
        while not session.should_stop():
            session.run(train)
    with tf.Session() as session:
        tf.train.Saver().restore(session, tf.train.latest_checkpoint(str(folder)))
        return [session.run([v, step]), log]


def summary(**named: Any) -> Callable[[Any], Any]:
    return made("SummarySaverHook", **named)


CASES: dict[str, Callable[[Any], Any]] = {
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
    "a_saver_of_summaries_made_without_a_time": summary(
        save_steps=None, save_secs=None, summary_op=1
    ),
    "a_saver_of_summaries_made_of_both_times": summary(
        save_steps=1, save_secs=1, summary_op=1
    ),
}
