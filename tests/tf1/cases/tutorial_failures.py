"""Hooks and operations of programs that fail once, and how the programs go on."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tf1.attempts import attempt
from tests.tf1.look import makes_case


def model(tf: Any) -> Any:
    """Make a model of one number; return its train operation and the global step."""
    step = tf.train.get_or_create_global_step()
    v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
    optimizer = tf.train.GradientDescentOptimizer(0.5)
    return optimizer.minimize(tf.square(v - 1.0), global_step=step), step


@makes_case
def fails_once(tf: Any, stage: str, kind: str) -> Any:
    """Return a case: a hook of one's own raises once in this stage."""
    log: list[Any] = []
    train, step = model(tf)

    class Failing(tf.train.SessionRunHook):  # type: ignore[misc]
        left = 1

        def fail(self, where: str, count: int) -> None:
            log.append(where)
            if where == stage and self.left and log.count(where) == count:
                self.left = 0
                raise getattr(tf.errors, kind)(None, None, "once")

        def begin(self) -> None:
            self.fail("begin", 1)

        def after_create_session(self, session: Any, coord: Any) -> None:
            self.fail("after_create_session", 1)

        def before_run(self, run_context: Any) -> None:
            self.fail("before_run", 2)

        def after_run(self, run_context: Any, run_values: Any) -> None:
            self.fail("after_run", 2)

        def end(self, session: Any) -> None:
            self.fail("end", 1)

    def program() -> Any:
        with tf.train.MonitoredTrainingSession(hooks=[Failing()]) as session:
            for _ in range(3):
                session.run(train)
            return session.run(step)

    return [attempt(tf, program), log]


@makes_case
def in_the_body(tf: Any, kind: str) -> Any:
    """Return a case: the operation that is run raises; the loop goes on or ends."""
    log: list[Any] = []

    class Noting(tf.train.SessionRunHook):  # type: ignore[misc]
        def after_create_session(self, session: Any, coord: Any) -> None:
            log.append("session")

        def end(self, session: Any) -> None:
            log.append("end")

    calls: list[int] = []

    def work() -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise getattr(tf.errors, kind)(None, None, "once")
        return np.float32(len(calls))

    value = tf.py_func(work, [], tf.float32)

    def program() -> Any:
        with tf.train.MonitoredSession(hooks=[Noting()]) as session:
            return [session.run(value) for _ in range(3)]

    return [attempt(tf, program), log]


@makes_case
def end_of_the_input_in_a_hook(tf: Any, stage: str) -> Any:
    """Return a case: a hook of one's own says that the input has ended."""
    log: list[Any] = []
    train, _ = model(tf)

    def fail(self: Any, *_: Any) -> None:
        log.append(stage)
        if log.count(stage) == 3:
            raise tf.errors.OutOfRangeError(None, None, "the end")

    def end(self: Any, session: Any) -> None:
        log.append("end")

    methods = {stage: fail, "end": end}
    hook = type("Ending", (tf.train.SessionRunHook,), methods)()

    def program() -> Any:
        with tf.train.MonitoredTrainingSession(hooks=[hook]) as session:
            while not session.should_stop() and len(log) < 9:
                session.run(train)
                log.append("run")

    return [attempt(tf, program), log]


STAGES = ("begin", "after_create_session", "before_run", "after_run", "end")

CASES = {
    **{
        f"{kind}_once_in_{stage}": fails_once(stage, kind)
        for stage in STAGES
        for kind in ("AbortedError", "UnavailableError", "InternalError")
    },
    **{
        f"{kind}_once_in_the_body": in_the_body(kind)
        for kind in ("InvalidArgumentError", "OutOfRangeError")
    },
    **{
        f"the_end_of_the_input_in_{stage}": end_of_the_input_in_a_hook(stage)
        for stage in ("before_run", "after_run")
    },
}
