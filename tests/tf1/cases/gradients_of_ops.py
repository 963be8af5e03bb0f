"""The gradient of each operation, by values; weights make every element count apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tf1.look import makes_case, run

VECTOR = [0.5, 2.0, 3.0]
OTHER = [1.5, 2.0, 1.0]
MATRIX = [[1.0, 2.0, 4.0], [3.0, 0.5, 2.5]]
COLUMN = [[2.0], [3.0]]

# What is differentiated by VECTOR.
OF_A_VECTOR: dict[str, Callable[[Any, Any], Any]] = {
    "abs": lambda tf, x: tf.abs(x - 1.0),
    "sign": lambda tf, x: tf.sign(x),
    "negative": lambda tf, x: tf.negative(x),
    "square": lambda tf, x: tf.square(x),
    "sqrt": lambda tf, x: tf.sqrt(x),
    "rsqrt": lambda tf, x: tf.rsqrt(x),
    "exp": lambda tf, x: tf.exp(x),
    "log": lambda tf, x: tf.log(x),
    "log1p": lambda tf, x: tf.log1p(x),
    "sin": lambda tf, x: tf.sin(x),
    "cos": lambda tf, x: tf.cos(x),
    "tanh": lambda tf, x: tf.tanh(x),
    "sigmoid": lambda tf, x: tf.sigmoid(x),
    "reciprocal": lambda tf, x: tf.reciprocal(x),
    "identity": lambda tf, x: tf.identity(x),
    "stop_gradient": lambda tf, x: x * tf.stop_gradient(x),
    "power_of_a_number": lambda tf, x: x**3.0,
    "power_to_a_tensor": lambda tf, x: 2.0**x,
    "power_of_zero": lambda tf, x: (x - 2.0) ** 2.0,
    "quotient_by_it": lambda tf, x: 6.0 / x,
    "remainder": lambda tf, x: (x + 0.25) % 2.0,
    "floor_division": lambda tf, x: x // 2.0,
    "number_minus_it": lambda tf, x: 1.0 - x,
    "reduce_sum": lambda tf, x: tf.reduce_sum(x),
    "reduce_mean": lambda tf, x: tf.reduce_mean(x),
    "reduce_max": lambda tf, x: tf.reduce_max(x),
    "reduce_min": lambda tf, x: tf.reduce_min(x),
    "reduce_prod": lambda tf, x: tf.reduce_prod(x),
    "reduce_max_with_a_tie": lambda tf, x: tf.reduce_max(tf.concat([x, x], 0)),
    "reduce_prod_with_a_zero": lambda tf, x: tf.reduce_prod(x - 2.0),
    "maximum_with_a_tie": lambda tf, x: tf.maximum(x, 2.0),
    "minimum_with_a_tie": lambda tf, x: tf.minimum(x, 2.0),
    "clip_by_value": lambda tf, x: tf.clip_by_value(x, 1.0, 2.5),
    "clip_by_norm": lambda tf, x: tf.clip_by_norm(x, 2.0),
    "add_n": lambda tf, x: tf.add_n([x, x, 2.0 * x]),
    "cast": lambda tf, x: tf.cast(tf.cast(x, tf.float64) * 3.0, tf.float32),
    "cast_to_int": lambda tf, x: tf.cast(tf.cast(x, tf.int32), tf.float32) + x,
    "reshape": lambda tf, x: tf.reshape(x, [3, 1]) * [[1.0], [2.0], [3.0]],
    "expand_dims": lambda tf, x: tf.expand_dims(x, 0) * [[1.0], [2.0]],
    "squeeze": lambda tf, x: tf.squeeze(tf.reshape(x, [1, 3])) * OTHER,
    "tile": lambda tf, x: tf.tile(x, [2]) * [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    "pad": lambda tf, x: tf.pad(x, [[1, 2]]) * [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    "concat": lambda tf, x: tf.concat([x, 2.0 * x], 0) * [1.0, 2, 3, 4, 5, 6],
    "stack": lambda tf, x: tf.stack([x, x]) * [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]],
    "unstack": lambda tf, x: tf.unstack(x)[1] * 5.0,
    "split": lambda tf, x: tf.split(x, [1, 2])[1] * [5.0, 6.0],
    "slice": lambda tf, x: tf.slice(x, [1], [1]) * 5.0,
    "bracket": lambda tf, x: x[1] * 5.0,
    "bracket_with_a_stride": lambda tf, x: x[::2] * [5.0, 6.0],
    "where": lambda tf, x: tf.where(x > 1.0, x * 2.0, x * 7.0),
    "zeros_like": lambda tf, x: tf.zeros_like(x) + x,
    "fill": lambda tf, x: tf.fill([4], x[0]),
    "l2_loss": lambda tf, x: tf.nn.l2_loss(x),
    "squared_difference": lambda tf, x: tf.squared_difference(x, OTHER),
    "loop_that_also_takes_it_from_outside": lambda tf, x: tf.while_loop(
        lambda i, _: i < 3, lambda i, item: (i + 1, item * x), [0, x]
    )[1],
}

# What is differentiated by both.
OF_TWO: dict[str, Callable[[Any, Any, Any], Any]] = {
    "sum": lambda tf, x, y: x + y,
    "difference": lambda tf, x, y: x - y,
    "product": lambda tf, x, y: x * y,
    "quotient": lambda tf, x, y: x / y,
    "divide": lambda tf, x, y: tf.divide(x, y),
    "power": lambda tf, x, y: x**y,
    "maximum": lambda tf, x, y: tf.maximum(x, y),
    "minimum": lambda tf, x, y: tf.minimum(x, y),
    "squared_difference": lambda tf, x, y: tf.squared_difference(x, y),
    "remainder": lambda tf, x, y: x % y,
    "product_of_matrices": lambda tf, x, y: tf.matmul(x, y, transpose_a=True),
}

# What is differentiated by MATRIX.
OF_A_MATRIX: dict[str, Callable[[Any, Any], Any]] = {
    "transpose": lambda tf, x: tf.transpose(x) * [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
    "reduce_sum_of_rows": lambda tf, x: tf.reduce_sum(x, 1) * [1.0, 2.0],
    "reduce_mean_of_columns": lambda tf, x: tf.reduce_mean(x, 0) * [1.0, 2.0, 3.0],
    "reduce_max_of_rows": lambda tf, x: tf.reduce_max(x, 1) * [1.0, 2.0],
    "reduce_prod_of_rows": lambda tf, x: tf.reduce_prod(x, 1) * [1.0, 2.0],
    "reduce_sum_that_keeps_axes": lambda tf, x: x / tf.reduce_sum(x, 1, keepdims=True),
    "matmul": lambda tf, x: tf.matmul(x, [[1.0], [2.0], [3.0]]) * COLUMN,
    "matmul_that_transposes_the_right": lambda tf, x: tf.matmul(
        [[1.0, 2.0, 3.0]], x, transpose_b=True
    ),
    "matmul_that_transposes_the_left": lambda tf, x: tf.matmul(
        x, COLUMN, transpose_a=True
    ),
    "bracket_of_a_box": lambda tf, x: x[1:, ::2] * [[5.0, 6.0]],
    "softmax": lambda tf, x: tf.nn.softmax(x) * [[1.0, 2.0, 3.0]],
    "gather_along_columns": lambda tf, x: tf.gather(x, [2, 0, 2], axis=1) * VECTOR,
    "global_norm": lambda tf, x: tf.global_norm([x]),
    "clip_by_global_norm": lambda tf, x: tf.clip_by_global_norm([x], 2.0)[0][0],
}


@makes_case
def of_one(tf: Any, function: Callable[[Any, Any], Any], value: Any) -> Any:
    x = tf.constant(value)
    result = tf.gradients(function(tf, x), x)
    return run(tf, [item for item in result if item is not None])


@makes_case
def of_two(tf: Any, name: str) -> Any:
    x, y = tf.constant(MATRIX), tf.constant(COLUMN)
    return run(tf, tf.gradients(OF_TWO[name](tf, x, y), [x, y]))


def case_gradient_of_gather_is_sparse(tf: Any) -> Any:
    table = tf.constant(MATRIX)
    (result,) = tf.gradients(tf.gather(table, [1, 0, 1]) * COLUMN[0], table)
    kinds = [type(result).__name__, isinstance(result, tf.IndexedSlices)]
    return [kinds, run(tf, [result.indices, result.values, result.dense_shape])]


def case_gradient_of_gather_and_a_dense_use_is_dense(tf: Any) -> Any:
    table = tf.constant(MATRIX)
    total = tf.reduce_sum(tf.gather(table, [1])) + tf.reduce_sum(tf.square(table))
    (result,) = tf.gradients(total, table)
    return run(tf, tf.convert_to_tensor(result))


def case_gradient_of_two_gathers_is_sparse(tf: Any) -> Any:
    table = tf.constant(MATRIX)
    total = tf.reduce_sum(tf.gather(table, [1])) + tf.reduce_sum(tf.gather(table, [0]))
    (result,) = tf.gradients(total, table)
    fetched = run(tf, result)
    return [type(fetched).__name__, fetched.indices, fetched.values]


def float64(tf: Any) -> Any:
    x = tf.constant(np.linspace(0.1, 0.9, 3))
    return run(tf, tf.gradients(tf.tanh(tf.matmul([x], [x], transpose_b=True)), x))


CASES: dict[str, Callable[[Any], Any]] = {
    **{
        f"gradient_of_{item}": of_one(OF_A_VECTOR[item], VECTOR) for item in OF_A_VECTOR
    },
    **{
        f"gradient_of_{item}": of_one(OF_A_MATRIX[item], MATRIX) for item in OF_A_MATRIX
    },
    **{f"gradients_of_a_{item}_with_broadcasting": of_two(item) for item in OF_TWO},
    "gradient_in_float64": float64,
}
