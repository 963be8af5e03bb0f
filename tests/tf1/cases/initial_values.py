"""Initializers: their defaults, what they are called with, and what they write."""

from __future__ import annotations

from typing import Any

from tests.tf1.look import makes_case, started, static

DEFAULTS = (
    *("zeros_initializer", "ones_initializer", "constant_initializer"),
    *("random_uniform_initializer", "random_normal_initializer"),
    *("truncated_normal_initializer", "variance_scaling_initializer"),
    *("glorot_uniform_initializer", "glorot_normal_initializer"),
)


def operations(tf: Any) -> Any:
    return [[op.name, op.type] for op in tf.get_default_graph().get_operations()]


def defaults(name: str) -> Any:
    return lambda tf: sorted(getattr(tf, name)().get_config().items(), key=str)


def of_package(name: str) -> Any:
    return lambda tf: sorted(getattr(tf.initializers, name)().get_config().items())


CASES = {f"defaults_of_{name}": defaults(name) for name in DEFAULTS}
CASES.update(
    {
        f"defaults_of_{name}_in_the_package": of_package(name)
        for name in ("random_uniform", "random_normal", "truncated_normal")
    }
)


def case_uniform_whole_numbers_need_an_end(tf: Any) -> Any:
    return static(tf.random_uniform_initializer(dtype=tf.int32)([3]))


def case_function_without_arguments_makes_the_value(tf: Any) -> Any:
    made = tf.get_variable("w", initializer=lambda: tf.ones([2]))
    return [static(made.value()), started(tf, made)]


def case_function_of_a_shape_needs_one(tf: Any) -> Any:
    return tf.get_variable("w", initializer=lambda shape, dtype: tf.ones(shape))


def case_many_zeros_are_filled_in(tf: Any) -> Any:
    tf.zeros([100, 100])
    return operations(tf)


@makes_case
def slots(tf: Any, make: Any) -> Any:
    made = tf.Variable([1.0, 2.0], name="w")
    make(tf).minimize(tf.reduce_sum(made))
    return [name for name, _ in operations(tf) if "Initializer" in name]


CASES.update(
    {
        "slots_of_adagrad_begin_at": slots(lambda tf: tf.train.AdagradOptimizer(0.1)),
        "slots_of_adam_begin_at": slots(lambda tf: tf.train.AdamOptimizer(0.1)),
        "slots_of_rmsprop_begin_at": slots(lambda tf: tf.train.RMSPropOptimizer(0.1)),
        "slots_of_momentum_begin_at": slots(
            lambda tf: tf.train.MomentumOptimizer(0.1, 0.9)
        ),
    }
)
