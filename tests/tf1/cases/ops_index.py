"""Brackets, gather, slice and the other ways to take a part of a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tf1.look import facts, run, static


def cube(tf: Any) -> Any:
    return tf.constant(np.arange(24.0, dtype=np.float32).reshape(2, 3, 4))


def case_brackets_take_bounds_that_are_tensors(tf: Any) -> Any:
    low, high = tf.constant(1), tf.constant(3)
    return run(tf, cube(tf)[:, low:high, 0])


def batch(tf: Any) -> Any:
    return tf.placeholder(tf.float32, [None, 3])


CASES = {
    "brackets_take_one": lambda tf: facts(tf, cube(tf)[1]),
    "brackets_take_from_the_end": lambda tf: facts(tf, cube(tf)[-1, -1]),
    "brackets_take_an_element": lambda tf: facts(tf, cube(tf)[0, 1, 2]),
    "brackets_take_a_range": lambda tf: facts(tf, cube(tf)[:, 1:3]),
    "brackets_take_a_stride": lambda tf: facts(tf, cube(tf)[0, 0, ::2]),
    "brackets_go_backwards": lambda tf: facts(tf, cube(tf)[0, ::-1, 0]),
    "brackets_take_an_ellipsis": lambda tf: facts(tf, cube(tf)[..., 0]),
    "brackets_add_an_axis_by_none": lambda tf: facts(tf, cube(tf)[0, None, :, 1]),
    "brackets_add_an_axis_by_newaxis": lambda tf: facts(
        tf, tf.constant([1.0, 2.0])[:, tf.newaxis]
    ),
    "brackets_take_an_empty_range": lambda tf: facts(tf, cube(tf)[0, 0, 2:2]),
    "brackets_cut_a_range_that_is_too_long": lambda tf: facts(tf, cube(tf)[0, 0, 2:99]),
    "brackets_take_negative_bounds": lambda tf: facts(tf, cube(tf)[0, 0, -3:-1]),
    "brackets_can_be_chained": lambda tf: facts(tf, cube(tf)[1][2][3]),
    "brackets_take_a_numpy_integer": lambda tf: facts(tf, cube(tf)[np.int64(1), 0]),
    "brackets_refuse_an_index_out_of_range": lambda tf: cube(tf)[2],
    "brackets_refuse_a_negative_index_out_of_range": lambda tf: cube(tf)[-3],
    "brackets_refuse_too_many": lambda tf: cube(tf)[0, 0, 0, 0],
    "brackets_refuse_a_fraction": lambda tf: cube(tf)[1.5],
    "brackets_refuse_a_word": lambda tf: cube(tf)["word"],
    "brackets_refuse_two_ellipses": lambda tf: cube(tf)[..., 0, ...],
    "brackets_refuse_a_stride_of_zero": lambda tf: cube(tf)[::0],
    "brackets_of_a_scalar_are_refused": lambda tf: tf.constant(1.0)[0],
    "brackets_of_a_batch_keep_the_unknown_size": lambda tf: static(batch(tf)[:, 0]),
    "brackets_cut_an_unknown_size": lambda tf: static(batch(tf)[1:]),
    "brackets_of_a_variable": lambda tf: static(tf.Variable([1.0, 2.0])[0]),
    "brackets_of_unknown_rank": lambda tf: static(tf.placeholder(tf.float32)[0]),
    "brackets_number_their_names": lambda tf: [cube(tf)[0].name, cube(tf)[1].name],
    "gather_takes_rows": lambda tf: facts(tf, tf.gather([[1, 2], [3, 4]], [1, 1, 0])),
    "gather_takes_one_row": lambda tf: facts(tf, tf.gather([[1, 2], [3, 4]], 1)),
    "gather_with_a_matrix_of_indices": lambda tf: facts(
        tf, tf.gather([1.0, 2.0, 3.0], [[0, 1], [2, 2]], name="mine")
    ),
    "gather_of_constants_out_of_range": lambda tf: run(tf, tf.gather([1.0], [3])),
    "gather_refuses_float_indices": lambda tf: tf.gather([1.0, 2.0], [0.0]),
    "slice_takes_a_box": lambda tf: facts(tf, tf.slice(cube(tf), [0, 1, 2], [1, 2, 2])),
    "slice_takes_the_rest_by_minus_one": lambda tf: facts(
        tf, tf.slice(cube(tf), [1, 0, 2], [-1, 1, -1])
    ),
    "slice_beyond_the_end_is_refused": lambda tf: run(
        tf, tf.slice(cube(tf), [0, 0, 3], [1, 1, 2])
    ),
    "split_takes_a_negative_axis": lambda tf: [
        facts(tf, part) for part in tf.split([[1, 2], [4, 5]], [1, 1], axis=-1)
    ],
    "split_that_leaves_a_rest_is_refused": lambda tf: tf.split(tf.range(10), 3),
    "split_of_sizes_that_do_not_add_up": lambda tf: run(
        tf, tf.split(tf.range(10), [4, 4])
    ),
    "split_names_its_parts": lambda tf: [
        part.name for part in tf.split(tf.zeros([4]), 2, name="parts")
    ],
    "split_of_an_unknown_size": lambda tf: [
        static(part) for part in tf.split(batch(tf), 2)
    ],
    "unstack_of_an_unknown_size_is_refused": lambda tf: tf.unstack(batch(tf)),
    "unstack_takes_the_number_from_the_caller": lambda tf: [
        static(part) for part in tf.unstack(batch(tf), num=2)
    ],
    "unstack_refuses_a_bad_axis": lambda tf: tf.unstack([[1, 2]], axis=2),
    "where_refuses_one_branch_alone": lambda tf: tf.where([True], x=[1.0]),
    "where_refuses_a_condition_of_numbers": lambda tf: tf.where([1.0], [1.0], [2.0]),
    "one_hot_of_a_vector": lambda tf: facts(tf, tf.one_hot([0, 2, -1, 5], 3)),
    "one_hot_with_dtype": lambda tf: facts(tf, tf.one_hot([1], 2, dtype=tf.int64)),
    "one_hot_along_the_first_axis": lambda tf: facts(tf, tf.one_hot([0, 1], 3, axis=0)),
    "one_hot_of_a_matrix": lambda tf: facts(tf, tf.one_hot([[0], [1]], 2, name="hot")),
    "one_hot_refuses_float_indices": lambda tf: tf.one_hot([1.0], 2),
    "one_hot_refuses_values_of_two_dtypes": lambda tf: tf.one_hot(
        [1], 2, on_value=1.0, off_value=0
    ),
}
