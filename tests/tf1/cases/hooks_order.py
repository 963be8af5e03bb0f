"""Hooks: in which order they are asked, what they see and add; when they stop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.tf1.attempts import attempt, noting
from tests.tf1.folders import in_folder
from tests.tf1.look import Case, makes_case, tf

KINDS = ("MonitoredTrainingSession", "MonitoredSession", "SingularMonitoredSession")


@makes_case
def three_hooks(kind: str) -> Any:
    """Return a case: all stages of three hooks, for two runs."""
    log: list[str] = []
    v = tf.Variable(0)
    hooks = [noting(log, name) for name in "abc"]
    with getattr(tf.train, kind)(hooks=hooks) as session:
        session.run(v)
        log.append("between")
        session.run(v)
    return log


def case_a_variable_made_at_the_begin() -> Any:
    kept: list[Any] = []
    hook = noting([], begin=lambda: kept.append(tf.Variable(5.0)))
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        return session.run(kept[0])


@makes_case
def fetching(make: Callable[[Any], Any]) -> Any:
    """Return a case: what comes back for what a hook asks for."""
    result: list[Any] = []
    v = tf.Variable([1.0, 2.0], name="v")
    args = tf.train.SessionRunArgs(make(v))

    def keep(context: Any, values: Any) -> None:
        result.append(values.results)

    hook = noting([], before_run=lambda context: args, after_run=keep)
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        mine = session.run(v)
    return [mine, result]


def case_a_hook_feeds() -> Any:
    x = tf.placeholder(tf.float32, [])
    y = tf.placeholder(tf.float32, [])
    total = x + y
    args = tf.train.SessionRunArgs(None, feed_dict={x: 10.0})
    hook = noting([], before_run=lambda context: args)
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        return [session.run(total, {y: item}) for item in (1.0, 2.0)]


def case_sessions_of_the_stages() -> Any:
    result: list[Any] = []
    v = tf.Variable(3)

    def look(session: Any, *coord: Any) -> None:
        result.append([session.run(v), len(coord)])

    hook = noting([], after_create_session=look, end=look)
    with tf.train.MonitoredSession(hooks=[hook]):
        pass
    return result


def case_options_are_merged() -> Any:
    result: list[Any] = []
    v = tf.Variable(1.0)
    full = tf.RunOptions.FULL_TRACE
    asked = [
        tf.RunOptions(timeout_in_ms=5000),
        tf.RunOptions(trace_level=full, timeout_in_ms=7000),
        tf.RunOptions(output_partition_graphs=True),
    ]

    def keep(context: Any, values: Any) -> None:
        reply = values.options
        result.append([reply.trace_level, reply.timeout_in_ms])
        result.append(reply.output_partition_graphs)
        result.append(len(values.run_metadata.step_stats.dev_stats) > 0)

    hooks = [
        noting(
            [],
            before_run=lambda context, each=item: tf.train.SessionRunArgs(
                None, options=each
            ),
        )
        for item in asked
    ]
    hooks.append(noting([], after_run=keep))
    with tf.train.MonitoredSession(hooks=hooks) as session:
        session.run(v, options=tf.RunOptions(timeout_in_ms=6000))
    return result


def args() -> Any:
    kind = tf.train.SessionRunArgs
    first, two = kind("f"), kind("f", {"a": 1}, "o")
    return [list(kind._fields), list(first), list(two), first == kind("f")]


def case_a_context_by_hand() -> Any:
    context = tf.train.SessionRunContext("args", "session")
    result = [context.original_args, context.session, context.stop_requested]
    context.request_stop()
    return [*result, context.stop_requested]


def case_values_by_hand() -> Any:
    kind = tf.train.SessionRunValues
    return [list(kind._fields), list(kind(1, 2, 3))]


FETCHES: dict[str, Callable[[Any], Any]] = {
    "a_tensor": lambda v: v * 2.0,
    "a_list": lambda v: [v, v + 1.0],
    "a_dict": lambda v: {"x": v, "y": [v + 1.0]},
    "a_tuple": lambda v: (v, tf.shape(v)),
    "an_operation": lambda v: v.initializer,
    "a_name": lambda v: "v:0",
    "nothing_in_a_list": lambda v: [],
    "slices": lambda v: tf.IndexedSlices(v, tf.constant(np.array([0, 1]))),
}


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


@makes_case
def ran(body: Callable[[Any], Any], **named: Any) -> Any:
    """Return a case: what a step function gives, and what the hooks noted."""
    log: list[str] = []
    v = tf.Variable(0, name="v")
    add = v.assign_add(1)
    kind = getattr(tf.train, named.get("kind", "MonitoredSession"))
    with kind(hooks=[noting(log)]) as session:
        result = attempt(session.run_step_fn, body(add))
        stops = session.should_stop()
        value = attempt(session.run, v)
    return [result, stops, value, log]


def both(add: Any) -> Any:
    def step(step_context: Any) -> Any:
        first = step_context.session.run(add)
        second = step_context.run_with_hooks(add)
        return [first, second, step_context.run_with_hooks(add)]

    return step


def raises(add: Any) -> Any:
    def step(step_context: Any) -> Any:
        raise ValueError("a")

    return step


def stops(add: Any) -> Any:
    def step(step_context: Any) -> Any:
        step_context.session.run(add)
        step_context.request_stop()
        return "not reached"

    return step


def a_method(add: Any) -> Any:
    class Owner:
        def step(self, step_context: Any) -> Any:
            return step_context.run_with_hooks(add)

    return Owner().step


def a_method_with_another_name(add: Any) -> Any:
    class Owner:
        def step(self, context: Any) -> Any:
            return 1

    return Owner().step


def case_fed() -> Any:
    x = tf.placeholder(tf.float32, [])
    y = x + 1.0
    with tf.train.MonitoredSession() as session:
        return session.run_step_fn(
            lambda step_context: [
                step_context.run_with_hooks(y, {x: 1.0}),
                step_context.run_with_hooks(fetches=y, feed_dict={x: 2.0}),
                step_context.session.run(y, {x: 3.0}),
            ]
        )


CASES: dict[str, Case] = {
    **{f"of_three_in_a_{kind}": three_hooks(kind) for kind in KINDS},
    **{f"a_hook_fetches_{name}": fetching(make) for name, make in FETCHES.items()},
    "arguments_by_hand": args,
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
    "with_hooks": ran(
        lambda add: lambda step_context: step_context.run_with_hooks(add)
    ),
    "without_hooks": ran(
        lambda add: lambda step_context: step_context.session.run(add)
    ),
    "several_runs": ran(both),
    "what_it_returns": ran(lambda add: lambda step_context: ["anything", 7, None]),
    "what_it_raises": ran(raises),
    "it_requests_a_stop": ran(stops),
    "of_a_singular_session": ran(both, kind="SingularMonitoredSession"),
    "a_singular_session_is_stopped": ran(stops, kind="SingularMonitoredSession"),
    "an_argument_of_another_name": ran(lambda add: lambda context: 1),
    "two_arguments": ran(lambda add: lambda step_context, other: 1),
    "no_argument": ran(lambda add: lambda: 1),
    "an_argument_with_a_default": ran(lambda add: lambda step_context, other=2: 1),
    "a_method": ran(a_method),
    "a_method_with_another_name": ran(a_method_with_another_name),
    "no_function": ran(lambda add: 7),
    "the_kind_of_its_session": ran(
        lambda add: lambda step_context: type(step_context.session).__name__
    ),
}
