"""Reductions, matrix products, clipping and norms."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tf1.look import Case, facts, makes_case, names_of, run, static, tf

NAMES = ["reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod"]
MATRIX = [[1.0, 2.0, 3.0], [6.0, 5.0, -4.0]]

# How a reduction is called; the argument after the tensor is the axis.
CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "everything": ((MATRIX,), {}),
    "columns": ((MATRIX, 0), {}),
    "rows_by_negative_axis": ((MATRIX,), {"axis": -1}),
    "both_axes": ((MATRIX,), {"axis": [0, 1]}),
    "no_axis": ((MATRIX,), {"axis": []}),
    "rows_that_keep_their_axis": ((MATRIX,), {"axis": 1, "keepdims": True}),
    "everything_that_keeps_its_axes": ((MATRIX,), {"keepdims": True}),
    "integers": (([1, 2, 4],), {}),
    "a_scalar": ((3.0,), {}),
    "nothing": ((np.zeros([0], np.float32),), {}),
    "an_axis_that_is_not_there": ((MATRIX, 2), {}),
    "strings": ((["a"],), {}),
    "a_named_operation": ((MATRIX, 0), {"name": "chosen"}),
}


def reduced(name: str, call: str) -> Case:
    arguments, options = CALLS[call]
    return lambda: facts(getattr(tf, name)(*arguments, **options))


@makes_case
def of_a_fed_batch(name: str) -> Any:
    batch = tf.placeholder(tf.float32, [None, 3])
    over_rows = getattr(tf, name)(batch, axis=1)
    kept = getattr(tf, name)(batch, axis=0, keepdims=True)
    unknown = getattr(tf, name)(tf.placeholder(tf.float32), axis=0)
    return [static(over_rows), static(kept), static(unknown)]


def clipped_together(norm: float) -> Any:
    scaled, size = tf.clip_by_global_norm([[3.0, 0.0], None, [4.0]], norm)
    return [run([scaled[0], scaled[2], size]), scaled[1]]


def case_clip_by_global_norm_with_a_given_norm() -> Any:
    scaled, size = tf.clip_by_global_norm(
        [[3.0], [4.0]], 1.0, use_norm=tf.constant(10.0)
    )
    return run([scaled, size])


CASES: dict[str, Case] = {
    **{f"{name}_of_{call}": reduced(name, call) for name in NAMES for call in CALLS},
    **{f"{name}_of_a_fed_batch": of_a_fed_batch(name) for name in NAMES},
    "reduce_sum_refuses_bool": lambda: tf.reduce_sum([True]),
    "argmax_of_a_bad_axis": lambda: run(tf.argmax(MATRIX, 2)),
    "argmin_of_strings_is_refused": lambda: tf.argmin(["a"]),
    "matmul_refuses_sizes_that_clash": lambda: tf.matmul([[1.0, 2.0]], [[1.0]]),
    "matmul_refuses_vectors": lambda: tf.matmul([1.0], [1.0]),
    "matmul_refuses_bool": lambda: tf.matmul([[True]], [[True]]),
    "clip_by_global_norm_shortens_all": lambda: clipped_together(1.0),
    "clip_by_global_norm_names_its_results": lambda: names_of(
        tf.clip_by_global_norm([tf.ones([1]), tf.ones([1])], 1.0)[0]
    ),
    "global_norm_refuses_a_tensor": lambda: tf.global_norm(tf.constant([1.0])),
}

FACTS = {
    "reduce_sum_takes_the_axis_as_a_tensor": lambda: tf.reduce_sum(
        MATRIX, axis=tf.constant(1)
    ),
    "argmax_of_a_vector": lambda: tf.argmax([1.0, 5.0, 5.0]),
    "argmax_of_rows": lambda: tf.argmax(MATRIX, axis=1),
    "argmax_of_columns": lambda: tf.argmax(MATRIX, 0),
    "argmax_as_int32": lambda: tf.argmax(MATRIX, 1, output_type=tf.int32),
    "argmin_of_a_vector": lambda: tf.argmin([4, 1, 1]),
    "argmin_of_rows": lambda: tf.argmin(MATRIX, axis=-1),
    "argmin_as_int32": lambda: tf.argmin(MATRIX, 0, name="least", output_type=tf.int32),
    "matmul_of_integers": lambda: tf.matmul([[1, 2]], [[3], [4]]),
    "matmul_transposes_the_left_side": lambda: tf.matmul(
        [[1.0], [2.0]], [[3.0], [4.0]], transpose_a=True
    ),
    "clip_by_value_keeps_within": lambda: tf.clip_by_value([-2.0, 0.5, 3.0], -1.0, 1.0),
    "clip_by_norm_shortens": lambda: tf.clip_by_norm([3.0, 4.0], 1.0),
    "clip_by_norm_of_zero": lambda: tf.clip_by_norm([0.0, 0.0], 1.0),
    "global_norm_of_several": lambda: tf.global_norm([[3.0], [4.0]]),
    "global_norm_passes_over_none": lambda: tf.global_norm([[3.0], None, [[4.0]]]),
}

STATICS = {
    "matmul_of_a_fed_batch": lambda: tf.matmul(
        tf.placeholder(tf.float32, [None, 3]), tf.ones([3, 2])
    ),
    "matmul_takes_a_name": lambda: tf.matmul([[1.0]], [[1.0]], name="product"),
}
