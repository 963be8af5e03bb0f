"""Monitored sessions: which errors end them, which are swallowed, which are mended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.tf1.attempts import attempt, noting
from tests.tf1.look import Case, makes_case, tf

ERRORS: dict[str, Callable[[], BaseException]] = {
    "a_value_error": lambda: ValueError("a"),
    "the_end_of_the_input": lambda: tf.errors.OutOfRangeError(None, None, "a"),
    "the_end_of_an_iteration": lambda: StopIteration(),
    "an_aborted_error": lambda: tf.errors.AbortedError(None, None, "a"),
    "an_unavailable_error": lambda: tf.errors.UnavailableError(None, None, "a"),
    "a_cancelled_error": lambda: tf.errors.CancelledError(None, None, "a"),
    "an_interrupt": lambda: KeyboardInterrupt(),
}


def outcome(call: Case) -> Any:
    """Call, and tell the value or the error's name, whatever its kind."""
    try:
        return call()
    except BaseException as error:
        return type(error).__name__


@makes_case
def in_the_body(make: Callable[[], BaseException]) -> Any:
    """Return a case: the body of the `with` raises."""
    log: list[str] = []
    tf.Variable(1.0)

    def body() -> None:
        with tf.train.MonitoredSession(hooks=[noting(log)]):
            raise make()

    return [outcome(body), log]


@makes_case
def in_a_hook(
    stage: str,
    make: Callable[[], BaseException],
    kind: str = "MonitoredSession",
) -> Any:
    """Return a case: a hook raises once, at its second call of this stage or first."""
    log: list[str] = []
    v = tf.Variable(0)
    add = v.assign_add(1)
    left = [make()]
    result: list[Any] = []

    def fail(*arguments: Any) -> None:
        if left:
            raise left.pop()

    hooks = [noting(log, "a", **{stage: fail}), noting(log, "b")]

    def body() -> None:
        with getattr(tf.train, kind)(hooks=hooks) as session:
            result.append(session.run(add))
            result.append(session.run(add))

    return [outcome(body), result, log]


def always_fails(stage: str) -> Case:
    """Return a case: a hook raises an error at this stage."""
    return in_a_hook(stage, lambda: ValueError("a"))


def case_closed_twice_and_used() -> Any:
    v = tf.Variable(1.0)
    session = tf.train.MonitoredSession()
    session.close()
    result = [attempt(session.close), attempt(session.run, v)]
    return [*result, session.should_stop()]


def case_no_hook() -> Any:
    tf.Variable(1.0)
    return attempt(tf.train.MonitoredSession, hooks=["no hook"])


def case_a_worker_without_a_chief() -> Any:
    server = tf.train.Server.create_local_server()
    tf.Variable(1.0)
    return tf.train.MonitoredTrainingSession(
        master=server.target, is_chief=False, max_wait_secs=0
    )


def case_a_runner_that_fails() -> Any:
    """The error of a queue's thread comes out, not the one that follows from it."""
    queue = tf.FIFOQueue(3, tf.float32)
    holder = tf.placeholder(tf.float32, [])
    runner = tf.train.QueueRunner(queue, [queue.enqueue(holder)])
    tf.train.add_queue_runner(runner)
    take = queue.dequeue()

    def body() -> Any:
        with tf.train.MonitoredSession() as session:
            return session.run(take)

    return attempt(body)


CASES: dict[str, Case] = {
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
    "a_new_session_is_told_but_aborted": in_a_hook(
        "after_create_session", ERRORS["an_aborted_error"]
    ),
}
