"""Monitored sessions and hooks as programs write them: restarts, loggers, rates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.tf1.attempts import attempt, noted
from tests.tf1.folders import checkpoints
from tests.tf1.look import Case, makes_case, tf


def counting(by: float = 1.0) -> Any:
    """Make a variable and a step; return the variable and what counts both."""
    step = tf.train.get_or_create_global_step()
    v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
    return v, tf.group(v.assign_add(by), step.assign_add(1))


@makes_case
def by_a_creator(folder: Path, kind: str) -> Any:
    """Return a case: a session of a creator, with a folder, twice."""
    result = []
    for _ in range(2):
        with tf.Graph().as_default():
            v, train = counting()
            hooks = [tf.train.CheckpointSaverHook(str(folder), save_steps=10)]
            where = {"checkpoint_dir": str(folder)}
            if kind == "singular":
                made = tf.train.SingularMonitoredSession(hooks=hooks, **where)
            else:
                creator = tf.train.ChiefSessionCreator(**where)
                made = tf.train.MonitoredSession(creator, hooks=hooks)
            with made as session:
                session.run(train)
                session.run(train)
                result.append(session.run(v))
    return [result, checkpoints(folder)]


def case_after_an_error(folder: Path) -> Any:
    """The first program fails in its fifth step; the second goes on."""
    result: list[Any] = []
    for fails in (True, False):
        with tf.Graph().as_default():
            _, train = counting()

            def program() -> Any:
                hooks = [tf.train.StopAtStepHook(last_step=8)]
                with tf.train.MonitoredTrainingSession(
                    checkpoint_dir=str(folder), save_checkpoint_steps=2, hooks=hooks
                ) as session:
                    n_runs = 0
                    while not session.should_stop():
                        session.run(train)  # noqa: B023
                        n_runs += 1
                        if fails and n_runs == 5:  # noqa: B023
                            raise ValueError("a mistake")
                    return n_runs

            result += [attempt(program), checkpoints(folder)]
    return result


def case_quiet(folder: Path) -> Any:
    """Nothing is saved, counted or summed up."""
    _, train = counting()
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=str(folder),
        save_checkpoint_secs=None,
        save_summaries_steps=None,
        save_summaries_secs=None,
        log_step_count_steps=None,
    ) as session:
        session.run(train)
    return checkpoints(folder)


def pretrained(folder: Path, value: float) -> str:
    """Save `v` in a program of its own; return the prefix."""
    with tf.Graph().as_default():
        v = tf.get_variable("v", [], initializer=tf.constant_initializer(value))
        with tf.Session() as session:
            session.run(v.initializer)
            return str(tf.train.Saver([v]).save(session, str(folder / "pretrained")))


def case_begun_from_another_training(folder: Path) -> Any:
    """A function of the scaffold restores what was trained before, once."""
    prefix = pretrained(folder, 5.0)
    result = []
    for _ in range(2):
        with tf.Graph().as_default():
            v, train = counting()
            saver = tf.train.Saver([v])
            calls: list[str] = []

            def init(scaffold: Any, session: Any) -> None:
                calls.append("init")  # noqa: B023 - called in this turn
                saver.restore(session, prefix)  # noqa: B023

            with tf.train.MonitoredTrainingSession(
                checkpoint_dir=str(folder / "run"),
                scaffold=tf.train.Scaffold(init_fn=init),
                save_checkpoint_steps=2,
            ) as session:
                session.run(train)
                session.run(train)
                result.append([calls, session.run(v)])
    return [*result, checkpoints(folder / "run")]


def case_local_parts() -> Any:
    """Own operations for the local part, with tables as programs have them."""
    _, train = counting()
    local = tf.get_local_variable("local", [], initializer=tf.ones_initializer())
    own = tf.group(tf.local_variables_initializer(), tf.tables_initializer())
    scaffold = tf.train.Scaffold(
        init_op=tf.global_variables_initializer(),
        local_init_op=own,
        ready_op=tf.report_uninitialized_variables(),
    )
    with tf.train.MonitoredTrainingSession(scaffold=scaffold) as session:
        session.run(train)
        return [session.run(local), scaffold.local_init_op is own]


def case_ready_for_some() -> Any:
    """A ready operation that does not look at all variables."""
    v, train = counting()
    forgotten = tf.get_variable("forgotten", [], initializer=tf.ones_initializer())
    some = [
        global_variable
        for global_variable in tf.global_variables()
        if global_variable is not forgotten
    ]
    scaffold = tf.train.Scaffold(
        init_op=tf.variables_initializer(some),
        ready_op=tf.report_uninitialized_variables(some),
        ready_for_local_init_op=tf.report_uninitialized_variables(some),
    )
    with tf.train.MonitoredSession(tf.train.ChiefSessionCreator(scaffold)) as session:
        session.run(train)
        return [session.run(v), attempt(session.run, forgotten)]


X = np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 0.5], [-2.0, 1.0]], np.float32)
Y = np.array([3.0, 2.0, 1.0, -1.0], np.float32)


def model(rate: Any = 0.125) -> Any:
    """Make a linear model; return loss, train operation and global step."""
    step = tf.train.get_or_create_global_step()
    w = tf.get_variable("w", [2], initializer=tf.zeros_initializer())
    error = tf.reduce_sum(tf.constant(X) * w, 1) - tf.constant(Y)
    loss = tf.reduce_mean(tf.square(error), name="loss")
    optimizer = tf.train.GradientDescentOptimizer(rate)
    return loss, optimizer.minimize(loss, global_step=step), step


def until_stopped(session: Any, fetches: Any, most: int = 12) -> list[Any]:
    result: list[Any] = []
    while not session.should_stop() and len(result) < most:
        result.append(session.run(fetches))
    return result


def rounded(value: Any) -> Any:
    return [round(float(number), 4) for number in np.ravel(value)]


def logger(log: list[Any]) -> Any:
    """Make the logger of the first tutorials."""

    class LoggerHook(tf.train.SessionRunHook):  # type: ignore[misc]
        def begin(self) -> None:
            self.step = -1

        def before_run(self, run_context: Any) -> Any:
            self.step += 1
            return tf.train.SessionRunArgs(self.loss)

        def after_run(self, run_context: Any, run_values: Any) -> None:
            if self.step % 2 == 0:
                log.append([self.step, rounded(run_values.results)])

    return LoggerHook()


def case_losses_of_a_training() -> Any:
    loss, train, _ = model()
    hooks = [tf.train.StopAtStepHook(num_steps=4)]
    with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
        return [rounded(item) for _, item in until_stopped(session, [train, loss])][-1:]


@makes_case
def logged(make: Callable[[Any], Any], **named: Any) -> Any:
    """Return a case: the tags and values of a logger, five runs."""
    log: list[Any] = []
    loss, train, _ = model()

    def formatter(values: Any) -> str:
        tags = [getattr(value, "name", value) for value in values]
        return noted(log, tags)

    def program() -> None:
        hook = tf.train.LoggingTensorHook(make(loss), formatter=formatter, **named)
        with tf.train.MonitoredTrainingSession(hooks=[hook]) as session:
            for _ in range(5):
                session.run(train)

    return [attempt(program), log]


@makes_case
def counted_rates(every: int) -> Any:
    """Return a case: at which steps a counter tells its rate."""
    log: list[Any] = []

    class Rates(tf.train.StepCounterHook):  # type: ignore[misc]
        def _log_and_record(self, steps: Any, seconds: Any, step: Any) -> None:
            log.append([int(steps), int(step), seconds >= 0])

    _, train, _ = model()
    hooks = [tf.train.StopAtStepHook(last_step=9), Rates(every_n_steps=every)]
    with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
        until_stopped(session, train)
    return log


def counted() -> Any:
    """Make a counted of one number; return its train operation and the global step."""
    step = tf.train.get_or_create_global_step()
    v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
    optimizer = tf.train.GradientDescentOptimizer(0.5)
    return optimizer.minimize(tf.square(v - 1.0), global_step=step), step


@makes_case
def fails_once(stage: str, kind: str) -> Any:
    """Return a case: a hook of one's own raises once in this stage."""
    log: list[Any] = []
    train, step = counted()

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

    return [attempt(program), log]


