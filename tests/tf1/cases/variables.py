"""Variables in one session: initial values, assignments, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tf1.look import Case, makes_case, run, tf


def static(variable: Any) -> Any:
    return variable.name, variable.dtype.base_dtype.name, variable.shape.as_list()


MADE: dict[str, Case] = {
    "a_float": lambda: tf.Variable(1.5),
    "an_int": lambda: tf.Variable(3),
    "a_bool": lambda: tf.Variable(True),
    "text": lambda: tf.Variable("text"),
    "a_list": lambda: tf.Variable([1.0, 2.0]),
    "an_array": lambda: tf.Variable(np.ones((2, 3))),
    "a_float_with_a_dtype": lambda: tf.Variable(3, dtype=tf.float64),
    "a_tensor": lambda: tf.Variable(tf.zeros([2, 2], tf.int64)),
    "a_function": lambda: tf.Variable(lambda: tf.ones([3]), dtype=tf.float32),
    "a_name": lambda: tf.Variable(1.0, name="weight"),
    "a_name_in_a_scope": lambda: tf.Variable(1.0, name="scope/weight"),
    "an_empty_list": lambda: tf.Variable([], dtype=tf.float32),
    "nothing": lambda: tf.Variable(),
    "none": lambda: tf.Variable(None),
    "an_unknown_shape": lambda: tf.Variable(tf.placeholder(tf.float32)),
    "a_half_known_shape": lambda: tf.Variable(tf.placeholder(tf.float32, [None])),
    "an_unknown_shape_unchecked": lambda: (
        tf.Variable(
            tf.placeholder(tf.float32, name="p"), validate_shape=False
        ).initial_value.name
    ),
    "a_ragged_list": lambda: tf.Variable([[1.0], [2.0, 3.0]]),
    "an_object": lambda: tf.Variable(object()),
    "a_dtype_that_does_not_fit": lambda: tf.Variable("text", dtype=tf.float32),
    "a_fraction_as_an_int": lambda: tf.Variable(1.5, dtype=tf.int32),
    "collections_that_are_text": lambda: tf.Variable(1.0, collections="mine"),
}


@makes_case
def made(session: Any, make: Case) -> Any:
    variable = make()
    if isinstance(variable, str):
        return variable
    session.run(variable.initializer)
    return static(variable), session.run(variable)


@makes_case
def used(session: Any, change: Callable[[Any], Any], is_ready: bool) -> Any:
    """Return a case that runs a change of the variable [1, 2], and reads it."""
    variable = tf.Variable([1.0, 2.0], name="v")
    fetch = change(variable)
    if is_ready:
        session.run(variable.initializer)
    return session.run(fetch), session.run(variable)


CHANGES: dict[str, Callable[[Any], Any]] = {
    "assign": lambda v: v.assign([5.0, 6.0]),
    "assign_add": lambda v: v.assign_add([10.0, 20.0]),
    "assign_sub": lambda v: v.assign_sub([10.0, 20.0]),
    "tf_assign": lambda v: tf.assign(v, [5.0, 6.0]),
    "tf_assign_add": lambda v: tf.assign_add(v, [10.0, 20.0]),
    "tf_assign_sub": lambda v: tf.assign_sub(v, [10.0, 20.0]),
    "assign_from_itself": lambda v: v.assign(v * 2.0 + 1.0),
    "scatter_add": lambda v: tf.scatter_add(v, [1, 1], [10.0, 20.0]),
    "scatter_sub": lambda v: tf.scatter_sub(v, [0], [10.0]),
    "scatter_update": lambda v: tf.scatter_update(v, [1], [7.0]),
    "scatter_beyond_the_end": lambda v: tf.scatter_add(v, [5], [1.0]),
    "scatter_before_the_start": lambda v: tf.scatter_update(v, [-1], [1.0]),
    "read": lambda v: v.read_value(),
    "the_value": lambda v: v.value(),
    "arithmetic": lambda v: v * 2.0 - 1.0,
    "an_element": lambda v: v[1],
    "identity": lambda v: tf.identity(v),
    "is_initialized": lambda v: tf.is_variable_initialized(v),
    "the_initial_value": lambda v: v.initial_value,
    "the_initialized_value": lambda v: v.initialized_value() + 1.0,
    "assign_of_another_shape": lambda v: v.assign([1.0, 2.0, 3.0]),
    "assign_of_a_scalar": lambda v: v.assign(1.0),
    "assign_of_another_dtype": lambda v: v.assign(tf.constant([1, 2])),
    "assign_of_text": lambda v: v.assign("text"),
    "assign_add_of_another_shape": lambda v: v.assign_add([1.0, 2.0, 3.0]),
    "assign_add_of_another_dtype": lambda v: v.assign_add(tf.constant([1, 2])),
    "assign_to_a_constant": lambda v: tf.assign(tf.constant([1.0]), [2.0]),
    "assign_of_another_shape_unchecked": lambda v: tf.assign(
        v, [1.0, 2.0, 3.0], validate_shape=False
    ),
}


@makes_case
def fetched_alone(change: Callable[[Any], Any]) -> Any:
    fetch = change(tf.Variable([1.0, 2.0], name="v"))
    return run(fetch)


EMPTY = (
    *("assign", "assign_add", "assign_sub", "scatter_add", "scatter_update", "read"),
    *("arithmetic", "an_element", "is_initialized", "the_initialized_value"),
    *("the_initial_value", "assign_from_itself"),
)


def case_initializers_are_operations(session: Any) -> Any:
    tensor = tf.Variable(1.0, name="one")
    result = [
        tensor.initializer.name,
        tf.global_variables_initializer().name,
        tf.variables_initializer([tensor], name="some").name,
        tf.local_variables_initializer().name,
    ]
    return result, session.run(tf.global_variables_initializer())


def case_variables_of_one_name_get_numbers() -> Any:
    return [tf.Variable(1.0, name="v").name for _ in range(3)]


def case_get_variable_with_reuse_of_what_is_not_there_is_refused() -> Any:
    with tf.variable_scope("s", reuse=True):
        return tf.get_variable("v", [2])


CASES = {
    **{f"a_variable_from_{name}": made(make) for name, make in MADE.items()},
    **{
        f"{name}_of_two_numbers": used(change, True) for name, change in CHANGES.items()
    },
    **{f"{name}_without_a_value": fetched_alone(CHANGES[name]) for name in EMPTY},
    "a_variable_cannot_be_iterated": lambda: [item for item in tf.Variable([1.0])],
}
