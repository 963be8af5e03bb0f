"""Small things that programs rely on: names, refusals, spellings of arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tf1.look import run, started, static, told


def operations(tf: Any) -> Any:
    return [[op.name, op.type] for op in tf.get_default_graph().get_operations()]


def case_exclusive_or_is_written_with_three_others(tf: Any) -> Any:
    truth = tf.constant([True, False])
    tf.logical_xor(truth, truth)
    return [operations(tf), operations(tf) and (truth ^ truth).name]


def case_exclusive_or_by_name(tf: Any) -> Any:
    return told(tf, tf.logical_xor([True, False], [True, True], name="either"))


def case_truth_of_a_number_and_none(tf: Any) -> Any:
    return tf.logical_and(tf.constant([1.0]), None)


def case_old_division_of_two_dtypes(tf: Any) -> Any:
    return tf.div(tf.constant([1.0]), tf.constant([1]))


def case_softsign_refuses_whole_numbers(tf: Any) -> Any:
    return tf.nn.softsign(tf.constant([1, 2]))


def case_places_of_texts_are_refused(tf: Any) -> Any:
    return tf.where(tf.constant(["a", ""]))


def case_square_of_unit_size_is_called(tf: Any) -> Any:
    return [tf.eye(3).name, tf.constant(1.0).name]


def case_variable_with_an_empty_name(tf: Any) -> Any:
    return tf.Variable(1.0, name="").name


def case_constant_named_by_a_number(tf: Any) -> Any:
    return tf.constant(1.0, name=3)


def case_dependency_on_a_name(tf: Any) -> Any:
    tf.constant(1.0, name="a")
    with tf.control_dependencies(["a"]):
        return [one.name for one in tf.no_op().control_inputs]


def case_dependency_on_an_unknown_name(tf: Any) -> Any:
    with tf.control_dependencies(["a"]):
        return tf.no_op().name


def case_partial_run_of_nothing(tf: Any) -> Any:
    tf.constant(1.0)
    return tf.Session().partial_run_setup([])


def case_session_without_target(tf: Any) -> Any:
    return [tf.Session(None).sess_str, tf.Session("").sess_str]


def case_initializer_by_its_oldest_name(tf: Any) -> Any:
    made = tf.Variable(1.0, name="v")
    first = tf.initialize_all_variables().name
    return [first, tf.initialize_variables([made]).name]


def case_variable_says_how_copies_are_kept(tf: Any) -> Any:
    made = tf.Variable(1.0)
    return [made.synchronization.name, made.aggregation.name]


def case_variable_is_told_how_copies_are_kept(tf: Any) -> Any:
    made = tf.get_variable(
        "v",
        [2],
        synchronization=tf.VariableSynchronization.AUTO,
        aggregation=tf.VariableAggregation.NONE,
    )
    return made.name


def case_rows_of_a_variable_are_changed_by_name(tf: Any) -> Any:
    made = tf.Variable([1.0, 2.0], name="v")
    rows = tf.IndexedSlices(tf.constant([5.0]), tf.constant([1]))
    found = made.scatter_add(rows, name="more")
    return [found.name, started(tf, found)]


def case_rows_that_are_none_are_refused(tf: Any) -> Any:
    return tf.Variable([1.0]).scatter_add(3)


def case_value_or_initial_value_is_called(tf: Any) -> Any:
    made = tf.Variable(1.0, name="v")
    return [made.initialized_value().name, made.initialized_value().name]


def case_variable_in_parts_as_one_tensor(tf: Any) -> Any:
    with tf.variable_scope("p", partitioner=tf.fixed_size_partitioner(3)):
        made = tf.get_variable("w", [7, 2], initializer=tf.ones_initializer())
    whole = tf.convert_to_tensor(made)
    return [static(whole), started(tf, tf.reduce_sum(whole))]


def case_feed_of_an_unknown_name_to_a_partial_run(tf: Any) -> Any:
    tf.constant(1.0)
    try:
        tf.Session().partial_run_setup(["Const:0"], ["nobody"])
    except (AttributeError, ValueError):  # the original stumbles over its own error
        return "refused"
    return "accepted"


def case_numbers_of_numpy_keep_their_place(tf: Any) -> Any:
    left = np.float32(2.0) * tf.constant([3.0])
    return [left.name, left.op.type, run(tf, left)]
