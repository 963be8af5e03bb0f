"""Brackets, gather, slice and the other ways to take a part of a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tf1.look import facts, names_of, run, static, tf


def cube() -> Any:
    return tf.constant(np.arange(24.0, dtype=np.float32).reshape(2, 3, 4))


def case_brackets_take_bounds_that_are_tensors() -> Any:
    low, high = tf.constant(1), tf.constant(3)
    return run(cube()[:, low:high, 0])


def batch() -> Any:
    return tf.placeholder(tf.float32, [None, 3])


CASES = {
    "brackets_refuse_an_index_out_of_range": lambda: cube()[2],
    "brackets_refuse_a_negative_index_out_of_range": lambda: cube()[-3],
    "brackets_refuse_too_many": lambda: cube()[0, 0, 0, 0],
    "brackets_refuse_a_fraction": lambda: cube()[1.5],
    "brackets_refuse_a_word": lambda: cube()["word"],
    "brackets_refuse_two_ellipses": lambda: cube()[..., 0, ...],
    "brackets_refuse_a_stride_of_zero": lambda: cube()[::0],
    "brackets_of_a_scalar_are_refused": lambda: tf.constant(1.0)[0],
    "brackets_number_their_names": lambda: [cube()[0].name, cube()[1].name],
    "gather_refuses_float_indices": lambda: tf.gather([1.0, 2.0], [0.0]),
    "split_takes_a_negative_axis": lambda: [
        facts(part) for part in tf.split([[1, 2], [4, 5]], [1, 1], axis=-1)
    ],
    "split_that_leaves_a_rest_is_refused": lambda: tf.split(tf.range(10), 3),
    "split_names_its_parts": lambda: names_of(tf.split(tf.zeros([4]), 2, name="parts")),
    "split_of_an_unknown_size": lambda: [static(part) for part in tf.split(batch(), 2)],
    "unstack_of_an_unknown_size_is_refused": lambda: tf.unstack(batch()),
    "unstack_takes_the_number_from_the_caller": lambda: [
        static(part) for part in tf.unstack(batch(), num=2)
    ],
    "unstack_refuses_a_bad_axis": lambda: tf.unstack([[1, 2]], axis=2),
    "where_refuses_one_branch_alone": lambda: tf.where([True], x=[1.0]),
    "where_refuses_a_condition_of_numbers": lambda: tf.where([1.0], [1.0], [2.0]),
    "one_hot_refuses_float_indices": lambda: tf.one_hot([1.0], 2),
    "one_hot_refuses_values_of_two_dtypes": lambda: tf.one_hot(
        [1], 2, on_value=1.0, off_value=0
    ),
}

FACTS = {
    "brackets_take_one": lambda: cube()[1],
    "brackets_take_from_the_end": lambda: cube()[-1, -1],
    "brackets_take_an_element": lambda: cube()[0, 1, 2],
    "brackets_take_a_range": lambda: cube()[:, 1:3],
    "brackets_take_a_stride": lambda: cube()[0, 0, ::2],
    "brackets_go_backwards": lambda: cube()[0, ::-1, 0],
    "brackets_take_an_ellipsis": lambda: cube()[..., 0],
    "brackets_add_an_axis_by_none": lambda: cube()[0, None, :, 1],
    "brackets_add_an_axis_by_newaxis": lambda: tf.constant([1.0, 2.0])[:, tf.newaxis],
    "brackets_take_an_empty_range": lambda: cube()[0, 0, 2:2],
    "brackets_cut_a_range_that_is_too_long": lambda: cube()[0, 0, 2:99],
    "brackets_take_negative_bounds": lambda: cube()[0, 0, -3:-1],
    "brackets_can_be_chained": lambda: cube()[1][2][3],
    "brackets_take_a_numpy_integer": lambda: cube()[np.int64(1), 0],
    "gather_takes_rows": lambda: tf.gather([[1, 2], [3, 4]], [1, 1, 0]),
    "gather_takes_one_row": lambda: tf.gather([[1, 2], [3, 4]], 1),
    "gather_with_a_matrix_of_indices": lambda: tf.gather(
        [1.0, 2.0, 3.0], [[0, 1], [2, 2]], name="mine"
    ),
    "slice_takes_a_box": lambda: tf.slice(cube(), [0, 1, 2], [1, 2, 2]),
    "slice_takes_the_rest_by_minus_one": lambda: tf.slice(
        cube(), [1, 0, 2], [-1, 1, -1]
    ),
    "one_hot_of_a_vector": lambda: tf.one_hot([0, 2, -1, 5], 3),
    "one_hot_with_dtype": lambda: tf.one_hot([1], 2, dtype=tf.int64),
    "one_hot_along_the_first_axis": lambda: tf.one_hot([0, 1], 3, axis=0),
    "one_hot_of_a_matrix": lambda: tf.one_hot([[0], [1]], 2, name="hot"),
}

RUNS = {
    "gather_of_constants_out_of_range": lambda: tf.gather([1.0], [3]),
    "slice_beyond_the_end_is_refused": lambda: tf.slice(cube(), [0, 0, 3], [1, 1, 2]),
    "split_of_sizes_that_do_not_add_up": lambda: tf.split(tf.range(10), [4, 4]),
}

STATICS = {
    "brackets_of_a_batch_keep_the_unknown_size": lambda: batch()[:, 0],
    "brackets_cut_an_unknown_size": lambda: batch()[1:],
    "brackets_of_a_variable": lambda: tf.Variable([1.0, 2.0])[0],
    "brackets_of_unknown_rank": lambda: tf.placeholder(tf.float32)[0],
}
