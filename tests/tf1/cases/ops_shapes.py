"""Functions that change or tell the shape of a tensor, and shapes known in part."""

from __future__ import annotations

from typing import Any

from tests.tf1.look import facts, run, static, tf

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


CASES = {
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
}

RUNS = {
    "reshape_of_two_unknown_sizes": lambda: tf.reshape(MATRIX, [-1, -1]),
    "transpose_refuses_an_order_with_a_repeat": lambda: tf.transpose(MATRIX, [0, 0]),
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
}
