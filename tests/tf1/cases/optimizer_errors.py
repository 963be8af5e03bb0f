"""Misuse of optimizers, and the gradients that are passed over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tf1.look import makes_case


def descent(tf: Any) -> Any:
    return tf.train.GradientDescentOptimizer(0.1)


def case_minimize_of_an_unconnected_loss(tf: Any) -> Any:
    tf.Variable([1.0])
    return descent(tf).minimize(tf.constant(1.0))


@makes_case
def applied(tf: Any, make: Callable[[Any, Any], Any]) -> Any:
    variable = tf.Variable([1.0, 2.0])
    return descent(tf).apply_gradients(make(tf, variable)).name


def case_minimize_with_a_bad_gate(tf: Any) -> Any:
    variable = tf.Variable([1.0])
    return descent(tf).minimize(tf.reduce_sum(variable), gate_gradients=7)


def case_compute_gradients_by_a_constant(tf: Any) -> Any:
    value = tf.constant([1.0])
    return len(descent(tf).compute_gradients(tf.reduce_sum(value), [value]))


CASES: dict[str, Callable[[Any], Any]] = {
    "apply_gradients_of_nothing": applied(lambda tf, v: []),
    "apply_gradients_of_none_alone": applied(lambda tf, v: [(None, v)]),
    "apply_gradients_of_a_list": applied(lambda tf, v: [([1.0, 2.0], v)]),
    "apply_gradients_of_an_array": applied(lambda tf, v: [(np.ones(2, np.float32), v)]),
    "apply_gradients_of_a_word": applied(lambda tf, v: [("word", v)]),
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
    "adagrad_from_below_zero": lambda tf: tf.train.AdagradOptimizer(
        0.1, initial_accumulator_value=-1.0
    ),
    "momentum_without_a_momentum": lambda tf: tf.train.MomentumOptimizer(0.1),
    "minimize_without_variables": lambda tf: descent(tf).minimize(tf.constant(1.0)),
}
