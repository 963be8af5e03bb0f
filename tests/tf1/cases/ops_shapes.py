"""Shapes that functions change or tell, and parts taken of a tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.tf1.attempts import attempt
from tests.tf1.look import Case, facts, makes_case, names_of, run, static, tf

MATRIX = [[1, 2, 3], [4, 5, 6]]


def batch() -> Any:
    return tf.placeholder(tf.float32, [None, 3], name="batch")


def case_bits() -> Any:
    x = tf.constant([[1.0, -2.5], [0.0, 3e38]])
    fed = tf.placeholder(tf.uint8, [None, None])
    return [
        facts(tf.bitcast(x, tf.int32)),
        facts(tf.bitcast(x, tf.uint8)),
        facts(tf.bitcast(x, tf.float64, name="wide")),
        facts(tf.bitcast(fed, tf.int32), {fed: [[1, 2, 3, 4], [0, 0, 0, 255]]}),
    ]


def case_bits_that_a_run_finds_too_few() -> Any:
    fed = tf.placeholder(tf.uint8, [None])
    return run(tf.bitcast(fed, tf.int32), {fed: [1, 2, 3]})


SHAPES = {"any": None, "some": [None], "rows": [None, 3], "whole": [2, 3], "none": []}


def fed(kind: str, dtype: str = "float32") -> Any:
    return tf.placeholder(getattr(tf, dtype), SHAPES[kind])


def number() -> Any:
    return tf.placeholder(tf.int32, [])


# What is done to a tensor of each of the shapes.
DONE = {
    "reshaped_by_a_stack": lambda x: tf.reshape(x, tf.stack([number(), 3])),
    "reshaped_by_a_list_of_tensors": lambda x: tf.reshape(x, [number(), -1, 3]),
    "reshaped_by_its_own_size": lambda x: tf.reshape(x, [tf.shape(x)[0], -1]),
    "reshaped_by_joined_sizes": lambda x: tf.reshape(
        x, tf.concat([[2], tf.reshape(number(), [1])], 0)
    ),
    "sliced": lambda x: tf.slice(x, [0, 1], [-1, 2]),
    "sliced_somewhere": lambda x: tf.slice(x, tf.placeholder(tf.int32, [2]), [1, 2]),
    "tiled": lambda x: tf.tile(x, [2, 2]),
    "chosen_by_itself": lambda x: tf.where(x > 0, x, tf.ones([2, 3])),
    "chosen_by_a_fed_one": lambda x: tf.where(fed("whole", "bool"), x, x),
    "chosen_by_rows": lambda x: tf.where(fed("some", "bool"), x, x),
    "filled_zeros": lambda x: tf.zeros([tf.shape(x)[0], 4]),
    "filled_by_a_stack": lambda x: tf.fill(tf.stack([number(), 3]), 1.0),
    "drawn": lambda x: tf.random_normal([number(), 3]),
    "spread": lambda x: tf.broadcast_to(x, [number(), 2, 3]),
}


def done(name: str, kind: str) -> Any:
    return lambda: static(DONE[name](fed(kind)))


def case_extremes_of_nothing() -> Any:
    nothing = tf.zeros([0, 2])
    return run([tf.reduce_logsumexp(nothing, 0), tf.reduce_sum(nothing, 0)])


def cube() -> Any:
    return tf.constant(np.arange(24.0, dtype=np.float32).reshape(2, 3, 4))


def case_brackets_take_bounds_that_are_tensors() -> Any:
    low, high = tf.constant(1), tf.constant(3)
    return run(cube()[:, low:high, 0])


if TYPE_CHECKING:  # Python 3.7 cannot evaluate this
    Made = Callable[[Any, Any], Any]

X = np.arange(24).reshape(2, 3, 4).astype("float32")

MADE: dict[str, Made] = {
    "joined": lambda x, axis: tf.concat([x, x], axis),
    "gathered": lambda x, axis: tf.gather(x, [1, 0], axis=axis),
    "taken_apart": lambda x, axis: tf.split(x, 2, axis),
    "turned": lambda x, axis: tf.reverse(x, tf.reshape(axis, [1])),
}


@makes_case
def fed_axis(make: Made) -> Any:
    """Tell shapes for a known and an unknown rank, and values for several axes."""
    axis, any_rank = tf.placeholder(tf.int32), tf.placeholder(tf.float32)
    made = make(tf.constant(X), axis)
    parts = made if isinstance(made, list) else [made]
    others = make(any_rank, axis)
    result = [attempt(run, parts, {axis: item}) for item in (0, 2, -2, 3)]
    others = others if isinstance(others, list) else [others]
    shapes = [static(item)["shape"] for item in (*parts, *others)]
    return [shapes, result]


def case_two_axes_are_turned() -> Any:
    axes = tf.placeholder(tf.int32, [2])
    turned = tf.reverse(tf.constant(X), axes)
    return [
        static(turned)["shape"],
        *[attempt(run, turned, {axes: item}) for item in ([0, 2], [1, -2])],
    ]


def case_two_axes_for_one_join() -> Any:
    axis = tf.placeholder(tf.int32)
    return run(tf.concat([X, X], axis), {axis: [0, 1]})


def case_tensors_that_cannot_be_joined() -> Any:
    return tf.concat([X, X[0]], tf.placeholder(tf.int32))


CASES: dict[str, Case] = {
    "reshape_refuses_another_count": lambda: tf.reshape(MATRIX, [4, 2]),
    "reshape_refuses_a_shape_of_fractions": lambda: tf.reshape(MATRIX, [2.0, 3.0]),
    "transpose_refuses_a_short_order": lambda: tf.transpose(MATRIX, [0]),
    "expand_dims_of_a_bad_axis": lambda: tf.expand_dims([1, 2], 3),
    "squeeze_refuses_a_size_that_is_not_one": lambda: tf.squeeze(MATRIX, [0]),
    "concat_refuses_scalars": lambda: tf.concat([1, 2], 0),
    "concat_refuses_other_sizes": lambda: tf.concat([[[1, 2]], [[3]]], 0),
    "concat_refuses_a_bad_axis": lambda: tf.concat([[1], [2]], 1),
    "stack_refuses_other_shapes": lambda: tf.stack(
        [tf.constant([1, 2]), tf.constant([3])]
    ),
    "stack_refuses_a_bad_axis": lambda: tf.stack([[1], [2]], axis=3),
    "tile_refuses_too_few_counts": lambda: tf.tile(MATRIX, [2]),
    "pad_refuses_an_unknown_mode": lambda: tf.pad([1], [[1, 1]], "ROUND"),
    "pad_refuses_too_few_rows": lambda: tf.pad(MATRIX, [[1, 1]]),
    "tensor_shape_of_unknown_rank": lambda: [
        str(tf.placeholder(tf.float32).shape),
        tf.placeholder(tf.float32).shape.ndims,
        tf.placeholder(tf.float32).shape.is_fully_defined(),
    ],
    "tensor_shape_of_unknown_rank_as_list": lambda: tf.placeholder(
        tf.float32
    ).shape.as_list(),
    "tensor_shape_counts_elements": lambda: [
        tf.zeros([2, 3]).shape.num_elements(),
        batch().shape.num_elements(),
        len(tf.zeros([2, 3]).shape),
        tf.zeros([2, 3]).shape == [2, 3],
    ],
    "set_shape_refuses_what_clashes": lambda: batch().set_shape([4, 2]),
    "bits_that_are_too_few": lambda: tf.bitcast(tf.constant([1, 2, 3]), tf.float64),
    **{f"{name}_of_{kind}": done(name, kind) for name in DONE for kind in SHAPES},
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
    **{name: fed_axis(make) for name, make in MADE.items()},
}


FACTS = {
    "reshape_keeps_the_order": lambda: tf.reshape(MATRIX, [3, 2]),
    "reshape_flattens": lambda: tf.reshape(MATRIX, [-1]),
    "reshape_to_a_scalar": lambda: tf.reshape([7], []),
    "transpose_turns_round": lambda: tf.transpose(MATRIX),
    "expand_dims_in_front": lambda: tf.expand_dims([1, 2], 0),
    "expand_dims_at_the_end": lambda: tf.expand_dims([1, 2], axis=-1),
    "squeeze_takes_all_ones_away": lambda: tf.squeeze([[[1], [2]]]),
    "squeeze_takes_one_axis_away": lambda: tf.squeeze([[[1], [2]]], [2]),
    "concat_of_rows": lambda: tf.concat([[[1, 2]], [[3, 4]]], 0),
    "concat_of_columns": lambda: tf.concat([[[1], [2]], [[3], [4]]], 1),
    "concat_along_a_negative_axis": lambda: tf.concat([[[1.0]], [[2.0, 3.0]]], axis=-1),
    "concat_of_one": lambda: tf.concat([[1, 2]], 0),
    "stack_makes_a_new_first_axis": lambda: tf.stack([[1, 2], [3, 4]]),
    "stack_makes_a_new_last_axis": lambda: tf.stack([[1, 2], [3, 4]], axis=-1),
    "tile_repeats": lambda: tf.tile([[1, 2]], [2, 2]),
    "tile_by_zero_is_empty": lambda: tf.tile([1, 2], [0]),
    "pad_puts_zeros_round": lambda: tf.pad([[1, 2]], [[1, 0], [0, 2]]),
    "pad_puts_a_value_round": lambda: tf.pad([1.0], [[1, 1]], constant_values=9.0),
    "pad_reflects": lambda: tf.pad([1, 2, 3], [[2, 1]], "REFLECT"),
    "shape_of_a_matrix": lambda: tf.shape(MATRIX),
    "shape_as_int64": lambda: tf.shape(MATRIX, out_type=tf.int64),
    "shape_of_a_scalar": lambda: tf.shape(1.0),
    "size_counts_elements": lambda: tf.size(MATRIX),
    "size_as_int64": lambda: tf.size(MATRIX, out_type=tf.int64),
    "rank_counts_axes": lambda: tf.rank(MATRIX),
    "rank_of_a_scalar": lambda: tf.rank(3.0),
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
    "reshape_of_two_unknown_sizes": lambda: tf.reshape(MATRIX, [-1, -1]),
    "transpose_refuses_an_order_with_a_repeat": lambda: tf.transpose(MATRIX, [0, 0]),
    "gather_of_constants_out_of_range": lambda: tf.gather([1.0], [3]),
    "slice_beyond_the_end_is_refused": lambda: tf.slice(cube(), [0, 0, 3], [1, 1, 2]),
    "split_of_sizes_that_do_not_add_up": lambda: tf.split(tf.range(10), [4, 4]),
}


STATICS = {
    "reshape_of_a_fed_batch": lambda: tf.reshape(batch(), [-1, 3, 1]),
    "reshape_of_a_fed_batch_to_a_vector": lambda: tf.reshape(batch(), [-1]),
    "transpose_takes_a_name": lambda: tf.transpose(MATRIX, name="turned"),
    "transpose_of_a_fed_batch": lambda: tf.transpose(batch()),
    "squeeze_of_a_fed_batch": lambda: tf.squeeze(
        tf.placeholder(tf.float32, [None, 1]), axis=1
    ),
    "tile_of_a_fed_batch": lambda: tf.tile(batch(), [1, 2]),
    "shape_of_unknown_rank": lambda: tf.shape(tf.placeholder(tf.float32)),
    "size_of_a_fed_batch": lambda: tf.size(batch()),
    "rank_of_unknown_rank": lambda: tf.rank(tf.placeholder(tf.float32)),
    "brackets_of_a_batch_keep_the_unknown_size": lambda: batch()[:, 0],
    "brackets_cut_an_unknown_size": lambda: batch()[1:],
    "brackets_of_a_variable": lambda: tf.Variable([1.0, 2.0])[0],
    "brackets_of_unknown_rank": lambda: tf.placeholder(tf.float32)[0],
}
