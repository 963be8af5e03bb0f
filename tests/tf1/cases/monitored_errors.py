"""Monitored sessions: which errors end them, which are swallowed, which are mended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.tf1.attempts import attempt, noting, raising
from tests.tf1.folders import checkpoints

ERRORS: dict[str, Callable[[Any], BaseException]] = {
    "a_value_error": lambda tf: ValueError("a"),
    "the_end_of_the_input": lambda tf: tf.errors.OutOfRangeError(None, None, "a"),
    "the_end_of_an_iteration": lambda tf: StopIteration(),
    "an_aborted_error": lambda tf: tf.errors.AbortedError(None, None, "a"),
    "an_unavailable_error": lambda tf: tf.errors.UnavailableError(None, None, "a"),
    "a_cancelled_error": lambda tf: tf.errors.CancelledError(None, None, "a"),
    "an_interrupt": lambda tf: KeyboardInterrupt(),
}


def told(tf: Any, call: Callable[[], Any]) -> Any:
    """Call, and tell the value or the error's name, whatever its kind."""
    try:
        return call()
    except BaseException as error:
        return type(error).__name__


def in_the_body(make: Callable[[Any], BaseException]) -> Callable[[Any], Any]:
    """Return a case: the body of the `with` raises."""

    def case(tf: Any) -> Any:
        log: list[str] = []
        tf.Variable(1.0)

        def body() -> None:
            with tf.train.MonitoredSession(hooks=[noting(tf, log)]):
                raise make(tf)

        return [told(tf, body), log]

    return case


def in_a_hook(
    stage: str, make: Callable[[Any], BaseException], kind: str = "MonitoredSession"
) -> Callable[[Any], Any]:
    """Return a case: a hook raises once, at its second call of this stage or first."""

    def case(tf: Any) -> Any:
        log: list[str] = []
        v = tf.Variable(0)
        add = v.assign_add(1)
        left = [make(tf)]
        found: list[Any] = []

        def fail(*arguments: Any) -> None:
            if left:
                raise left.pop()

        hooks = [noting(tf, log, "a", **{stage: fail}), noting(tf, log, "b")]

        def body() -> None:
            with getattr(tf.train, kind)(hooks=hooks) as session:
                found.append(session.run(add))
                found.append(session.run(add))

        return [told(tf, body), found, log]

    return case


def always_fails(stage: str) -> Callable[[Any], Any]:
    """Return a case: a hook raises an error at this stage."""
    return in_a_hook(stage, lambda tf: ValueError("a"))


def case_recovered_from_a_checkpoint(tf: Any, folder: Path) -> Any:
    """After a loss the steps since the last checkpoint are done again."""
    step = tf.train.get_or_create_global_step()
    train = step.assign_add(1)
    found: list[Any] = []
    left = [tf.errors.AbortedError(None, None, "a")]
    log: list[str] = []

    def fail(*arguments: Any) -> None:
        if len(found) == 3 and left:
            raise left.pop()

    named = {"checkpoint_dir": str(folder), "save_checkpoint_steps": 2}
    hooks = [noting(tf, log, after_run=fail)]
    with tf.train.MonitoredTrainingSession(
        hooks=hooks, log_step_count_steps=None, save_summaries_steps=None, **named
    ) as session:
        for _ in range(5):
            found.append(session.run(train))
    return [found, log.count("hook after_create_session"), checkpoints(folder)]


def case_recovered_without_a_checkpoint(tf: Any) -> Any:
    v = tf.Variable(0)
    add = v.assign_add(1)
    found: list[Any] = []
    left = [tf.errors.UnavailableError(None, None, "a")]

    def fail(*arguments: Any) -> None:
        if len(found) == 2 and left:
            raise left.pop()

    hooks = [noting(tf, [], before_run=fail)]
    with tf.train.MonitoredSession(hooks=hooks) as session:
        for _ in range(4):
            found.append(session.run(add))
    return found


def case_recovered_while_created(tf: Any) -> Any:
    """An aborted error while a session is made is tried again."""
    tf.Variable(1.0)
    left = [tf.errors.AbortedError(None, None, "a")] * 2
    calls: list[int] = []

    def init(scaffold: Any, session: Any) -> None:
        calls.append(1)
        if left:
            raise left.pop()

    creator = tf.train.ChiefSessionCreator(tf.train.Scaffold(init_fn=init))
    with tf.train.MonitoredSession(creator) as session:
        return [len(calls), session.should_stop()]


def case_failed_while_created(tf: Any) -> Any:
    log: list[str] = []
    tf.Variable(1.0)
    scaffold = tf.train.Scaffold(init_fn=raising(ValueError("a")))
    creator = tf.train.ChiefSessionCreator(scaffold)
    found = attempt(tf, tf.train.MonitoredSession, creator, [noting(tf, log)])
    return [found, log]


