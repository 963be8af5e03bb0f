"""`tf.gradients`: which of them exist, how they add up, where they are computed."""

from __future__ import annotations

from typing import Any

from tests.tf1.look import run, tf


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


CASES = {
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
