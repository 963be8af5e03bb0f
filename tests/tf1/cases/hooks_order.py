"""Hooks: in which order they are asked, what they see, what they add to a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.tf1.attempts import attempt, noting

KINDS = ("MonitoredTrainingSession", "MonitoredSession", "SingularMonitoredSession")


def three_hooks(kind: str) -> Callable[[Any], Any]:
    """Return a case: all stages of three hooks, for two runs."""

    def case(tf: Any) -> Any:
        log: list[str] = []
        v = tf.Variable(0)
        hooks = [noting(tf, log, name) for name in "abc"]
        with getattr(tf.train, kind)(hooks=hooks) as session:
            session.run(v)
            log.append("between")
            session.run(v)
        return log

    return case


def case_those_of_the_chief_come_first(tf: Any) -> Any:
    log: list[str] = []
    v = tf.Variable(0)
    with tf.train.MonitoredTrainingSession(
        hooks=[noting(tf, log, "usual")], chief_only_hooks=[noting(tf, log, "chief")]
    ) as session:
        session.run(v)
    return log


def case_built_in_ones_come_between(tf: Any, folder: Path) -> Any:
    """The hook that saves has saved when the others are told of the session."""
    step = tf.train.get_or_create_global_step()
    train = step.assign_add(1)
    found: list[Any] = []

    def look(*arguments: Any) -> None:
        found.append(sorted(path.name for path in folder.glob("*.index")))

    stages: Any = {"after_create_session": look, "after_run": look, "end": look}
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=str(folder),
        hooks=[noting(tf, [], **stages)],
        chief_only_hooks=[noting(tf, [], **stages)],
        save_checkpoint_steps=1,
        save_summaries_steps=None,
        log_step_count_steps=None,
    ) as session:
        session.run(train)
    return found


def case_the_graph_can_grow_at_the_begin(tf: Any) -> Any:
    found: list[Any] = []
    v = tf.Variable(2.0)

    def grow(*arguments: Any) -> None:
        found.append(attempt(tf, lambda: type(v + 1.0).__name__ != ""))

    stages: Any = {"begin": grow, "after_create_session": grow, "before_run": grow}
    hook = noting(tf, [], **stages, after_run=grow, end=grow)
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        session.run(v)
    return found


def case_a_variable_made_at_the_begin(tf: Any) -> Any:
    kept: list[Any] = []
    hook = noting(tf, [], begin=lambda: kept.append(tf.Variable(5.0)))
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        return session.run(kept[0])


def case_what_a_context_has(tf: Any) -> Any:
    found: list[Any] = []
    x = tf.placeholder(tf.float32, [])
    y = x + 1.0

    def look(context: Any, *values: Any) -> None:
        args = context.original_args
        found.append([args.fetches is y, list(args.feed_dict) == [x]])
        found.append([type(args).__name__, context.stop_requested, args.options])
        found.append(context.session is not None)

    hook = noting(tf, [], before_run=look, after_run=look)
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        session.run(y, {x: 1.0})
    return found


def case_what_the_caller_asked_for(tf: Any) -> Any:
    found: list[Any] = []
    v = tf.Variable(1.0)

    def look(context: Any) -> None:
        args = context.original_args
        kinds = [type(args.fetches).__name__, type(args.feed_dict).__name__]
        found.append([*kinds, args.feed_dict])

    with tf.train.MonitoredSession(hooks=[noting(tf, [], before_run=look)]) as session:
        session.run([v, v])
        session.run({"a": v})
        session.run(v.initializer)
    return found


def fetching(make: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """Return a case: what comes back for what a hook asks for."""

    def case(tf: Any) -> Any:
        found: list[Any] = []
        v = tf.Variable([1.0, 2.0], name="v")
        args = tf.train.SessionRunArgs(make(tf, v))

        def keep(context: Any, values: Any) -> None:
            found.append(values.results)

        hook = noting(tf, [], before_run=lambda context: args, after_run=keep)
        with tf.train.MonitoredSession(hooks=[hook]) as session:
            mine = session.run(v)
        return [mine, found]

    return case


def case_a_hook_fetches_nothing(tf: Any) -> Any:
    found: list[Any] = []

    def keep(context: Any, values: Any) -> None:
        found.append([type(values).__name__, list(values._fields), values.results])
        found.append([values.options is None, values.run_metadata is None])

    v = tf.Variable(1.0)
    with tf.train.MonitoredSession(hooks=[noting(tf, [], after_run=keep)]) as session:
        session.run(v)
    return found


def case_a_hook_feeds(tf: Any) -> Any:
    x = tf.placeholder(tf.float32, [])
    y = tf.placeholder(tf.float32, [])
    total = x + y
    args = tf.train.SessionRunArgs(None, feed_dict={x: 10.0})
    hook = noting(tf, [], before_run=lambda context: args)
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        return [session.run(total, {y: one}) for one in (1.0, 2.0)]


def case_there_is_one_run_for_all(tf: Any) -> Any:
    found: list[Any] = []
    v = tf.Variable(0)
    add = v.assign_add(1)
    args = tf.train.SessionRunArgs(add)

    def keep(context: Any, values: Any) -> None:
        found.append(values.results)

    hooks = [
        noting(tf, [], before_run=lambda context: args, after_run=keep)
        for _ in range(2)
    ]
    with tf.train.MonitoredSession(hooks=hooks) as session:
        mine = [session.run(add), session.run(add)]
    return [mine, found]


def case_a_hook_has_runs_of_its_own(tf: Any) -> Any:
    log: list[str] = []
    found: list[Any] = []
    v = tf.Variable(3)
    add = v.assign_add(1)

    def look(context: Any, values: Any) -> None:
        found.append(context.session.run(v))

    with tf.train.MonitoredSession(hooks=[noting(tf, log, after_run=look)]) as session:
        found.append(session.run(add))
    return [found, log]


def case_sessions_of_the_stages(tf: Any) -> Any:
    found: list[Any] = []
    v = tf.Variable(3)

    def look(session: Any, *coord: Any) -> None:
        found.append([session.run(v), len(coord)])

    hook = noting(tf, [], after_create_session=look, end=look)
    with tf.train.MonitoredSession(hooks=[hook]):
        pass
    return found


def case_options_are_merged(tf: Any) -> Any:
    found: list[Any] = []
    v = tf.Variable(1.0)
    full = tf.RunOptions.FULL_TRACE
    asked = [
        tf.RunOptions(timeout_in_ms=5000),
        tf.RunOptions(trace_level=full, timeout_in_ms=7000),
        tf.RunOptions(output_partition_graphs=True),
    ]

    def keep(context: Any, values: Any) -> None:
        told = values.options
        found.append([told.trace_level, told.timeout_in_ms])
        found.append(told.output_partition_graphs)
        found.append(len(values.run_metadata.step_stats.dev_stats) > 0)

    hooks = [
        noting(
            *(tf, []),
            before_run=lambda context, one=one: tf.train.SessionRunArgs(
                None, options=one
            ),
        )
        for one in asked
    ]
    hooks.append(noting(tf, [], after_run=keep))
    with tf.train.MonitoredSession(hooks=hooks) as session:
        session.run(v, options=tf.RunOptions(timeout_in_ms=6000))
    return found


def case_a_hook_without_methods(tf: Any) -> Any:
    v = tf.Variable(1.0)
    with tf.train.MonitoredSession(hooks=[tf.train.SessionRunHook()]) as session:
        return session.run(v)


def args(tf: Any) -> Any:
    kind = tf.train.SessionRunArgs
    one, two = kind("f"), kind("f", {"a": 1}, "o")
    return [list(kind._fields), list(one), list(two), one == kind("f")]


def case_a_context_by_hand(tf: Any) -> Any:
    context = tf.train.SessionRunContext("args", "session")
    found = [context.original_args, context.session, context.stop_requested]
    context.request_stop()
    return [*found, context.stop_requested]


def case_values_by_hand(tf: Any) -> Any:
    kind = tf.train.SessionRunValues
    return [list(kind._fields), list(kind(1, 2, 3))]


def case_what_the_base_returns(tf: Any) -> Any:
    hook = tf.train.SessionRunHook()
    return [
        *(hook.begin(), hook.after_create_session(None, None)),
        *(hook.before_run(None), hook.after_run(None, None), hook.end(None)),
    ]


FETCHES: dict[str, Callable[[Any, Any], Any]] = {
    "a_tensor": lambda tf, v: v * 2.0,
    "a_list": lambda tf, v: [v, v + 1.0],
    "a_dict": lambda tf, v: {"x": v, "y": [v + 1.0]},
    "a_tuple": lambda tf, v: (v, tf.shape(v)),
    "an_operation": lambda tf, v: v.initializer,
    "a_name": lambda tf, v: "v:0",
    "nothing_in_a_list": lambda tf, v: [],
    "slices": lambda tf, v: tf.IndexedSlices(v, tf.constant(np.array([0, 1]))),
}

CASES: dict[str, Callable[[Any], Any]] = {
    **{f"of_three_in_a_{kind}": three_hooks(kind) for kind in KINDS},
    **{f"a_hook_fetches_{name}": fetching(make) for name, make in FETCHES.items()},
    "arguments_by_hand": args,
}