@makes_case
def in_the_body(kind: str) -> Any:
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

    return [attempt(program), log]


@makes_case
def end_of_the_input_in_a_hook(stage: str) -> Any:
    """Return a case: a hook of one's own says that the input has ended."""
    log: list[Any] = []
    train, _ = counted()

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

    return [attempt(program), log]


STAGES = ("begin", "after_create_session", "before_run", "after_run", "end")


CASES: dict[str, Case] = {
    "by_a_creator": by_a_creator("monitored"),
    "by_a_creator_of_a_singular_one": by_a_creator("singular"),
    "logged_by_tags": logged(lambda loss: {"b": loss, "a": loss}, every_n_iter=2),
    "logged_by_names": logged(lambda loss: ["loss:0"], every_n_iter=2),
    "logged_by_a_name_without_number": logged(lambda _: ["loss"], every_n_iter=2),
    "logged_by_a_missing_name": logged(lambda _: ["gone:0"], every_n_iter=2),
    "logged_by_tensors": logged(lambda loss: [loss], every_n_iter=3),
    "logged_at_the_end": logged(lambda loss: {"x": loss}, at_end=True),
    "logged_by_a_tag_and_a_name": logged(lambda _: {"x": "loss"}, every_n_iter=4),
    "logged_as_a_tuple": logged(lambda loss: (loss, loss), every_n_iter=4),
    "rates_every_three_steps": counted_rates(3),
    "rates_every_step": counted_rates(1),
    "rates_every_twenty_steps": counted_rates(20),
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
