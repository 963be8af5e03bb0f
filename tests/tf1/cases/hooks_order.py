"""Hooks: in which order they are asked, what they see, what they add to a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tf1.attempts import noting
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

CASES: dict[str, Case] = {
    **{f"of_three_in_a_{kind}": three_hooks(kind) for kind in KINDS},
    **{f"a_hook_fetches_{name}": fetching(make) for name, make in FETCHES.items()},
    "arguments_by_hand": args,
}
