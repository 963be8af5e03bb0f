"""Activations: values at both ends, dtypes, names, errors, gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tf1.look import Case, facts, makes_case, run, static, tf

NAMES = [
    *("relu", "elu", "leaky_relu", "sigmoid", "tanh"),
    *("softplus", "softmax", "log_softmax", "l2_loss"),
]
VALUES = [-3.0, -0.5, 0.0, 0.5, 3.0]

INPUTS: dict[str, Case] = {
    "a_list": lambda: VALUES,
    "a_float64_matrix": lambda: tf.constant([VALUES, VALUES[::-1]], tf.float64),
    "large_numbers": lambda: [-1000.0, 1000.0, 999.0],
    "integers": lambda: tf.constant([1, 2]),
    "strings": lambda: tf.constant(["a"]),
    "none": lambda: None,
}


def applied(name: str, kind: str) -> Case:
    return lambda: facts(getattr(tf.nn, name)(INPUTS[kind]()))


def case_activations_take_a_name() -> Any:
    return [getattr(tf.nn, name)([[1.0, 2.0]], name="chosen").name for name in NAMES]


@makes_case
def slope(name: str) -> Any:
    values = tf.constant(VALUES)
    weights = tf.constant([1.0, 2.0, 3.0, 4.0, 5.0])
    result = getattr(tf.nn, name)(values)
    return run(tf.gradients(result * weights, values))


def case_activations_of_a_fed_batch() -> Any:
    batch = tf.placeholder(tf.float32, [None, 3])
    return [static(getattr(tf.nn, name)(batch)) for name in NAMES]


def dropped(**options: Any) -> Any:
    values = run(tf.nn.dropout(tf.ones([2000]), seed=1, **options))
    return [
        sorted({round(float(value), 4) for value in values}),
        abs(values.mean() - 1) < 0.1,
    ]


def case_dropout_of_whole_rows() -> Any:
    kept = tf.nn.dropout(tf.ones([50, 4]), rate=0.5, noise_shape=[50, 1], seed=2)
    values = run(kept)
    return [bool((values == values[:, :1]).all()), len(np.unique(values))]


def case_dropout_differs_from_run_to_run(session: Any) -> Any:
    kept = tf.nn.dropout(tf.ones([200]), rate=0.5)
    return bool(np.array_equal(session.run(kept), session.run(kept)))


def case_dropout_takes_a_rate_that_is_fed() -> Any:
    rate = tf.placeholder(tf.float32, [])
    kept = tf.nn.dropout(tf.ones([8]), rate=rate)
    return [static(kept), run(kept, {rate: 0.0})]


CASES: dict[str, Case] = {
    **{f"{name}_of_{kind}": applied(name, kind) for name in NAMES for kind in INPUTS},
    **{f"{name}_has_a_gradient": slope(name) for name in NAMES},
    "dropout_keeps_by_probability": lambda: dropped(keep_prob=0.8),
    "dropout_drops_by_rate": lambda: dropped(rate=0.2),
    "dropout_without_a_rate_is_refused": lambda: tf.nn.dropout([1.0]),
    "dropout_refuses_a_rate_above_one": lambda: tf.nn.dropout([1.0], rate=1.5),
    "dropout_refuses_a_negative_rate": lambda: tf.nn.dropout([1.0], rate=-0.1),
    "dropout_refuses_integers": lambda: tf.nn.dropout(tf.constant([1, 2]), rate=0.5),
}

FACTS = {
    "leaky_relu_takes_a_slope": lambda: tf.nn.leaky_relu([-2.0, 2.0], alpha=0.5),
    "log_softmax_takes_an_axis": lambda: tf.nn.log_softmax(
        [[1.0, 2.0], [3.0, 9.0]], axis=0
    ),
}

RUNS = {
    "softmax_of_a_scalar_is_refused": lambda: tf.nn.softmax(1.0),
    "softmax_of_a_bad_axis_is_refused": lambda: tf.nn.softmax([[1.0]], axis=2),
    "dropout_keeps_everything": lambda: tf.nn.dropout([1.0, 2.0], keep_prob=1.0),
}
