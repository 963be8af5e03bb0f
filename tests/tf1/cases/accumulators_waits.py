"""Accumulators of dense gradients: takes that wait, and for how long."""

from __future__ import annotations

from typing import Any

from tests.tf1.attempts import Later, attempt


def scalar(tf: Any) -> Any:
    return tf.ConditionalAccumulator(tf.float32, shape=[])


def case_a_small_take_waits_behind_a_large_one(tf: Any) -> Any:
    a = scalar(tf)
    put, large, small = a.apply_grad(2.0, 9), a.take_grad(2), a.take_grad(1)
    with tf.Session() as session:
        first = Later(tf, session.run, large)
        first.is_waiting()
        second = Later(tf, session.run, small)
        second.is_waiting()
        session.run(put)
        result = [first.is_waiting(), second.is_waiting(0.01)]
        session.run(put)
        result += [first.result(), second.is_waiting()]
        session.run(put)
        return [*result, second.result()]


def case_a_take_that_waits_too_long(tf: Any) -> Any:
    a = scalar(tf)
    take, options = a.take_grad(2), tf.RunOptions(timeout_in_ms=50)
    with tf.Session() as session:
        session.run(a.apply_grad(2.0))
        result = [attempt(tf, session.run, take, options=options)]
        session.run(a.apply_grad(4.0))
        return [*result, attempt(tf, session.run, take)]