def case_a_run_that_fails(tf: Any) -> Any:
    """An error of an operation propagates; the session is not usable up to its end."""
    log: list[str] = []
    holder = tf.placeholder(tf.int32, [])
    v = tf.Variable([1, 2])
    out = tf.gather(v, holder)
    session = tf.train.MonitoredSession(hooks=[noting(tf, log)])
    with session:
        found = [attempt(tf, session.run, out, {holder: one}) for one in (7, 1)]
    return [found, log]


def case_a_run_that_reaches_the_end(tf: Any) -> Any:
    log: list[str] = []
    queue = tf.FIFOQueue(3, tf.int32)
    put, close, take = queue.enqueue(1), queue.close(), queue.dequeue()
    found = []
    with tf.train.MonitoredSession(hooks=[noting(tf, log)]) as session:
        session.run(put)
        session.run(close)
        while not session.should_stop():
            found.append(session.run(take))
    return [found, log, session.should_stop()]


def case_a_stop_is_requested(tf: Any) -> Any:
    log: list[str] = []
    v = tf.Variable(0)
    add = v.assign_add(1)
    hook = noting(tf, log, after_run=lambda context, values: context.request_stop())
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        found = [session.run(add), session.should_stop(), attempt(tf, session.run, add)]
    return [found, log]


def case_a_stop_is_requested_before_the_run(tf: Any) -> Any:
    v = tf.Variable(0)
    add = v.assign_add(1)
    hook = noting(tf, [], before_run=lambda context: context.request_stop())
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        return [attempt(tf, session.run, add), session.should_stop()]


def case_two_hooks_feed_the_same(tf: Any) -> Any:
    x = tf.placeholder(tf.float32, [])

    def feed(context: Any) -> Any:
        return tf.train.SessionRunArgs(None, {x: 1.0})

    hooks = [noting(tf, [], before_run=feed) for _ in range(2)]
    with tf.train.MonitoredSession(hooks=hooks) as session:
        return attempt(tf, session.run, x)


def case_a_hook_feeds_what_the_caller_feeds(tf: Any) -> Any:
    x = tf.placeholder(tf.float32, [])
    args = tf.train.SessionRunArgs(None, {x: 1.0})
    hook = noting(tf, [], before_run=lambda context: args)
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        found = [attempt(tf, session.run, x, {x: 2.0})]
        return [*found, attempt(tf, session.run, x)]


def case_closed_twice_and_used(tf: Any) -> Any:
    v = tf.Variable(1.0)
    session = tf.train.MonitoredSession()
    session.close()
    found = [attempt(tf, session.close), attempt(tf, session.run, v)]
    return [*found, session.should_stop()]


def case_a_graph_that_shall_grow_while_open(tf: Any) -> Any:
    tf.Variable(1.0)
    with tf.train.MonitoredSession():
        return attempt(tf, tf.constant, 1.0)


def case_no_hook(tf: Any) -> Any:
    tf.Variable(1.0)
    return attempt(tf, tf.train.MonitoredSession, hooks=["no hook"])


def case_a_worker_without_a_chief(tf: Any) -> Any:
    server = tf.train.Server.create_local_server()
    tf.Variable(1.0)
    return tf.train.MonitoredTrainingSession(
        master=server.target, is_chief=False, max_wait_secs=0
    )


def case_the_coordinator_stops_it(tf: Any) -> Any:
    """A hook that keeps the coordinator can stop the session."""
    kept: list[Any] = []
    v = tf.Variable(1.0)
    hook = noting(
        tf, [], after_create_session=lambda session, coord: kept.append(coord)
    )
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        found = [session.should_stop(), session.run(v)]
        kept[0].request_stop()
        return [*found, session.should_stop()]


def case_a_runner_that_fails(tf: Any) -> Any:
    """The error of a queue's thread comes out, not the one that follows from it."""
    queue = tf.FIFOQueue(3, tf.float32)
    holder = tf.placeholder(tf.float32, [])
    runner = tf.train.QueueRunner(queue, [queue.enqueue(holder)])
    tf.train.add_queue_runner(runner)
    take = queue.dequeue()

    def body() -> Any:
        with tf.train.MonitoredSession() as session:
            return session.run(take)

    return attempt(tf, body)


CASES: dict[str, Callable[[Any], Any]] = {
    **{f"the_body_raises_{key}": in_the_body(make) for key, make in ERRORS.items()},
    **{
        f"after_run_raises_{key}": in_a_hook("after_run", make)
        for key, make in ERRORS.items()
    },
    **{
        f"before_run_raises_{key}": in_a_hook("before_run", make)
        for key, make in ERRORS.items()
    },
    **{
        f"{stage}_raises": always_fails(stage)
        for stage in ("begin", "after_create_session", "end")
    },
    "a_singular_one_does_not_recover": in_a_hook(
        *("after_run", ERRORS["an_aborted_error"], "SingularMonitoredSession")
    ),
    "a_new_session_is_told_but_aborted": in_a_hook(
        "after_create_session", ERRORS["an_aborted_error"]
    ),
}
