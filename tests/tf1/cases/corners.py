"""Small things that programs rely on: names, refusals, spellings of arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tf1.look import facts, names_of, run, started, static, tf


def case_exclusive_or_by_name() -> Any:
    return facts(tf.logical_xor([True, False], [True, True], name="either"))


def case_dependency_on_a_name() -> Any:
    tf.constant(1.0, name="a")
    with tf.control_dependencies(["a"]):
        return names_of(tf.no_op().control_inputs)


def case_dependency_on_an_unknown_name() -> Any:
    with tf.control_dependencies(["a"]):
        return tf.no_op().name


def case_partial_run_of_nothing() -> Any:
    tf.constant(1.0)
    return tf.Session().partial_run_setup([])


def case_session_without_target() -> Any:
    return [tf.Session(None).sess_str, tf.Session("").sess_str]


def case_initializer_by_its_oldest_name() -> Any:
    made = tf.Variable(1.0, name="v")
    first = tf.initialize_all_variables().name
    return [first, tf.initialize_variables([made]).name]


def case_variable_is_told_how_copies_are_kept() -> Any:
    made = tf.get_variable(
        "v",
        [2],
        synchronization=tf.VariableSynchronization.AUTO,
        aggregation=tf.VariableAggregation.NONE,
    )
    return made.name


def case_rows_of_a_variable_are_changed_by_name() -> Any:
    made = tf.Variable([1.0, 2.0], name="v")
    rows = tf.IndexedSlices(tf.constant([5.0]), tf.constant([1]))
    result = made.scatter_add(rows, name="more")
    return [result.name, started(result)]


def case_value_or_initial_value_is_called() -> Any:
    made = tf.Variable(1.0, name="v")
    return [made.initialized_value().name, made.initialized_value().name]


def case_feed_of_an_unknown_name_to_a_partial_run() -> Any:
    tf.constant(1.0)
    try:
        tf.Session().partial_run_setup(["Const:0"], ["nobody"])
    except (AttributeError, ValueError):  # the original stumbles over its own error
        return "refused"
    return "accepted"


def case_numbers_of_numpy_keep_their_place() -> Any:
    left = np.float32(2.0) * tf.constant([3.0])
    return [left.name, left.op.type, run(left)]


def case_shapes_that_are_equal() -> Any:
    expected, part = tf.TensorShape([2, 3]), tf.TensorShape([None, 3])
    again, x = tf.TensorShape([None, 3]), tf.placeholder(tf.float32, [None, 3])
    return [
        [expected == tf.TensorShape([2, 3]), expected == [2, 3], expected != [2, None]],
        [part == again, part != again, part == part, x.shape == x.shape],
        [x.shape == x.get_shape(), tf.identity(x).shape == x.shape],
        tf.TensorShape(None) == part,
    ]


def case_shape_of_unknown_rank_is_not_unequal() -> Any:
    return tf.TensorShape([2]) != tf.TensorShape(None)


def case_scope_of_a_slash() -> Any:
    with tf.name_scope("a"), tf.name_scope("/") as scope:
        return [scope, tf.constant(1).name]


def case_default_name_of_a_scope_is_a_text() -> Any:
    with tf.name_scope("a", [tf.constant(1)]):
        return None


def case_function_without_results_or_state() -> Any:
    return [tf.py_func(lambda: None, [], [], stateful=False)]


def case_sizes_in_a_stack_with_an_unknown_one() -> Any:
    n, x = tf.placeholder(tf.int32), tf.placeholder(tf.float32)
    return [
        static(tf.pad(tf.zeros([4, 4]), [[1, 2], n]))["shape"],
        static(tf.pad(tf.zeros([4, 4]), [[n, 0], [1, 2]]))["shape"],
        static(tf.reshape(x, [n, 37]))["shape"],
        static(tf.tile(tf.zeros([1, 1]), [n, 7]))["shape"],
    ]


def case_mask_of_a_tensor_of_unknown_rank() -> Any:
    x, mask = tf.placeholder(tf.int32), tf.placeholder(tf.bool, [None])
    masked = [tf.boolean_mask(x, mask), tf.boolean_mask(x, mask, axis=1)]
    return run(masked, {x: [[1, 2], [3, 4]], mask: [False, True]})


def case_gradient_of_a_function() -> Any:
    x = tf.constant(3.0)
    optimizer = tf.train.GradientDescentOptimizer(1.0)
    ((gradient, _),) = optimizer.compute_gradients(lambda: x * x, [x])
    return run(gradient)


def case_local_variable_by_position() -> Any:
    made = tf.get_local_variable("v", [2], tf.float64)
    return [static(made), made in tf.local_variables(), tf.trainable_variables()]


def case_gradient_of_rows_without_a_shape() -> Any:
    x = tf.placeholder(tf.float32)
    rows = tf.IndexedSlices(tf.constant([2.0]), tf.constant([0]))
    (result,) = tf.gradients(tf.identity(x), x, grad_ys=rows)
    return [run(item, {x: [1.0]}) for item in (result.values, result.indices)]


def case_batches_of_indices_of_unknown_rank() -> Any:
    rows, places = tf.reshape(tf.range(12), [2, 3, 2]), tf.placeholder(tf.int32)
    result = tf.gather_nd(rows, places, batch_dims=1)
    return run(result, {places: [[[2], [0]], [[1], [1]]]})


CASES = {
    "truth_of_a_number_and_none": lambda: tf.logical_and(tf.constant([1.0]), None),
    "softsign_refuses_whole_numbers": lambda: tf.nn.softsign(tf.constant([1, 2])),
    "places_of_texts_are_refused": lambda: tf.where(tf.constant(["a", ""])),
    "square_of_unit_size_is_called": lambda: [tf.eye(3).name, tf.constant(1.0).name],
    "variable_with_an_empty_name": lambda: tf.Variable(1.0, name="").name,
    "constant_named_by_a_number": lambda: tf.constant(1.0, name=3),
    "rows_that_are_none_are_refused": lambda: tf.Variable([1.0]).scatter_add(3),
    "old_division_of_two_dtypes": lambda: tf.div(tf.constant([1.0]), tf.constant([1])),
    "rows_for_nothing_are_refused": lambda: tf.scatter_nd([[0]], [1], tf.constant([0])),
}
