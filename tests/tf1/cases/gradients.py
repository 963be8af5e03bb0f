"""Gradients: of each operation by values, which exist, how they add up, and where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tf1.look import Case, makes_case, run, tf

VECTOR = [0.5, 2.0, 3.0]
OTHER = [1.5, 2.0, 1.0]
MATRIX = [[1.0, 2.0, 4.0], [3.0, 0.5, 2.5]]
COLUMN = [[2.0], [3.0]]

# What is differentiated by VECTOR.
OF_A_VECTOR: dict[str, Callable[[Any], Any]] = {
    "abs": lambda x: tf.abs(x - 1.0),
    "sign": lambda x: tf.sign(x),
    "negative": lambda x: tf.negative(x),
    "square": lambda x: tf.square(x),
    "sqrt": lambda x: tf.sqrt(x),
    "rsqrt": lambda x: tf.rsqrt(x),
    "exp": lambda x: tf.exp(x),
    "log": lambda x: tf.log(x),
    "log1p": lambda x: tf.log1p(x),
    "sin": lambda x: tf.sin(x),
    "cos": lambda x: tf.cos(x),
    "tanh": lambda x: tf.tanh(x),
    "sigmoid": lambda x: tf.sigmoid(x),
    "reciprocal": lambda x: tf.reciprocal(x),
    "identity": lambda x: tf.identity(x),
    "stop_gradient": lambda x: x * tf.stop_gradient(x),
    "power_of_a_number": lambda x: x**3.0,
    "power_to_a_tensor": lambda x: 2.0**x,
    "power_of_zero": lambda x: (x - 2.0) ** 2.0,
    "quotient_by_it": lambda x: 6.0 / x,
    "remainder": lambda x: (x + 0.25) % 2.0,
    "floor_division": lambda x: x // 2.0,
    "number_minus_it": lambda x: 1.0 - x,
    "reduce_sum": lambda x: tf.reduce_sum(x),
    "reduce_mean": lambda x: tf.reduce_mean(x),
    "reduce_max": lambda x: tf.reduce_max(x),
    "reduce_min": lambda x: tf.reduce_min(x),
    "reduce_prod": lambda x: tf.reduce_prod(x),
    "reduce_max_with_a_tie": lambda x: tf.reduce_max(tf.concat([x, x], 0)),
    "reduce_prod_with_a_zero": lambda x: tf.reduce_prod(x - 2.0),
    "maximum_with_a_tie": lambda x: tf.maximum(x, 2.0),
    "minimum_with_a_tie": lambda x: tf.minimum(x, 2.0),
    "clip_by_value": lambda x: tf.clip_by_value(x, 1.0, 2.5),
    "clip_by_norm": lambda x: tf.clip_by_norm(x, 2.0),
    "add_n": lambda x: tf.add_n([x, x, 2.0 * x]),
    "cast": lambda x: tf.cast(tf.cast(x, tf.float64) * 3.0, tf.float32),
    "cast_to_int": lambda x: tf.cast(tf.cast(x, tf.int32), tf.float32) + x,
    "reshape": lambda x: tf.reshape(x, [3, 1]) * [[1.0], [2.0], [3.0]],
    "expand_dims": lambda x: tf.expand_dims(x, 0) * [[1.0], [2.0]],
    "squeeze": lambda x: tf.squeeze(tf.reshape(x, [1, 3])) * OTHER,
    "tile": lambda x: tf.tile(x, [2]) * [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    "pad": lambda x: tf.pad(x, [[1, 2]]) * [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    "concat": lambda x: tf.concat([x, 2.0 * x], 0) * [1.0, 2, 3, 4, 5, 6],
    "stack": lambda x: tf.stack([x, x]) * [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]],
    "unstack": lambda x: tf.unstack(x)[1] * 5.0,
    "split": lambda x: tf.split(x, [1, 2])[1] * [5.0, 6.0],
    "slice": lambda x: tf.slice(x, [1], [1]) * 5.0,
    "bracket": lambda x: x[1] * 5.0,
    "bracket_with_a_stride": lambda x: x[::2] * [5.0, 6.0],
    "where": lambda x: tf.where(x > 1.0, x * 2.0, x * 7.0),
    "zeros_like": lambda x: tf.zeros_like(x) + x,
    "fill": lambda x: tf.fill([4], x[0]),
    "l2_loss": lambda x: tf.nn.l2_loss(x),
    "squared_difference": lambda x: tf.squared_difference(x, OTHER),
    "loop_that_also_takes_it_from_outside": lambda x: tf.while_loop(
        lambda i, _: i < 3, lambda i, item: (i + 1, item * x), [0, x]
    )[1],
}

# What is differentiated by both.
OF_TWO: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda x, y: x + y,
    "difference": lambda x, y: x - y,
    "product": lambda x, y: x * y,
    "quotient": lambda x, y: x / y,
    "divide": lambda x, y: tf.divide(x, y),
    "power": lambda x, y: x**y,
    "maximum": lambda x, y: tf.maximum(x, y),
    "minimum": lambda x, y: tf.minimum(x, y),
    "squared_difference": lambda x, y: tf.squared_difference(x, y),
    "remainder": lambda x, y: x % y,
    "product_of_matrices": lambda x, y: tf.matmul(x, y, transpose_a=True),
}

# What is differentiated by MATRIX.
OF_A_MATRIX: dict[str, Callable[[Any], Any]] = {
    "transpose": lambda x: tf.transpose(x) * [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
    "reduce_sum_of_rows": lambda x: tf.reduce_sum(x, 1) * [1.0, 2.0],
    "reduce_mean_of_columns": lambda x: tf.reduce_mean(x, 0) * [1.0, 2.0, 3.0],
    "reduce_max_of_rows": lambda x: tf.reduce_max(x, 1) * [1.0, 2.0],
    "reduce_prod_of_rows": lambda x: tf.reduce_prod(x, 1) * [1.0, 2.0],
    "reduce_sum_that_keeps_axes": lambda x: x / tf.reduce_sum(x, 1, keepdims=True),
    "matmul": lambda x: tf.matmul(x, [[1.0], [2.0], [3.0]]) * COLUMN,
    "matmul_that_transposes_the_right": lambda x: tf.matmul(
        [[1.0, 2.0, 3.0]], x, transpose_b=True
    ),
    "matmul_that_transposes_the_left": lambda x: tf.matmul(x, COLUMN, transpose_a=True),
    "bracket_of_a_box": lambda x: x[1:, ::2] * [[5.0, 6.0]],
    "softmax": lambda x: tf.nn.softmax(x) * [[1.0, 2.0, 3.0]],
    "gather_along_columns": lambda x: tf.gather(x, [2, 0, 2], axis=1) * VECTOR,
    "global_norm": lambda x: tf.global_norm([x]),
    "clip_by_global_norm": lambda x: tf.clip_by_global_norm([x], 2.0)[0][0],
}


@makes_case
def of_one(function: Callable[[Any], Any], value: Any) -> Any:
    x = tf.constant(value)
    result = tf.gradients(function(x), x)
    return run([item for item in result if item is not None])


@makes_case
def of_two(name: str) -> Any:
    x, y = tf.constant(MATRIX), tf.constant(COLUMN)
    return run(tf.gradients(OF_TWO[name](x, y), [x, y]))


def case_gradient_of_gather_is_sparse() -> Any:
    table = tf.constant(MATRIX)
    (result,) = tf.gradients(tf.gather(table, [1, 0, 1]) * COLUMN[0], table)
    kinds = [type(result).__name__, isinstance(result, tf.IndexedSlices)]
    return [kinds, run([result.indices, result.values, result.dense_shape])]


def case_gradient_of_gather_and_a_dense_use_is_dense() -> Any:
    table = tf.constant(MATRIX)
    total = tf.reduce_sum(tf.gather(table, [1])) + tf.reduce_sum(tf.square(table))
    (result,) = tf.gradients(total, table)
    return run(tf.convert_to_tensor(result))


def case_gradient_of_two_gathers_is_sparse() -> Any:
    table = tf.constant(MATRIX)
    total = tf.reduce_sum(tf.gather(table, [1])) + tf.reduce_sum(tf.gather(table, [0]))
    (result,) = tf.gradients(total, table)
    fetched = run(result)
    return [type(fetched).__name__, fetched.indices, fetched.values]


def float64() -> Any:
    x = tf.constant(np.linspace(0.1, 0.9, 3))
    return run(tf.gradients(tf.tanh(tf.matmul([x], [x], transpose_b=True)), x))


def is_none(gradients: list[Any]) -> list[bool]:
    return [gradient is None for gradient in gradients]


def connected(**options: Any) -> Any:
    x, y = tf.constant([1.0, 2.0]), tf.constant([3.0])
    result = tf.gradients(x * 2.0, [x, y], **options)
    values = run([item for item in result if item is not None])
    return [is_none(result), values]


def weighted(weights: Any) -> Any:
    x = tf.constant([1.0, 2.0])
    return run(tf.gradients([x * 3.0, x * x], x, grad_ys=weights))


def second() -> Any:
    x = tf.constant([1.0, 2.0])
    (first,) = tf.gradients(x**3.0, x)
    return run([first, *tf.gradients(first, x)])


def case_gradient_of_an_integer_path_is_none() -> Any:
    x = tf.constant([1, 2])
    return is_none(tf.gradients(x * 2, x))


def case_gradients_have_a_name_scope() -> Any:
    x = tf.constant(2.0, name="x")
    first = tf.gradients(tf.sin(x, name="wave"), x)[0].name
    second = tf.gradients(tf.cos(x, name="hill"), x)[0].name
    third = tf.gradients(tf.sin(x), x, name="slope")[0].name
    return [name.split("/")[0] for name in (first, second, third)]


def devices(colocate: bool) -> Any:
    with tf.device("/job:worker/task:1"):
        x = tf.constant([1.0, 2.0])
        y = tf.tanh(x)
    with tf.device("/job:ps/task:0"):
        (result,) = tf.gradients(y, x, colocate_gradients_with_ops=colocate)
    return result.device


def case_gradients_may_be_gated() -> Any:
    x, y = tf.constant(3.0), tf.constant(4.0)
    return run(tf.gradients(x * y, [x, y], gate_gradients=True))


def case_gradient_of_what_is_not_connected_has_the_shape_of_x() -> Any:
    x, y = tf.constant(3.0), tf.constant([[4.0, 5.0]])
    (result,) = tf.gradients(x, [y], unconnected_gradients="zero")
    return run(result)


CASES: dict[str, Case] = {
    **{
        f"gradient_of_{item}": of_one(OF_A_VECTOR[item], VECTOR) for item in OF_A_VECTOR
    },
    **{
        f"gradient_of_{item}": of_one(OF_A_MATRIX[item], MATRIX) for item in OF_A_MATRIX
    },
    **{f"gradients_of_a_{item}_with_broadcasting": of_two(item) for item in OF_TWO},
    "gradient_in_float64": float64,
    "gradient_of_what_is_not_connected_is_none": connected,
    "gradient_of_what_is_not_connected_may_be_zero": lambda: connected(
        unconnected_gradients="zero"
    ),
    "gradients_are_weighted": lambda: weighted([[1.0, 10.0], [2.0, 3.0]]),
    "gradients_may_be_weighted_in_part": lambda: weighted([None, [2.0, 3.0]]),
    "gradients_refuse_too_few_weights": lambda: weighted([[1.0, 1.0]]),
    "gradients_refuse_weights_of_another_shape": lambda: weighted(
        [[1.0, 1.0, 1.0], None]
    ),
    "gradients_refuse_weights_of_another_dtype": lambda: weighted(
        [tf.constant([1, 1]), None]
    ),
    "gradients_of_gradients": second,
    "gradients_take_the_device_of_the_scope": lambda: devices(colocate=False),
    "gradients_may_follow_the_forward_operation": lambda: devices(colocate=True),
}
