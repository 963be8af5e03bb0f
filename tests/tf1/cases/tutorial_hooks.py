"""Hooks as programs write them: loggers, early stops, rates, losses that fail once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tf1.attempts import attempt, noted

X = np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 0.5], [-2.0, 1.0]], np.float32)
Y = np.array([3.0, 2.0, 1.0, -1.0], np.float32)


def model(tf: Any, rate: Any = 0.125) -> Any:
    """Make a linear model; return loss, train operation and global step."""
    step = tf.train.get_or_create_global_step()
    w = tf.get_variable("w", [2], initializer=tf.zeros_initializer())
    error = tf.reduce_sum(tf.constant(X) * w, 1) - tf.constant(Y)
    loss = tf.reduce_mean(tf.square(error), name="loss")
    optimizer = tf.train.GradientDescentOptimizer(rate)
    return loss, optimizer.minimize(loss, global_step=step), step


def until_stopped(session: Any, fetches: Any, most: int = 12) -> list[Any]:
    found: list[Any] = []
    while not session.should_stop() and len(found) < most:
        found.append(session.run(fetches))
    return found


def rounded(value: Any) -> Any:
    return [round(float(one), 4) for one in np.ravel(value)]


def logger(tf: Any, log: list[Any]) -> Any:
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


def case_the_logger_of_the_tutorials(tf: Any) -> Any:
    log: list[Any] = []
    loss, train, _ = model(tf)
    mine = logger(tf, log)
    mine.loss = loss
    hooks = [tf.train.StopAtStepHook(last_step=5), tf.train.NanTensorHook(loss), mine]
    with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
        n_runs = len(until_stopped(session, train))
    return [log, n_runs]


def case_losses_of_a_training(tf: Any) -> Any:
    loss, train, _ = model(tf)
    hooks = [tf.train.StopAtStepHook(num_steps=4)]
    with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
        return [rounded(one) for _, one in until_stopped(session, [train, loss])][-1:]


def case_a_stop_at_a_small_loss(tf: Any) -> Any:
    """A hook stops when the loss is small enough."""
    loss, train, _ = model(tf)

    class Early(tf.train.SessionRunHook):  # type: ignore[misc]
        def before_run(self, run_context: Any) -> Any:
            return tf.train.SessionRunArgs(loss)

        def after_run(self, run_context: Any, run_values: Any) -> None:
            if run_values.results < 3.0:
                run_context.request_stop()

    with tf.train.MonitoredTrainingSession(hooks=[Early()]) as session:
        return len(until_stopped(session, train)) < 12


def case_a_rate_by_the_step(tf: Any) -> Any:
    """A hook reads the step and feeds the rate of the next run."""
    rate = tf.placeholder_with_default(0.5, [])
    step = tf.train.get_or_create_global_step()
    v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
    train = tf.train.GradientDescentOptimizer(rate).minimize(v, global_step=step)

    class Setter(tf.train.SessionRunHook):  # type: ignore[misc]
        def begin(self) -> None:
            self.rate = 0.5

        def before_run(self, run_context: Any) -> Any:
            return tf.train.SessionRunArgs(step, feed_dict={rate: self.rate})

        def after_run(self, run_context: Any, run_values: Any) -> None:
            self.rate = 0.25 if run_context.session.run(step) >= 2 else 0.5

    found = []
    with tf.train.MonitoredTrainingSession(hooks=[Setter()]) as session:
        for _ in range(4):
            session.run(train)
            found.append(session.run(v))
    return found


def case_a_timer_of_ones_own(tf: Any) -> Any:
    """A hook of one's own with a timer."""
    log: list[Any] = []
    _, train, step = model(tf)

    class Mine(tf.train.SessionRunHook):  # type: ignore[misc]
        def __init__(self) -> None:
            self.timer = tf.train.SecondOrStepTimer(every_steps=3)

        def begin(self) -> None:
            self.iterations = 0

        def before_run(self, run_context: Any) -> Any:
            self.is_due = self.timer.should_trigger_for_step(self.iterations)
            return tf.train.SessionRunArgs({"step": step}) if self.is_due else None

        def after_run(self, run_context: Any, run_values: Any) -> None:
            log.append(run_values.results is not None)
            if self.is_due:
                self.timer.update_last_triggered_step(self.iterations)
            self.iterations += 1

    with tf.train.MonitoredSession(hooks=[Mine()]) as session:
        for _ in range(7):
            session.run(train)
    return log


