"""Small things that programs rely on, and arguments that are none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tf1.attempts import attempt, name_of
from tests.tf1.look import (
    Case,
    facts,
    initialized,
    kind_of,
    makes_case,
    names_of,
    run,
    started,
    static,
    tf,
)


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


class Mine(Exception):
    """An error that nobody knows."""


@makes_case
def raised_in_a_function(error: Callable[[], BaseException]) -> Any:
    """Return a case: a Python function in the graph raises."""

    def fail() -> Any:
        raise error()

    value = tf.py_func(fail, [], tf.float32)
    return run(value)


@makes_case
def asked_to_stop(reason: Any, *, handling: bool) -> Any:
    """Return a case: something is given to a coordinator, while an error is handled."""
    coord = tf.train.Coordinator()

    def both() -> Any:
        coord.request_stop(reason)
        coord.join([])
        return coord.should_stop()

    if not handling:
        return attempt(both)
    try:
        raise KeyError("met")
    except KeyError:
        return attempt(both)


@makes_case
def watched(loss: Any) -> Any:
    """Return a case: a loss of this form is watched for NaN."""
    x = tf.constant(loss)
    with tf.train.MonitoredSession(hooks=[tf.train.NanTensorHook(x)]) as session:
        try:
            return session.run(x)
        except Exception as error:
            return name_of(error)


@makes_case
def part_of(**named: Any) -> Any:
    """Return a case: what initializers of a variable in parts are told."""
    log: list[Any] = []

    def initial(shape: Any, dtype: Any, partition_info: Any = None) -> Any:
        part = partition_info
        log.append([list(shape), list(part.full_shape), list(part.var_offset)])
        log.append([part.single_offset(shape), part.single_slice_dim(shape)])
        return tf.ones(shape, dtype)

    tf.get_variable("w", initializer=initial, **named_for(named))
    return log


def named_for(named: dict[str, Any]) -> dict[str, Any]:
    partitioner = tf.fixed_size_partitioner(named["parts"], named.get("axis", 0))
    return {"shape": named["shape"], "partitioner": partitioner}


def case_the_spread_of_parts() -> Any:
    """The spread of the values is that of the whole, whatever the parts."""
    tf.set_random_seed(3)
    partitioner = tf.fixed_size_partitioner(50)
    initializer = tf.variance_scaling_initializer(distribution="uniform")
    w = tf.get_variable("w", [300, 5], initializer=initializer, partitioner=partitioner)
    with initialized() as session:
        most = np.abs(session.run(w.as_tensor())).max()
    return bool(0.09 < most <= 0.1)


ERRORS: dict[str, Callable[[], BaseException]] = {
    "a_value_error": lambda: ValueError("a"),
    "a_type_error": lambda: TypeError("a"),
    "an_end_of_an_iteration": lambda: StopIteration(),
    "a_lack_of_memory": lambda: MemoryError(),
    "a_part_not_implemented": lambda: NotImplementedError("a"),
    "a_key_error": lambda: KeyError("a"),
    "an_index_error": lambda: IndexError("a"),
    "a_division_by_zero": lambda: ZeroDivisionError(),
    "an_error_of_the_system": lambda: OSError("a"),
    "a_failed_assertion": lambda: AssertionError("a"),
    "an_error_of_ones_own": lambda: Mine("a"),
    "an_aborted_error": lambda: tf.errors.AbortedError(None, None, "a"),
    "an_end_of_the_input": lambda: tf.errors.OutOfRangeError(None, None, "a"),
}

GIVEN: dict[str, Any] = {
    **{"a_text": "a", "an_empty_text": "", "nought": 0, "one": 1, "a_list": [1]},
    **{"an_empty_list": [], "a_class": ValueError, "an_error": ValueError("a")},
    **{"two_in_a_tuple": (1, 2), "three_times_none": (None, None, None)},
    "an_error_in_a_tuple": (ValueError, ValueError("a"), None),
}


CASES: dict[str, Case] = {
    "truth_of_a_number_and_none": lambda: tf.logical_and(tf.constant([1.0]), None),
    "softsign_refuses_whole_numbers": lambda: tf.nn.softsign(tf.constant([1, 2])),
    "places_of_texts_are_refused": lambda: tf.where(tf.constant(["a", ""])),
    "square_of_unit_size_is_called": lambda: [tf.eye(3).name, tf.constant(1.0).name],
    "variable_with_an_empty_name": lambda: tf.Variable(1.0, name="").name,
    "constant_named_by_a_number": lambda: tf.constant(1.0, name=3),
    "rows_that_are_none_are_refused": lambda: tf.Variable([1.0]).scatter_add(3),
    "old_division_of_two_dtypes": lambda: tf.div(tf.constant([1.0]), tf.constant([1])),
    "rows_for_nothing_are_refused": lambda: tf.scatter_nd([[0]], [1], tf.constant([0])),
    **{
        f"a_function_raises_{name}": raised_in_a_function(error)
        for name, error in ERRORS.items()
    },
    **{
        f"asked_to_stop_by_{name}{after}": asked_to_stop(inputs, handling=handling)
        for name, inputs in GIVEN.items()
        for handling, after in ((False, ""), (True, "_while_one_is_handled"))
    },
    "a_loss_of_two_numbers": watched([1.0, 2.0]),
    "a_loss_of_two_numbers_one_none": watched([1.0, float("nan")]),
    "a_loss_in_a_list": watched([1.0]),
    "a_loss_in_a_list_that_is_none": watched([float("nan")]),
    "a_loss_that_is_whole": watched(1),
    "parts_of_a_row": part_of(shape=[7], parts=3),
    "parts_of_a_matrix": part_of(shape=[5, 2], parts=2),
    "parts_of_columns": part_of(shape=[2, 6], parts=3, axis=1),
    "one_part": part_of(shape=[4, 2], parts=1),
    "a_reduction_that_is_none": kind_of(
        lambda: tf.ConditionalAccumulator(tf.float32, reduction_type=None)
    ),
    "a_reader_of_none": kind_of(lambda: tf.train.NewCheckpointReader(None)),
    "a_checkpoint_that_is_none": kind_of(lambda: tf.train.checkpoint_exists(None)),
    "variables_of_none": kind_of(lambda: tf.train.list_variables(None)),
}
