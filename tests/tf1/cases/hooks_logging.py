"""Hooks that tell values: when, which, in which order, and of what they are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.tf1.attempts import attempt, noted
from tests.tf1.look import Case, makes_case, tf


@makes_case
def logged(make: Callable[[Any], Any], n_runs: int = 5, **named: Any) -> Any:
    """Return a case: what a formatter was given, and at which run."""
    log: list[Any] = []
    v = tf.Variable(0, name="v")
    add = v.assign_add(1)
    tensors = make(v)

    def formatter(values: Any) -> str:
        log.append([[str(getattr(k, "name", k)), values[k]] for k in values])
        return "told"

    hook = tf.train.LoggingTensorHook(tensors, formatter=formatter, **named)
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        for index in range(n_runs):
            log.append(index)
            session.run(add)
    return log


def values(v: Any) -> Any:
    """Return what is not raced by the update: a constant."""
    return {"c": tf.constant(5.0, name="c")}


def keys_of_a_dict(v: Any) -> Any:
    return {"z": tf.constant(1), "a": tf.constant([1.0, 2.0]), "m": tf.constant("x")}


def list_of_tensors(v: Any) -> Any:
    return [tf.constant(1, name="z"), tf.constant(2, name="a")]


def list_of_names(v: Any) -> Any:
    tf.constant(1, name="z")
    tf.constant(2, name="a")
    return ["z:0", "a:0"]


def names_in_a_dict(v: Any) -> Any:
    tf.constant(3, name="z")
    return {"key": "z:0"}


def case_in_two_sessions() -> Any:
    """In a second session it counts from its first run again."""
    log: list[Any] = []
    c = tf.constant(1.0)
    hook = tf.train.LoggingTensorHook(
        {"c": c}, every_n_iter=2, formatter=lambda _: noted(log, "told")
    )
    for _ in range(2):
        log.append("session")
        with tf.train.MonitoredSession(hooks=[hook]) as session:
            for _ in range(3):
                session.run(c)
    return log


def lines(n_runs: int, **named: Any) -> Case:
    """Return a case: the lines that are logged, without the seconds."""

    def case() -> Any:
        log: list[str] = []
        c, d = tf.constant(1.5), tf.constant(2)
        hook = tf.train.LoggingTensorHook(
            {"d": d, "c": c},
            formatter=lambda values: noted(log, line(values)),
            **named,
        )
        with tf.train.MonitoredSession(hooks=[hook]) as session:
            for _ in range(n_runs):
                session.run(c)
        return log

    def line(values: Any) -> str:
        return ", ".join(f"{key}={float(values[key])}" for key in sorted(values))

    return case


@makes_case
def nan(value: float, **named: Any) -> Any:
    """Return a case: a loss is watched for anything that is not a number."""
    holder = tf.placeholder(tf.float32, [])
    loss = holder * 1.0
    hook = tf.train.NanTensorHook(loss, **named)
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        result = [session.run(loss, {holder: 1.0}), session.should_stop()]
        result += [attempt(session.run, loss, {holder: value})]
        return [*result, session.should_stop()]


def case_a_loss_of_nan_by_name() -> Any:
    loss = tf.constant(float("nan"), name="loss")
    hook = tf.train.NanTensorHook("loss:0", fail_on_nan_loss=False)
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        session.run(loss)
        return session.should_stop()


def made(**named: Any) -> Case:
    return lambda: type(tf.train.LoggingTensorHook([tf.constant(1)], **named)).__name__


CASES: dict[str, Case] = {
    "at_every_run": logged(values, every_n_iter=1),
    "at_runs_two_and_a_half_apart": logged(values, 8, every_n_iter=2.5),
    "at_every_third_run": logged(values, 8, every_n_iter=3),
    "at_every_third_run_and_the_end": logged(values, 5, every_n_iter=3, at_end=True),
    "at_the_end_only": logged(values, 3, at_end=True),
    "at_the_end_just_told": logged(values, 4, every_n_iter=3, at_end=True),
    "at_the_end_without_a_run": logged(values, 0, every_n_iter=3, at_end=True),
    "every_many_seconds": logged(values, 4, every_n_secs=1000),
    "every_instant": logged(values, 3, every_n_secs=0),
    "of_a_dict": logged(keys_of_a_dict, 1, every_n_iter=1),
    "of_a_list": logged(list_of_tensors, 1, every_n_iter=1),
    "of_names": logged(list_of_names, 1, every_n_iter=1),
    "of_names_in_a_dict": logged(names_in_a_dict, 1, every_n_iter=1),
    "of_a_missing_name": logged(lambda v: ["nowhere:0"], 1, every_n_iter=1),
    "of_a_number": logged(lambda v: [7], 1, every_n_iter=1),
    "of_an_operation": logged(lambda v: [v.initializer], 1, every_n_iter=1),
    "of_a_variable": logged(lambda v: {"w": tf.Variable(4)}, 1, every_n_iter=1),
    "lines_of_two": lines(3, every_n_iter=2),
    "a_loss_of_nan": nan(float("nan")),
    "a_loss_of_nan_that_stops": nan(float("nan"), fail_on_nan_loss=False),
    "a_loss_of_infinity": nan(float("inf")),
    "a_loss_of_less_than_all": nan(float("-inf"), fail_on_nan_loss=False),
    "a_loss_of_a_number": nan(2.0),
    "made_of_nothing": made(),
    "made_of_both": made(every_n_iter=1, every_n_secs=1.0),
    "made_of_both_and_the_end": made(every_n_iter=1, every_n_secs=1.0, at_end=True),
    "made_of_no_runs": made(every_n_iter=0),
    "made_of_less_than_no_runs": made(every_n_iter=-2),
    "made_of_runs": made(every_n_iter=4),
    "made_of_seconds": made(every_n_secs=1.5),
    "made_of_the_end": made(at_end=True),
}
