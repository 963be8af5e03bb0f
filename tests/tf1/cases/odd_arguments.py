"""What is refused, and how: arguments that are none, in many small parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tf1.attempts import attempt, name_of
from tests.tf1.look import Case, initialized, kind_of, makes_case, run, tf


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
