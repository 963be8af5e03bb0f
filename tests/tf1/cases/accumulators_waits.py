"""Accumulators of dense gradients: takes that wait, and for how long."""

from __future__ import annotations

from typing import Any

from tests.tf1.attempts import Later, attempt


def scalar(tf: Any) -> Any:
    return tf.ConditionalAccumulator(tf.float32, shape=[])


def case_a_take_waits(tf: Any) -> Any:
    """A take waits until so many are there."""
    a = scalar(tf)
    put, take = a.apply_grad(2.0), a.take_grad(2)
    with tf.Session() as session:
        later = Later(tf, session.run, take)
        session.run(put)
        waits = later.is_waiting()
        session.run(put)
        return waits, later.result(), session.run(a.num_accumulated())


def case_takes_are_served_in_order(tf: Any) -> Any:
    """The take that came first is served first."""
    a = scalar(tf)
    holder = tf.placeholder(tf.float32, [])
    put = a.apply_grad(holder, 9)
    one, two = a.take_grad(1), a.take_grad(1)
    with tf.Session() as session:
        first = Later(tf, session.run, one)
        found = [first.is_waiting()]
        second = Later(tf, session.run, two)
        found += [second.is_waiting()]
        session.run(put, {holder: 1.0})
        found += [first.result(), second.is_waiting()]
        session.run(put, {holder: 2.0})
        return [*found, second.result()]


def case_a_small_take_waits_behind_a_large_one(tf: Any) -> Any:
    a = scalar(tf)
    put, large, small = a.apply_grad(2.0, 9), a.take_grad(2), a.take_grad(1)
    with tf.Session() as session:
        first = Later(tf, session.run, large)
        first.is_waiting()
        second = Later(tf, session.run, small)
        second.is_waiting()
        session.run(put)
        found = [first.is_waiting(), second.is_waiting(0.01)]
        session.run(put)
        found += [first.result(), second.is_waiting()]
        session.run(put)
        return [*found, second.result()]


def case_a_take_that_waits_too_long(tf: Any) -> Any:
    a = scalar(tf)
    take, options = a.take_grad(2), tf.RunOptions(timeout_in_ms=50)
    with tf.Session() as session:
        session.run(a.apply_grad(2.0))
        found = [attempt(tf, session.run, take, options=options)]
        session.run(a.apply_grad(4.0))
        return [*found, attempt(tf, session.run, take)]


def case_a_take_that_waits_when_the_session_is_closed(tf: Any) -> Any:
    a = scalar(tf)
    session = tf.Session()
    later = Later(tf, session.run, a.take_grad(1))
    waits = later.is_waiting()
    session.close()
    return waits, later.result()
