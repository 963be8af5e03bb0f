"""Misuse of optimizers, and the gradients that are passed over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tf1.look import initialized, run


def descent(tf: Any) -> Any:
    return tf.train.GradientDescentOptimizer(0.1)


def case_minimize_without_variables(tf: Any) -> Any:
    return descent(tf).minimize(tf.constant(1.0))


def case_minimize_without_trainable_variables(tf: Any) -> Any:
    variable = tf.Variable([1.0], trainable=False)
    return descent(tf).minimize(tf.reduce_sum(variable))


def case_minimize_of_an_unconnected_loss(tf: Any) -> Any:
    tf.Variable([1.0])
    return descent(tf).minimize(tf.constant(1.0))


def case_minimize_of_an_integer_loss(tf: Any) -> Any:
    variable = tf.Variable([1, 2])
    return descent(tf).minimize(tf.reduce_sum(variable))


def case_minimize_of_a_loss_cast_to_integers(tf: Any) -> Any:
    variable = tf.Variable([1.0])
    return descent(tf).minimize(tf.cast(variable, tf.int32))


def applied(make: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    def case(tf: Any) -> Any:
        variable = tf.Variable([1.0, 2.0])
        return descent(tf).apply_gradients(make(tf, variable)).name

    return case


def case_minimize_with_a_bad_gate(tf: Any) -> Any:
    variable = tf.Variable([1.0])
    return descent(tf).minimize(tf.reduce_sum(variable), gate_gradients=7)


def case_apply_gradients_passes_over_none(tf: Any) -> Any:
    one, other = tf.Variable([1.0]), tf.Variable([2.0])
    train = descent(tf).apply_gradients([(None, one), (tf.constant([10.0]), other)])
    with initialized(tf) as session:
        session.run(train)
        return session.run([one, other])


def case_apply_gradients_takes_a_generator(tf: Any) -> Any:
    variable = tf.Variable([1.0, 2.0])
    pairs = (one for one in [(tf.constant([10.0, 20.0]), variable)])
    train = descent(tf).apply_gradients(pairs)
    with tf.Session() as session:
        session.run(variable.initializer)
        session.run(train)
        return session.run(variable)


def case_apply_gradients_sums_repeated_rows(tf: Any) -> Any:
    variable = tf.Variable([[1.0], [2.0], [3.0]])
    gradient = tf.IndexedSlices(
        tf.constant([[1.0], [10.0], [100.0]]), tf.constant([2, 0, 2])
    )
    train = descent(tf).apply_gradients([(gradient, variable)])
    with tf.Session() as session:
        session.run(variable.initializer)
        session.run(train)
        return session.run(variable)


def case_apply_gradients_to_a_row_that_is_not_there(tf: Any) -> Any:
    variable = tf.Variable([[1.0], [2.0]])
    gradient = tf.IndexedSlices(tf.constant([[1.0]]), tf.constant([5]))
    train = descent(tf).apply_gradients([(gradient, variable)])
    with tf.Session() as session:
        session.run(variable.initializer)
        session.run(train)
        return session.run(variable)


def case_train_op_of_an_uninitialised_variable(tf: Any) -> Any:
    variable = tf.Variable([1.0])
    train = descent(tf).minimize(tf.reduce_sum(variable))
    return run(tf, train)


def case_train_op_of_an_uninitialised_slot(tf: Any) -> Any:
    variable = tf.Variable([1.0])
    optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
    train = optimizer.minimize(tf.reduce_sum(variable))
    with tf.Session() as session:
        session.run(variable.initializer)
        return session.run(train)


def case_minimize_may_count_in_floats(tf: Any) -> Any:
    variable, step = tf.Variable([1.0]), tf.Variable(0.0, trainable=False)
    train = descent(tf).minimize(tf.reduce_sum(variable), global_step=step)
    with initialized(tf) as session:
        session.run(train)
        return session.run(step)


def case_compute_gradients_by_a_list(tf: Any) -> Any:
    variable = tf.Variable([1.0])
    optimizer = descent(tf)
    return len(optimizer.compute_gradients(tf.reduce_sum(variable), [variable]))


def case_compute_gradients_by_a_constant(tf: Any) -> Any:
    value = tf.constant([1.0])
    return len(descent(tf).compute_gradients(tf.reduce_sum(value), [value]))


CASES: dict[str, Callable[[Any], Any]] = {
    "apply_gradients_of_nothing": applied(lambda tf, v: []),
    "apply_gradients_of_none_alone": applied(lambda tf, v: [(None, v)]),
    "apply_gradients_of_a_list": applied(lambda tf, v: [([1.0, 2.0], v)]),
    "apply_gradients_of_an_array": applied(lambda tf, v: [(np.ones(2, np.float32), v)]),
    "apply_gradients_of_a_word": applied(lambda tf, v: [("word", v)]),
    "apply_gradients_of_another_dtype": applied(
        lambda tf, v: [(tf.constant([1, 2]), v)]
    ),
    "apply_gradients_of_another_shape": applied(
        lambda tf, v: [(tf.constant([1.0, 2.0, 3.0]), v)]
    ),
    "apply_gradients_to_a_tensor": applied(
        lambda tf, v: [(tf.constant([1.0]), tf.constant([1.0]))]
    ),
    "apply_gradients_of_an_object": applied(lambda tf, v: [(object(), v)]),
    "optimizer_with_an_empty_name": lambda tf: tf.train.Optimizer(False, ""),
    "descent_with_an_empty_name": lambda tf: tf.train.GradientDescentOptimizer(
        0.1, name=""
    ),
    "adagrad_from_zero": lambda tf: tf.train.AdagradOptimizer(
        0.1, initial_accumulator_value=0.0
    ),
    "adagrad_from_below_zero": lambda tf: tf.train.AdagradOptimizer(
        0.1, initial_accumulator_value=-1.0
    ),
    "momentum_without_a_momentum": lambda tf: tf.train.MomentumOptimizer(0.1),
}