def case_final_values(tf: Any) -> Any:
    loss, train, step = model(tf)
    hook = tf.train.FinalOpsHook({"step": step, "loss": loss})
    hooks = [tf.train.StopAtStepHook(last_step=3), hook]
    with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
        until_stopped(session, train)
        before = hook.final_ops_values
    found = hook.final_ops_values
    return [before, sorted(found), found["step"], rounded(found["loss"])]


def logged(make: Callable[[Any, Any], Any], **named: Any) -> Callable[[Any], Any]:
    """Return a case: the tags and values of a logger, five runs."""

    def case(tf: Any) -> Any:
        log: list[Any] = []
        loss, train, _ = model(tf)

        def formatter(values: Any) -> str:
            tags = [getattr(one, "name", one) for one in values]
            return noted(log, tags)

        def program() -> None:
            hook = tf.train.LoggingTensorHook(
                make(tf, loss), formatter=formatter, **named
            )
            with tf.train.MonitoredTrainingSession(hooks=[hook]) as session:
                for _ in range(5):
                    session.run(train)

        return [attempt(tf, program), log]

    return case


def counted_rates(every: int) -> Callable[[Any], Any]:
    """Return a case: at which steps a counter tells its rate."""

    def case(tf: Any) -> Any:
        log: list[Any] = []

        class Rates(tf.train.StepCounterHook):  # type: ignore[misc]
            def _log_and_record(self, steps: Any, seconds: Any, step: Any) -> None:
                log.append([int(steps), int(step), seconds >= 0])

        _, train, _ = model(tf)
        hooks = [tf.train.StopAtStepHook(last_step=9), Rates(every_n_steps=every)]
        with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
            until_stopped(session, train)
        return log

    return case


def case_what_a_hook_is_told(tf: Any) -> Any:
    """What a hook sees of the caller's fetches, and what it gets for its own."""
    log: list[Any] = []
    loss, train, step = model(tf)

    class Asking(tf.train.SessionRunHook):  # type: ignore[misc]
        def before_run(self, run_context: Any) -> Any:
            asked = run_context.original_args
            log.append([asked.fetches is train, asked.feed_dict, asked.options])
            log.append(run_context.stop_requested)
            wanted = {"both": [step, {"loss": loss}], "none": ()}
            return tf.train.SessionRunArgs(wanted)

        def after_run(self, run_context: Any, run_values: Any) -> None:
            found = run_values.results
            log.append([sorted(found), type(found["both"]).__name__, found["none"]])
            log.append(rounded(found["both"][1]["loss"]))
            log.append(run_values.run_metadata is not None)

    with tf.train.MonitoredSession(hooks=[Asking()]) as session:
        log.append(session.run(train))
    return log


def case_a_hook_in_two_sessions(tf: Any) -> Any:
    """The same hook, one session after the other, in one graph."""
    log: list[Any] = []
    _, train, step = model(tf)

    class Noting(tf.train.SessionRunHook):  # type: ignore[misc]
        def begin(self) -> None:
            log.append("begin")

        def end(self, session: Any) -> None:
            log.append(["end", session.run(step)])

    hook = Noting()
    for kind in (tf.train.MonitoredSession, tf.train.SingularMonitoredSession):
        with kind(hooks=[hook]) as session:
            session.run(train)
            session.run(train)
    return log


CASES: dict[str, Callable[[Any], Any]] = {
    "logged_by_tags": logged(lambda tf, loss: {"b": loss, "a": loss}, every_n_iter=2),
    "logged_by_names": logged(lambda tf, loss: ["loss:0"], every_n_iter=2),
    "logged_by_a_name_without_number": logged(lambda tf, _: ["loss"], every_n_iter=2),
    "logged_by_a_missing_name": logged(lambda tf, _: ["gone:0"], every_n_iter=2),
    "logged_by_tensors": logged(lambda tf, loss: [loss], every_n_iter=3),
    "logged_at_the_end": logged(lambda tf, loss: {"x": loss}, at_end=True),
    "logged_in_runs_and_at_the_end": logged(
        lambda tf, loss: {"x": loss}, every_n_iter=2, at_end=True
    ),
    "logged_by_a_tag_and_a_name": logged(lambda tf, _: {"x": "loss"}, every_n_iter=4),
    "logged_as_a_tuple": logged(lambda tf, loss: (loss, loss), every_n_iter=4),
    "rates_every_three_steps": counted_rates(3),
    "rates_every_step": counted_rates(1),
    "rates_every_twenty_steps": counted_rates(20),
}
